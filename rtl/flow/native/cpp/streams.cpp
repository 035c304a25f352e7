// Feeds and drains all streams of a top at once: `benches/streams.py` says what is given and left, and by which dice.
#include "bench.h"

#include <memory>

static const int64_t PATIENCE = 10000, AFTERWARDS = 100, TURN = 500;  // as there

struct Dice {
    uint32_t state;
    bool lucky(double pace) {
        if (pace == 1) return true;
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state < pace * 4294967296.0;
    }
};

static uint32_t seed(const std::string& name) {  // CRC-32, as zlib has it
    uint32_t crc = 0xFFFFFFFFu;
    for (unsigned char c : name) {
        crc ^= c;
        for (int k = 0; k < 8; ++k) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc | 1;
}

struct Stream {
    std::string name;
    const Port *valid, *ready, *payload;
    Dice dice;
    std::vector<int64_t> clocks;
    Stream(const std::string& n)
        : name(n), valid(&port(n + "__valid")), ready(&port(n + "__ready")), payload(&port(n + "__payload")),
          dice{seed(n)} {}
};

struct Source : Stream {
    const Array& words;
    uint64_t next = 0;
    bool offering = false;
    Source(const std::string& n, const Array& rows) : Stream(n), words(rows) {
        must_fit(*payload, rows);
        put(*valid, 0);
    }
    void drive(double pace) {
        if (offering) return;
        offering = next < words.rows() && dice.lucky(pace);
        put(*valid, offering);
        if (offering) {
            put_row(*payload, words.row(next), words.row_bytes());
            next += 1;
        }
    }
    void look(int64_t clock) {
        if (offering && get(*ready)) {
            clocks.push_back(clock);
            offering = false;
        }
    }
    bool done() const { return next == words.rows() && !get(*valid); }
};

struct Sink : Stream {
    uint64_t count;
    std::vector<uint64_t> taken;
    bool offered = false, up = false;
    uint64_t word = 0;
    Sink(const std::string& n, uint64_t many) : Stream(n), count(many) { put(*ready, 0); }
    void drive(double pace) {
        up = dice.lucky(pace);
        put(*ready, up);
    }
    void look(int64_t clock) {
        const bool there = get(*valid);
        const uint64_t its = there ? get(*payload) : 0;
        if (offered && (!there || its != word)) throw Failure(name + " withdrew its offer");
        offered = there && !up;
        word = its;
        if (up && there) {
            taken.push_back(its);
            clocks.push_back(clock);
        }
    }
    bool done() const { return taken.size() >= count; }
};

void run(const Given& given, Arrays& left) {
    std::vector<std::unique_ptr<Source>> sources;
    std::vector<std::unique_ptr<Sink>> sinks;
    for (const auto& [name, rows] : given.arrays) {
        if (name.rfind("in.", 0) == 0) sources.push_back(std::make_unique<Source>(name.substr(3), rows));
        if (name.rfind("out.", 0) == 0) sinks.push_back(std::make_unique<Sink>(name.substr(4), rows.integer()));
    }
    std::vector<double> paces;
    for (uint64_t i = 0; i < given["paces"].rows(); ++i) paces.push_back(given["paces"].real(i));
    const Clock clk;
    const Port& rst = port("rst");
    put(rst, 1);
    for (int n = 0; n < 3; ++n) {
        clk.low();
        clk.high();
    }
    put(rst, 0);
    clk.low();
    clk.high();  // a clock without reset before the first that counts
    const double start = now();
    int64_t clock = 0, end = -1;
    while (clock != end) {
        const double pace = paces[clock / TURN % paces.size()];
        for (auto& source : sources) source->drive(pace);
        for (auto& sink : sinks) sink->drive(pace);
        clk.low();
        for (auto& source : sources) source->look(clock);
        for (auto& sink : sinks) sink->look(clock);
        clk.high();
        clock += 1;
        if (end >= 0 || clock % 64) continue;
        std::string waiting;
        int64_t latest = 0;
        const auto see = [&](const auto& stream) {
            if (!stream->done()) waiting += (waiting.empty() ? "'" : ", '") + stream->name + "'";
            if (!stream->clocks.empty() && stream->clocks.back() > latest) latest = stream->clocks.back();
        };
        for (auto& source : sources) see(source);
        for (auto& sink : sinks) see(sink);
        if (waiting.empty()) end = clock + AFTERWARDS;
        if (clock >= latest + PATIENCE) throw Failure("waiting for [" + waiting + "]");
    }
    left["seconds"] = scalar(now() - start);
    left["cycles"] = scalar(clock);
    for (auto& source : sources) left[source->name + ".clock"] = array(source->clocks);
    for (auto& sink : sinks) {
        left[sink->name + ".clock"] = array(sink->clocks);
        left[sink->name] = array(sink->taken);
    }
}
