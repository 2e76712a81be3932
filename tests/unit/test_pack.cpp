#include "bytes.hpp"
#include "catch.hpp"

namespace
{
const unsigned width_bits[8] = {0, 1, 2, 4, 8, 16, 32, 64};

// The format's definition, one bit at a time.
Bytes pack_slowly(const std::vector<uint64_t> &items, int w)
{
    unsigned bits = width_bits[w];
    Bytes out((items.size() * bits + 7) / 8, 0);
    for (size_t i = 0; i < items.size(); i++) {
        for (unsigned k = 0; k < bits; k++) {
            size_t at = i * bits + k;
            out[at / 8] = static_cast<uint8_t>(out[at / 8] | (items[i] >> k & 1) << at % 8);
        }
    }
    return out;
}

std::vector<uint64_t> some_items(Random &random, size_t n, int w)
{
    std::vector<uint64_t> items(n);
    for (uint64_t &item : items) {
        item = w ? random.next() >> (64 - width_bits[w]) : 0;
    }
    return items;
}
} // namespace

TEST_CASE("the smallest width", "[pack]")
{
    REQUIRE(torshi_width_for(0) == 0);
    for (unsigned bit = 0; bit < 64; bit++) {
        int expected = 1;
        while (width_bits[expected] <= bit) {
            expected++;
        }
        CAPTURE(bit);
        REQUIRE(torshi_width_for(1ull << bit) == expected);
        REQUIRE(torshi_width_for((1ull << bit) | ((1ull << bit) - 1)) == expected);
    }
}

TEST_CASE("packed sizes", "[pack]")
{
    for (size_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 65535, 65536, 1048576}) {
        for (int w = 0; w < 8; w++) {
            CAPTURE(n, w);
            REQUIRE(torshi_packed_size(n, w) == (n * width_bits[w] + 7) / 8);
        }
    }
}

TEST_CASE("packing in bytes", "[pack]")
{
    Buf b;
    const uint8_t items[] = {1, 2, 3, 0, 2};
    REQUIRE(torshi_pack_u8(&b, items, 5, 2)); // the picture in docs/format.md
    REQUIRE(b.bytes() == from_hex("39 02"));
    const uint32_t more[] = {1, 0, 0xfffefdfc};
    REQUIRE(torshi_pack_u32(&b, more, 3, 6));
    REQUIRE(b.bytes() == from_hex("39 02 01000000 00000000 fcfdfeff"));
}

TEST_CASE("each packer writes what the text says, and reading gives it back", "[pack]")
{
    Random random(1);
    for (int w = 0; w < 8; w++) {
        for (size_t n = 0; n < 40; n++) {
            CAPTURE(w, n);
            std::vector<uint64_t> items = some_items(random, n, w);
            Bytes expected = pack_slowly(items, w);

            Buf b;
            REQUIRE(torshi_pack_u64(&b, items.data(), n, w));
            REQUIRE(b.bytes() == expected);
            Cursor c(expected);
            std::vector<uint64_t> read(n, 99);
            REQUIRE(torshi_unpack_u64(&c, read.data(), n, w));
            REQUIRE(read == items);
            REQUIRE(c.at_end());

            int64_t base = static_cast<int64_t>(random.next());
            std::vector<int64_t> sums(n);
            for (size_t i = 0; i < n; i++) {
                sums[i] = static_cast<int64_t>(static_cast<uint64_t>(base) + items[i]);
            }
            Buf offsets;
            REQUIRE(torshi_pack_offsets(&offsets, sums.data(), n, base, w));
            REQUIRE(offsets.bytes() == expected);

            if (w <= 6) {
                std::vector<uint32_t> narrow(items.begin(), items.end()), back(n, 99);
                Buf b32;
                REQUIRE(torshi_pack_u32(&b32, narrow.data(), n, w));
                REQUIRE(b32.bytes() == expected);
                Cursor c32(expected);
                REQUIRE(torshi_unpack_u32(&c32, back.data(), n, w));
                REQUIRE(back == narrow);
                REQUIRE(c32.at_end());
            }
            if (w <= 4) {
                Bytes narrow(items.begin(), items.end()), back(n, 99);
                Buf b8;
                REQUIRE(torshi_pack_u8(&b8, narrow.data(), n, w));
                REQUIRE(b8.bytes() == expected);
                Cursor c8(expected);
                REQUIRE(torshi_unpack_u8(&c8, back.data(), n, w));
                REQUIRE(back == narrow);
                REQUIRE(c8.at_end());
            }
        }
    }
}

