// Feeds a PIM channel rows and data, notes what it issues and returns: `benches/channel.py` says what is given and left.
#include "bench.h"

struct Feed {
    const Port *valid, *ready, *payload;
    std::vector<std::vector<char>> words;
    uint64_t next = 0;
    bool taken = true, there = false;
};

struct Returns {
    const char* name;
    const Port *valid, *values;
    std::vector<uint16_t> words;
    std::vector<int64_t> clocks;
};

static Feed feed(const std::string& name) {
    return {&port(name + "__valid"), &port(name + "__ready"), &port(name + "__payload"), {}};
}

void run(const Given& given, Arrays& left) {
    const Array &rows = given["rows"], &data = given["data"], &lanes = given["lanes"];
    Feed feeds[] = {feed("rows"), feed("data")};
    for (uint64_t i = 0; i < rows.rows(); ++i) feeds[0].words.emplace_back(rows.row(i), rows.row(i) + 8);
    for (uint64_t i = 0; i < data.rows(); ++i) {  // a word and, above it, the lane
        std::vector<char> word(data.row(i), data.row(i) + data.row_bytes());
        const int64_t lane = lanes.integer(i);
        word.insert(word.end(), reinterpret_cast<const char*>(&lane), reinterpret_cast<const char*>(&lane) + 8);
        feeds[1].words.push_back(word);
    }
    Returns outs[] = {{"results", &port("results__valid"), &port("results__values"), {}, {}},
                      {"reads", &port("reads__valid"), &port("reads__values"), {}, {}}};
    const Port &valid = port("buses__0__valid"), &source = port("buses__0__source");
    const Port &command = port("buses__0__command"), &rst = port("rst");
    const Clock clk;
    put(rst, 1);
    for (Feed& one : feeds) put(*one.valid, 0);
    for (int n = 0; n < 2; ++n) {
        clk.low();
        clk.high();
    }
    put(rst, 0);
    std::vector<int64_t> issued;
    int64_t clock = 0, quiet = 0;
    const int64_t drain = given["drain"].integer();
    bool more = true;
    const double start = now();
    while (more || quiet < drain) {
        for (Feed& one : feeds) {
            if (!one.taken) continue;
            one.there = one.next < one.words.size();
            put(*one.valid, one.there);
            if (one.there) {
                const std::vector<char>& word = one.words[one.next++];
                put_row(*one.payload, word.data(), word.size());
            } else if (&one == feeds) {
                more = false;
            }
        }
        clk.low();
        for (Feed& one : feeds) one.taken = one.there && get(*one.ready);
        quiet += 1;
        if (get(valid)) {
            const int64_t row[] = {clock, static_cast<int64_t>(get(source)), static_cast<int64_t>(get(command))};
            issued.insert(issued.end(), row, row + 3);
            quiet = 0;
        }
        for (Returns& out : outs)
            if (get(*out.valid)) {
                const auto* words = static_cast<const uint16_t*>(out.values->data);
                out.words.insert(out.words.end(), words, words + out.values->bits / 16);
                out.clocks.push_back(clock);
            }
        clk.high();
        clock += 1;
    }
    left["seconds"] = scalar(now() - start);
    left["issued"] = array(issued, 3);
    left["underrun"] = scalar<int64_t>(get(port("underrun")));
    for (Returns& out : outs) {
        left[out.name] = array(out.words, out.values->bits / 16);
        left[std::string(out.name) + "_ck"] = array(out.clocks);
    }
}
