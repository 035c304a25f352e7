// Rows of numbers in, rows out, a fixed number of clocks each: `benches/rows.py` says what is given and left.
#include "bench.h"

struct Input {
    const Port* port;
    const Array* rows;
};

struct Output {
    std::string name;
    const Port* port;
    std::vector<uint32_t> words;
};

void run(const Given& given, Arrays& left) {
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    const int64_t clocks = given["clocks"].integer();
    for (const auto& [name, rows] : given.arrays)
        if (name != "clocks" && name != "results") {
            inputs.push_back({&port(name), &rows});
            must_fit(*inputs.back().port, rows);
        }
    for (const std::string& name : given.names("results")) outputs.push_back({name, &port(name), {}});
    const uint64_t rows = inputs.front().rows->rows();
    for (Output& out : outputs) out.words.reserve(rows * ((out.port->bits + 31) / 32));
    const Clock clock;
    if (const Port* rst = find("rst")) put(*rst, 0);
    const double start = now();
    for (uint64_t i = 0; i < rows; ++i) {
        for (const Input& in : inputs) put_row(*in.port, in.rows->row(i), in.rows->row_bytes());
        for (int64_t c = 0; c < clocks; ++c) {
            clock.low();
            clock.high();
        }
        for (Output& out : outputs) {
            const unsigned words = (out.port->bits + 31) / 32;
            out.words.resize(out.words.size() + words, 0);
            const unsigned bytes = out.port->bytes < 4 * words ? out.port->bytes : 4 * words;
            std::memcpy(&out.words[out.words.size() - words], out.port->data, bytes);
        }
    }
    left["seconds"] = scalar(now() - start);
    left["cycles"] = scalar<int64_t>(static_cast<int64_t>(rows) * clocks);
    for (Output& out : outputs) left[out.name] = array(out.words, (out.port->bits + 31) / 32);
}
