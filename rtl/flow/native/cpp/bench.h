// A bench: arrays in, ports of the top module by name, arrays out. `run` is the bench's own; all else is here.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// A port as Verilator keeps it: `bytes` of them at `data`, little-endian, of which the lower `bits` are used.
struct Port {
    const char* name;
    void* data;
    unsigned bytes;
    unsigned bits;
};

// Of the generated file `top.cpp`.
extern Port all_ports[];
extern const unsigned port_count;
void evaluate();
void open_waves(const char* file);
void close_waves();

// A failure that the user is told, in one sentence.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// An array of numpy: element size, shape, bytes.
struct Array {
    unsigned size = 8;
    std::vector<uint64_t> shape;
    std::vector<char> bytes;
    uint64_t rows() const { return shape.empty() ? 1 : shape[0]; }
    uint64_t row_bytes() const { return rows() ? bytes.size() / rows() : 0; }
    const char* row(uint64_t i) const { return bytes.data() + i * row_bytes(); }
    int64_t integer(uint64_t i = 0) const;
    double real(uint64_t i = 0) const;
};
using Arrays = std::map<std::string, Array>;

// What grows while the bench runs, in rows of `columns` (1: no second dimension) elements.
template <typename T> Array array(const std::vector<T>& values, uint64_t columns = 0) {
    Array found;
    found.size = sizeof(T);
    found.shape = columns ? std::vector<uint64_t>{values.size() / columns, columns} : std::vector<uint64_t>{values.size()};
    found.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(found.bytes.data(), values.data(), found.bytes.size());
    return found;
}
template <typename T> Array scalar(T value) {
    Array found = array(std::vector<T>{value});
    found.shape.clear();
    return found;
}

const Port* find(const std::string& name);  // null where the top has no such port
const Port& port(const std::string& name);  // a Failure there

inline void put(const Port& to, uint64_t value) { std::memcpy(to.data, &value, to.bytes < 8 ? to.bytes : 8); }
inline uint64_t get(const Port& from) {
    uint64_t value = 0;
    std::memcpy(&value, from.data, from.bytes < 8 ? from.bytes : 8);
    return value;
}
inline void put_row(const Port& to, const char* row, uint64_t bytes) {
    if (bytes >= to.bytes) {
        std::memcpy(to.data, row, to.bytes);
    } else {
        std::memcpy(to.data, row, bytes);
        std::memset(static_cast<char*>(to.data) + bytes, 0, to.bytes - bytes);
    }
}
void must_fit(const Port& to, const Array& rows);  // a Failure if a row has a bit above those of the port

struct Given {
    Arrays arrays;
    const Array& operator[](const std::string& name) const;
    std::vector<std::string> names(const std::string& name) const;  // of an array of strings
};

// Clock of the top; none: evaluates only.
struct Clock {
    const Port* clk = find("clk");
    void low() const {  // inputs settle
        if (clk) put(*clk, 0);
        evaluate();
    }
    void high() const {
        if (clk) {
            put(*clk, 1);
            evaluate();
        }
    }
};

double now();  // seconds
void run(const Given& given, Arrays& left);
