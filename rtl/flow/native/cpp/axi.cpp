// A host on AXI4-Lite with random stalls: `benches/axi.py` says what is given and left, and by which dice.
#include "bench.h"

static const int64_t AFTERWARDS = 12;  // as there
enum { AW, W, AR, B, R };              // channels, in the order of their paces
static const uint32_t SEEDS[] = {0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F, 0x165667B1};

// One of five. up: our own handshake signal, VALID or READY.
struct Channel {
    std::string name;
    const Port *ours, *theirs;
    std::vector<const Port*> payload;
    uint32_t state;
    bool up = false;
    Channel(int which, const char* n, const char* our, const char* their, std::vector<const char*> words)
        : name(n), ours(&port("s_axi_" + name + our)), theirs(&port("s_axi_" + name + their)), state(SEEDS[which]) {
        for (const char* word : words) payload.push_back(&port(std::string("s_axi_") + word));
        put(*ours, 0);
    }
    bool lucky(double pace) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state < pace * 4294967296.0;
    }
    void set(bool high) {
        up = high;
        put(*ours, high);
    }
};

// AW, W or AR: what is offered stays.
struct Source : Channel {
    Source(int which, const char* n, std::vector<const char*> words) : Channel(which, n, "valid", "ready", words) {}
    void drive(bool may, double pace, const Array& rows, uint64_t first) {
        if (up || !may || !lucky(pace)) return;
        set(true);
        for (uint64_t i = 0; i < payload.size(); ++i) put(*payload[i], rows.integer(first + i));
    }
    bool took() const { return up && get(*theirs); }
};

// B or R. first: the clock in which what stands there was first offered.
struct Sink : Channel {
    bool stood = false;
    int64_t first = 0;
    std::vector<int64_t> now;
    Sink(int which, const char* n, std::vector<const char*> words) : Channel(which, n, "ready", "valid", words) {}
    bool look(int64_t clock) {  // whether `now` is taken in this clock
        const bool there = get(*theirs);
        std::vector<int64_t> words;
        for (const Port* word : payload) words.push_back(get(*word));
        if (stood && (!there || words != now))
            throw Failure(name + " withdrew or changed a response in CK " + std::to_string(clock));
        if (!stood) first = clock;
        stood = there && !up;
        now = words;
        return there && up;
    }
};

struct Bus {
    const Port *valid, *source, *command;
};

void run(const Given& given, Arrays& left) {
    const Array &writes = given["writes"], &reads = given["reads"], &sizes = given["sizes"];
    const Array &paces = given["paces"], &eager = given["eager"];
    const int64_t depth = given["depth"].integer(), nodes = given["nodes"].integer(), most = given["most"].integer();
    const Port& rst = port("rst");
    Source aw(AW, "aw", {"awaddr"}), w(W, "w", {"wdata", "wstrb"}), ar(AR, "ar", {"araddr"});
    Sink b(B, "b", {"bresp"}), r(R, "r", {"rdata", "rresp"});
    std::vector<Bus> buses;
    for (int64_t n = 0; n < given["buses"].integer(); ++n) {
        const std::string name = "buses__" + std::to_string(n) + "__";
        buses.push_back({&port(name + "valid"), find(name + "source"), &port(name + "command")});
    }
    const Clock clock;
    std::vector<int64_t> written, read, issued, ends;
    int64_t first_write = 0, first_read = 0;
    const double start = now();
    for (uint64_t c = 0; c < sizes.rows(); ++c) {
        const int64_t number = static_cast<int64_t>(c);
        const int64_t n_writes = sizes.integer(2 * c), n_reads = sizes.integer(2 * c + 1);
        const auto brings = [&](int64_t k) { return writes.integer(4 * (first_write + k) + 3); };
        const bool ahead = eager.integer(c);
        std::vector<int64_t> before{0};  // commands, those of a write included
        for (int64_t k = 0; k < n_writes; ++k) before.push_back(before.back() + brings(k));
        put(rst, 1);
        for (Channel* channel : std::initializer_list<Channel*>{&aw, &w, &ar, &b, &r}) channel->set(false);
        b.stood = r.stood = false;
        for (int n = 0; n < 2; ++n) {
            clock.low();
            clock.high();
        }
        put(rst, 0);
        int64_t at[5] = {0, 0, 0, 0, 0}, gone = 0, quiet = 0, at_ck = 0;
        std::vector<int64_t> address_ck(n_writes), data_ck(n_writes), asked(n_reads);
        while (quiet < AFTERWARDS && at_ck < most) {
            const auto may = [&](int64_t k) {
                return k < n_writes && (ahead ? before[k + 1] - gone <= depth : k == at[B]);
            };
            aw.drive(may(at[AW]), paces.real(5 * c + AW), writes, 4 * (first_write + at[AW]));
            w.drive(may(at[W]), paces.real(5 * c + W), writes, 4 * (first_write + at[W]) + 1);
            ar.drive(at[AR] < n_reads, paces.real(5 * c + AR), reads, first_read + at[AR]);
            b.set(b.lucky(paces.real(5 * c + B)));
            r.set(r.lucky(paces.real(5 * c + R)));
            clock.low();
            const bool aw_took = aw.took(), w_took = w.took(), ar_took = ar.took();
            const bool said = b.look(at_ck), told = r.look(at_ck);
            if (aw_took) address_ck[at[AW]++] = at_ck;
            if (w_took) data_ck[at[W]++] = at_ck;
            if (ar_took) asked[at[AR]++] = at_ck;
            if (told) {
                const int64_t k = at[R]++;
                if (k >= at[AR]) throw Failure("a word in CK " + std::to_string(at_ck) + " that nobody reads");
                const int64_t row[] = {number, k, asked[k], r.first, r.now[0], r.now[1]};
                read.insert(read.end(), row, row + 6);
            }
            if (said) {
                const int64_t k = at[B]++;
                if (k >= at[AW] || k >= at[W])
                    throw Failure("a response in CK " + std::to_string(at_ck) + " to no write");
                const int64_t row[] = {number, k, address_ck[k], data_ck[k], b.first, at_ck, b.now[0]};
                written.insert(written.end(), row, row + 7);
                if (brings(k) && b.now[0] && !ahead) at[AW] = at[W] = at[B] = k;  // again
            }
            for (const Bus& bus : buses)
                if (get(*bus.valid)) {
                    const int64_t who = bus.source ? get(*bus.source) : 0;
                    const int64_t row[] = {number, at_ck, who, static_cast<int64_t>(get(*bus.command))};
                    issued.insert(issued.end(), row, row + 4);
                    gone += who == nodes;
                }
            const bool over = at[B] == n_writes && at[R] == n_reads && gone >= before.back();
            quiet = over ? quiet + 1 : 0;
            clock.high();
            if (aw_took) aw.set(false);
            if (w_took) w.set(false);
            if (ar_took) ar.set(false);
            at_ck += 1;
        }
        ends.push_back(at_ck);
        ends.push_back(quiet == AFTERWARDS);
        first_write += n_writes;
        first_read += n_reads;
    }
    left["seconds"] = scalar(now() - start);
    left["written"] = array(written, 7);
    left["read"] = array(read, 6);
    left["issued"] = array(issued, 4);
    left["ends"] = array(ends, 2);
}