TEST_CASE("a whole column of each width", "[pack]")
{
    Random random(2);
    const size_t n = 65536;
    for (int w = 0; w < 8; w++) {
        std::vector<uint64_t> items = some_items(random, n, w), read(n);
        Buf b;
        REQUIRE(torshi_pack_u64(&b, items.data(), n, w));
        Cursor c(b.bytes());
        REQUIRE(torshi_unpack_u64(&c, read.data(), n, w));
        REQUIRE(read == items);
    }
}

TEST_CASE("too few bytes for an array", "[pack]")
{
    for (int w = 1; w < 8; w++) {
        for (size_t n : {1, 3, 8, 20}) {
            size_t size = torshi_packed_size(n, w);
            for (size_t have = 0; have < size; have++) {
                CAPTURE(w, n, have);
                Cursor c(Bytes(have, 0));
                std::vector<uint64_t> out(n);
                REQUIRE_FALSE(torshi_unpack_u64(&c, out.data(), n, w));
                REQUIRE(c.failed(TORSHI_E_TRUNCATED, 0));
            }
        }
    }
}

TEST_CASE("padding bits are found, each of them", "[pack]")
{
    for (int w = 1; w <= 3; w++) {
        unsigned per = 8 / width_bits[w];
        for (size_t n = 1; n < 3 * per; n++) {
            size_t size = torshi_packed_size(n, w);
            for (size_t bit = n * width_bits[w]; bit < 8 * size; bit++) {
                CAPTURE(w, n, bit);
                Bytes bytes(size, 0);
                bytes[bit / 8] = static_cast<uint8_t>(1u << bit % 8);
                std::vector<uint64_t> out(n);
                std::vector<uint32_t> out32(n);
                Bytes out8(n);
                const uint8_t *in;
                Cursor a(bytes), b(bytes), c(bytes), d(bytes);
                REQUIRE_FALSE(torshi_unpack_u64(&a, out.data(), n, w));
                REQUIRE(a.failed(TORSHI_E_PADDING, size - 1));
                REQUIRE_FALSE(torshi_unpack_u32(&b, out32.data(), n, w));
                REQUIRE(b.failed(TORSHI_E_PADDING, size - 1));
                REQUIRE_FALSE(torshi_unpack_u8(&c, out8.data(), n, w));
                REQUIRE(c.failed(TORSHI_E_PADDING, size - 1));
                REQUIRE_FALSE(torshi_read_packed(&d, n, w, &in));
                REQUIRE(d.failed(TORSHI_E_PADDING, size - 1));
            }
        }
    }
}

