// Reads what the bench is given, runs it, writes what it leaves: `bench GIVEN LEFT [WAVES]`.
// A file is a sequence of arrays: a line `NAME SIZE N DIMENSION…`, then the bytes.
#include "bench.h"

#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>

int64_t Array::integer(uint64_t i) const {
    int64_t value = 0;
    if (size == 8) std::memcpy(&value, bytes.data() + 8 * i, 8);
    else if (size == 4) { uint32_t word; std::memcpy(&word, bytes.data() + 4 * i, 4); value = word; }
    else if (size == 2) { uint16_t word; std::memcpy(&word, bytes.data() + 2 * i, 2); value = word; }
    else value = static_cast<unsigned char>(bytes[i]);
    return value;
}

double Array::real(uint64_t i) const {
    double value;
    std::memcpy(&value, bytes.data() + 8 * i, 8);
    return value;
}

const Port* find(const std::string& name) {
    for (unsigned i = 0; i < port_count; ++i)
        if (name == all_ports[i].name) return &all_ports[i];
    return nullptr;
}

const Port& port(const std::string& name) {
    const Port* found = find(name);
    if (!found) throw Failure("the top has no port " + name);
    return *found;
}

void must_fit(const Port& to, const Array& rows) {
    const uint64_t bytes = rows.row_bytes();
    for (uint64_t i = 0; i < rows.rows(); ++i)
        for (uint64_t b = to.bits / 8; b < bytes; ++b) {
            const unsigned char high = static_cast<unsigned char>(rows.row(i)[b]);
            if (b == to.bits / 8 ? high >> (to.bits % 8) : high)
                throw Failure("row " + std::to_string(i) + " of " + to.name + " has more than its " +
                              std::to_string(to.bits) + " bits");
        }
}

const Array& Given::operator[](const std::string& name) const {
    auto found = arrays.find(name);
    if (found == arrays.end()) throw Failure("the bench is not given " + name);
    return found->second;
}

std::vector<std::string> Given::names(const std::string& name) const {
    const Array& text = (*this)[name];
    std::istringstream lines(std::string(text.bytes.begin(), text.bytes.end()));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) found.push_back(line);
    return found;
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static Given read(const char* file) {
    Given given;
    std::ifstream in(file, std::ios::binary);
    for (std::string line; std::getline(in, line);) {
        std::istringstream head(line);
        std::string name;
        uint64_t dimensions = 0, total = 1;
        Array one;
        head >> name >> one.size >> dimensions;
        for (uint64_t d = 0; d < dimensions; ++d) {
            uint64_t length = 0;
            head >> length;
            one.shape.push_back(length);
            total *= length;
        }
        one.bytes.resize(total * one.size);
        in.read(one.bytes.data(), static_cast<std::streamsize>(one.bytes.size()));
        given.arrays[name] = std::move(one);
    }
    return given;
}

static void write(const char* file, const Arrays& left) {
    std::ofstream out(file, std::ios::binary);
    for (const auto& [name, one] : left) {
        out << name << ' ' << one.size << ' ' << one.shape.size();
        for (uint64_t length : one.shape) out << ' ' << length;
        out << '\n';
        out.write(one.bytes.data(), static_cast<std::streamsize>(one.bytes.size()));
    }
}

int main(int argc, char** argv) {
    try {
        const Given given = read(argv[1]);
        Arrays left;
        if (argc > 3) open_waves(argv[3]);
        run(given, left);
        close_waves();
        write(argv[2], left);
    } catch (const Failure& failure) {
        close_waves();
        std::cerr << failure.what() << '\n';
        return 1;
    }
    return 0;
}
