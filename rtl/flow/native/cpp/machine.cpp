// Starts the machine once and watches it: `benches/machine.py` says what is given and left.
#include "bench.h"

struct Bus {
    const Port *valid, *command;
};

static void edge(const Clock& clk) {
    clk.low();
    clk.high();
}

// What is seen at the ports, a clock after the other.
struct Seen {
    const Port &stage = port("stage"), &busy = port("busy"), &npu_done = port("npu_done"), &pim_done = port("pim_done");
    const Port* turn = find("turn");  // a port without bits is not there
    std::vector<Bus> buses;
    std::vector<int64_t> stages, dones, commands, at_work = std::vector<int64_t>(busy.bits);
    int64_t last_stage = 0, last_turn = 0;

    explicit Seen(int64_t channels) {
        for (int64_t c = 0; c < channels; ++c) {
            const std::string bus = "bus__" + std::to_string(c);
            buses.push_back({&port(bus + "__valid"), &port(bus + "__command")});
        }
    }

    void look(int64_t clock) {
        const int64_t now_stage = get(stage), now_turn = turn ? get(*turn) : 0;
        if (now_stage != last_stage || now_turn != last_turn) stages.insert(stages.end(), {clock, now_stage, now_turn});
        last_stage = now_stage;
        last_turn = now_turn;
        for (int64_t c = 0; c < static_cast<int64_t>(buses.size()); ++c) {
            const int64_t command = get(*buses[c].command);
            if (get(*buses[c].valid)) commands.insert(commands.end(), {clock, c, command});
        }
        if (get(npu_done)) dones.insert(dones.end(), {clock, 0});
        if (get(pim_done)) dones.insert(dones.end(), {clock, 1});
        const uint64_t working = get(busy);
        for (unsigned i = 0; i < busy.bits; ++i) at_work[i] += working >> i & 1;
    }
};

void run(const Given& given, Arrays& left) {
    const Port &rst = port("rst"), &start = port("start"), &layers = port("layers"), &over = port("done");
    const Port &at = port("host__at"), &word = port("host__word");
    const int64_t starts = given["start"].integer(), most = given["most"].integer();
    const uint64_t words = given["words"].integer(), width = given["width"].integer();
    const Clock clk;
    put(start, 0);
    put(layers, 0);
    put(at, 0);
    put(rst, 1);
    edge(clk);
    edge(clk);
    put(rst, 0);
    Seen seen(given["channels"].integer());
    int64_t clock = 0, done = -1;
    const double begun = now();
    while (done < 0) {
        put(start, clock == starts);
        put(layers, given["layers"].integer());
        clk.low();
        seen.look(clock);
        if (get(over)) done = clock;
        clk.high();
        clock += 1;
        if (clock >= most) throw Failure("not done after " + std::to_string(clock) + " clocks");
    }
    left["seconds"] = scalar(now() - begun);
    std::vector<uint8_t> held;
    for (uint64_t i = 0; i < words; ++i) {
        put(at, i);
        clk.low();
        const auto* bytes = static_cast<const uint8_t*>(word.data);
        held.insert(held.end(), bytes, bytes + width);
        clk.high();
    }
    left["scratchpad"] = array(held, width);
    left["stages"] = array(seen.stages, 3);
    left["dones"] = array(seen.dones, 2);
    left["commands"] = array(seen.commands, 3);
    left["busy"] = array(seen.at_work);
    left["done"] = scalar(done);
    left["cycles"] = scalar(clock);
}