TEST_CASE("lens: the least base, the least width", "[pack]")
{
    struct Row {
        std::vector<uint32_t> lens;
        uint32_t base;
        int w;
        const char *hex;
    };
    auto row = GENERATE(values<Row>({{{}, 0, 0, "00"},
                                     {{0}, 0, 0, "00"},
                                     {{7, 7, 7}, 7, 0, "07"},
                                     {{4, 5, 4}, 4, 1, "04 02"},
                                     {{2, 4}, 2, 2, "02 08"},
                                     {{15, 0}, 0, 3, "00 0f"},
                                     {{300, 44}, 44, 5, "2c 0001 0000"},
                                     {{299, 44}, 44, 4, "2c ff 00"},
                                     {{UINT32_MAX, 0}, 0, 6, "00 ffffffff 00000000"},
                                     {{UINT32_MAX}, UINT32_MAX, 0, "ffffffff0f"}}));
    CAPTURE(row.hex);
    size_t n = row.lens.size();
    uint32_t base = 99;
    REQUIRE(torshi_lens_width(row.lens.data(), n, &base) == row.w);
    REQUIRE(base == row.base);
    Buf b;
    REQUIRE(torshi_pack_lens(&b, row.lens.data(), n, base, row.w));
    REQUIRE(b.bytes() == from_hex(row.hex));

    Cursor c(b.bytes());
    std::vector<uint32_t> read(n);
    uint64_t total = 1, sum = 0;
    for (uint32_t length : row.lens) {
        sum += length;
    }
    REQUIRE(torshi_read_lens(&c, read.data(), n, row.w, &total));
    REQUIRE(read == row.lens);
    REQUIRE(total == sum);
    REQUIRE(c.at_end());
}

TEST_CASE("lens: what is refused", "[pack]")
{
    struct Row {
        const char *hex;
        size_t n;
        int w;
        torshi_status status;
        size_t at;
    };
    auto row = GENERATE(values<Row>({
        {"", 1, 0, TORSHI_E_TRUNCATED, 0},
        {"80", 1, 0, TORSHI_E_TRUNCATED, 0},
        {"05 00", 2, 4, TORSHI_E_TRUNCATED, 1},
        {"80 80 80 80 10", 1, 0, TORSHI_E_LENGTH, 0},
        {"ff ff ff ff 0f 00 01", 2, 4, TORSHI_E_LENGTH, 0},
        {"01 ff ff ff ff", 1, 6, TORSHI_E_LENGTH, 0},
        {"01 04", 2, 1, TORSHI_E_PADDING, 1},
        {"ff ff ff ff ff ff ff ff ff 02", 1, 0, TORSHI_E_VARINT, 0},
    }));
    CAPTURE(row.hex);
    Cursor c(row.hex);
    std::vector<uint32_t> out(row.n);
    uint64_t total;
    REQUIRE_FALSE(torshi_read_lens(&c, out.data(), row.n, row.w, &total));
    REQUIRE(c.failed(row.status, row.at));
}

TEST_CASE("lens: the sum does not wrap", "[pack]")
{
    Cursor c("ff ff ff ff 0f");
    std::vector<uint32_t> out(65536);
    uint64_t total = 0;
    REQUIRE(torshi_read_lens(&c, out.data(), out.size(), 0, &total));
    REQUIRE(total == 65536ull * UINT32_MAX);
}

TEST_CASE("bitmaps count their ones", "[pack]")
{
    Random random(3);
    for (size_t n = 0; n < 200; n++) {
        Bytes bytes((n + 7) / 8, 0);
        size_t expected = 0;
        for (size_t i = 0; i < n; i++) {
            unsigned bit = random.below(2) != 0;
            bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | bit << i % 8);
            expected += bit;
        }
        Cursor c(bytes);
        const uint8_t *bits = nullptr;
        size_t ones = 0;
        CAPTURE(n);
        REQUIRE(torshi_read_bitmap(&c, n, &bits, &ones));
        REQUIRE(ones == expected);
        REQUIRE(bits == c.start);
        REQUIRE(c.at_end());
    }
    const uint8_t *bits;
    size_t ones;
    Cursor padded("ff 02");
    REQUIRE_FALSE(torshi_read_bitmap(&padded, 9, &bits, &ones));
    REQUIRE(padded.failed(TORSHI_E_PADDING, 1));
    Cursor cut("ff");
    REQUIRE_FALSE(torshi_read_bitmap(&cut, 9, &bits, &ones));
    REQUIRE(cut.failed(TORSHI_E_TRUNCATED, 0));
}
