// Helpers of the unit tests: byte strings as hex, buffers that free themselves.
#ifndef TORSHI_TESTS_BYTES_HPP
#define TORSHI_TESTS_BYTES_HPP

#include "wire/wire.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using Bytes = std::vector<uint8_t>;

// Anything but hex digits is a space.
inline Bytes from_hex(const std::string &text)
{
    Bytes out;
    std::string digits;
    for (char c : text) {
        if (std::isxdigit(static_cast<unsigned char>(c))) {
            digits += c;
        }
        if (digits.size() == 2) {
            out.push_back(static_cast<uint8_t>(std::stoul(digits, nullptr, 16)));
            digits.clear();
        }
    }
    return out;
}

struct Buf : torshi_buf {
    Buf() : torshi_buf{nullptr, 0, 0} {}
    Buf(const Buf &) = delete;
    Buf &operator=(const Buf &) = delete;
    ~Buf() { torshi_buf_free(this); }
    Bytes bytes() const { return data ? Bytes(data, data + len) : Bytes(); }
};

// The cursor's bytes are copied to a block of exactly their size, so that Valgrind and ASan see
// a read past the end.
struct Cursor : torshi_cursor {
    explicit Cursor(const Bytes &bytes) : block(new uint8_t[bytes.size()])
    {
        std::copy(bytes.begin(), bytes.end(), block.get());
        torshi_cursor_init(this, block.get(), bytes.size());
    }
    explicit Cursor(const std::string &hex) : Cursor(from_hex(hex)) {}
    size_t offset() const { return static_cast<size_t>(pos - start); }
    bool at_end() const { return pos == end; }
    // What the cursor says after a failure.
    bool failed(torshi_status with, size_t at) const { return status == with && error_at == at; }

    std::unique_ptr<uint8_t[]> block;
};

// The same for a whole payload.
inline torshi_walk walk(const Bytes &bytes, bool dict = false, bool roll = true,
                        size_t externals = 0)
{
    std::unique_ptr<uint8_t[]> block(new uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), block.get());
    return torshi_walk_payload(block.get(), bytes.size(), dict, roll, externals);
}

// Numbers that are always the same ones.
class Random
{
  public:
    explicit Random(uint64_t seed) : state(seed * 2654435769u + 88172645463325252u) {}
    uint64_t next()
    {
        state ^= state << 13;
        state ^= state >> 7;
        return state ^= state << 17;
    }
    uint64_t below(uint64_t n) { return next() % n; }
    // Small ones more often.
    uint64_t bits(unsigned most)
    {
        unsigned n = static_cast<unsigned>(below(most + 1));
        return n ? next() >> (64 - n) : 0;
    }

  private:
    uint64_t state;
};

#endif
