// Drives a sequencer with command streams, case after case: `benches/sequencer.py` says what is given and left.
#include "bench.h"

struct Head {
    const Port *valid, *payload, *released;
    uint64_t next = 0, end = 0;  // of the commands, which is the head and how many there are
    bool fresh = true;
};

struct Bus {
    const Port *valid, *source, *command;
};

static std::string indexed(const char* array, uint64_t i, const char* field) {
    return std::string(array) + "__" + std::to_string(i) + (*field ? std::string("__") + field : "");
}

void run(const Given& given, Arrays& left) {
    const Array &cases = given["cases"], &waits = given["waits"], &sizes = given["sizes"];
    const Array &payloads = given["payloads"], &releases = given["releases"];
    const uint64_t streams = sizes.shape[1], rules = waits.shape[1];
    const int64_t nodes = given["nodes"].integer();
    const Port &rst = port("rst"), &starved_port = port("starved"), &stuck_port = port("stuck");
    std::vector<Head> heads;
    for (uint64_t s = 0; s < streams; ++s)
        heads.push_back({&port(indexed("heads", s, "valid")), &port(indexed("heads", s, "payload")),
                         &port(indexed("released", s, ""))});
    std::vector<Bus> buses;
    for (int64_t b = 0; b < given["buses"].integer(); ++b)
        buses.push_back({&port(indexed("buses", b, "valid")), find(indexed("buses", b, "source")),
                         &port(indexed("buses", b, "command"))});
    std::vector<const Port*> waits_ports;
    for (uint64_t r = 0; r < rules; ++r) waits_ports.push_back(&port(indexed("timings__waits", r, "")));
    const Clock clock;
    std::vector<int64_t> issued, ends;
    uint64_t command = 0;
    const char* timings[] = {"timings__refresh", "timings__refi", "timings__due", "timings__apart"};
    const unsigned n_timings = std::size(timings), row = n_timings + 1;
    const double start = now();
    for (uint64_t c = 0; c < cases.rows(); ++c) {
        put(rst, 1);
        for (Head& head : heads) {
            put(*head.valid, 0);
            put(*head.payload, 0);
            put(*head.released, 0);
        }
        for (unsigned t = 0; t < n_timings; ++t)
            if (const Port* timing = find(timings[t])) put(*timing, cases.integer(row * c + t));
        for (uint64_t r = 0; r < rules; ++r) put(*waits_ports[r], waits.integer(c * rules + r));
        for (int n = 0; n < 2; ++n) {
            clock.low();
            clock.high();
        }
        put(rst, 0);
        for (uint64_t s = 0; s < streams; ++s) {
            heads[s].next = command;
            heads[s].end = command += sizes.integer(c * streams + s);
            heads[s].fresh = true;
        }
        int64_t at = 0, starved = 0, stuck = 0;
        const int64_t most = cases.integer(row * c + n_timings);
        while (at < most && !starved && !stuck) {
            bool any = false;
            for (Head& head : heads) {
                const bool there = head.next < head.end;
                any |= there;
                if (head.fresh) {
                    put(*head.valid, there);
                    if (there) put(*head.payload, payloads.integer(head.next));
                    head.fresh = false;
                }
                put(*head.released, there && releases.integer(head.next) <= at);
            }
            if (!any) break;
            clock.low();
            starved = get(starved_port);
            stuck = get(stuck_port);
            for (const Bus& bus : buses)
                if (get(*bus.valid)) {
                    const int64_t asker = bus.source ? get(*bus.source) : 0;
                    const int64_t row[] = {static_cast<int64_t>(c), asker, at, static_cast<int64_t>(get(*bus.command))};
                    issued.insert(issued.end(), row, row + 4);
                    if (asker >= nodes) {
                        heads[asker - nodes].next += 1;
                        heads[asker - nodes].fresh = true;
                    }
                }
            clock.high();
            at += 1;
        }
        const int64_t end[] = {at, starved, stuck};
        ends.insert(ends.end(), end, end + 3);
    }
    left["seconds"] = scalar(now() - start);
    left["issued"] = array(issued, 4);
    left["ends"] = array(ends, 3);
}
