#include "bytes.hpp"
#include "catch.hpp"

TEST_CASE("a new buffer takes bytes and frees them", "[buf]")
{
    torshi_buf b = {};
    REQUIRE(torshi_buf_put(&b, nullptr, 0));
    REQUIRE(b.data == nullptr);
    REQUIRE(torshi_buf_byte(&b, 7));
    REQUIRE(torshi_buf_put(&b, "abc", 3));
    REQUIRE(torshi_buf_put(&b, nullptr, 0));
    REQUIRE(b.len == 4);
    REQUIRE(memcmp(b.data,
                   "\x07"
                   "abc",
                   4) == 0);
    torshi_buf_free(&b);
    REQUIRE(b.data == nullptr);
    REQUIRE(b.len == 0);
    REQUIRE(b.cap == 0);
    torshi_buf_free(&b);
}

TEST_CASE("contents survive growth", "[buf]")
{
    Buf b;
    Bytes expected;
    for (unsigned i = 0; i < 5000; i++) {
        REQUIRE(torshi_buf_byte(&b, static_cast<uint8_t>(i * 7)));
        expected.push_back(static_cast<uint8_t>(i * 7));
    }
    REQUIRE(b.bytes() == expected);
    REQUIRE(b.cap >= b.len);
    REQUIRE(b.cap <= 2 * b.len + 256);
}

TEST_CASE("reserve makes room and moves nothing", "[buf]")
{
    Buf b;
    REQUIRE(torshi_buf_reserve(&b, 0));
    REQUIRE(torshi_buf_reserve(&b, 1000));
    REQUIRE(b.cap - b.len >= 1000);
    REQUIRE(b.len == 0);
    uint8_t *data = b.data;
    REQUIRE(torshi_buf_reserve(&b, 1000));
    REQUIRE(b.data == data);
}

TEST_CASE("a size beyond size_t is refused and changes nothing", "[buf]")
{
    Buf b;
    REQUIRE(torshi_buf_byte(&b, 1));
    uint8_t *data = b.data;
    size_t cap = b.cap;
    REQUIRE_FALSE(torshi_buf_grow(&b, SIZE_MAX));
    REQUIRE_FALSE(torshi_buf_reserve(&b, SIZE_MAX));
    REQUIRE_FALSE(torshi_buf_reserve(&b, SIZE_MAX / 2)); // with the byte in it: above PTRDIFF_MAX
    REQUIRE(b.data == data);
    REQUIRE(b.len == 1);
    REQUIRE(b.cap == cap);
}

TEST_CASE("uvar in bytes", "[buf]")
{
    struct Row {
        uint64_t v;
        const char *hex;
    };
    auto row = GENERATE(values<Row>({{0, "00"},
                                     {1, "01"},
                                     {127, "7f"},
                                     {128, "80 01"},
                                     {300, "ac 02"},
                                     {16383, "ff 7f"},
                                     {16384, "80 80 01"},
                                     {(1ull << 32) - 1, "ff ff ff ff 0f"},
                                     {1ull << 63, "80 80 80 80 80 80 80 80 80 01"},
                                     {UINT64_MAX, "ff ff ff ff ff ff ff ff ff 01"}}));
    Buf b;
    REQUIRE(torshi_buf_uvar(&b, row.v));
    REQUIRE(b.bytes() == from_hex(row.hex));
    REQUIRE(torshi_uvar_size(row.v) == b.len);
    Cursor c(b.bytes());
    uint64_t v = ~row.v;
    REQUIRE(torshi_read_uvar(&c, &v));
    REQUIRE(v == row.v);
    REQUIRE(c.at_end());
}

TEST_CASE("uvar sizes at each power of two", "[buf]")
{
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t power = 1ull << bit;
        REQUIRE(torshi_uvar_size(power) == bit / 7 + 1);
        REQUIRE(torshi_uvar_size(power - 1) == (bit ? (bit - 1) / 7 + 1 : 1));
    }
}

TEST_CASE("zvar in bytes", "[buf]")
{
    struct Row {
        int64_t v;
        uint64_t zigzag;
    };
    auto row = GENERATE(values<Row>({{0, 0},
                                     {-1, 1},
                                     {1, 2},
                                     {-2, 3},
                                     {63, 126},
                                     {-64, 127},
                                     {64, 128},
                                     {INT64_MAX, UINT64_MAX - 1},
                                     {INT64_MIN, UINT64_MAX}}));
    REQUIRE(torshi_zigzag(row.v) == row.zigzag);
    Buf b, u;
    REQUIRE(torshi_buf_zvar(&b, row.v));
    REQUIRE(torshi_buf_uvar(&u, row.zigzag));
    REQUIRE(b.bytes() == u.bytes());
    Cursor c(b.bytes());
    int64_t v = ~row.v;
    REQUIRE(torshi_read_zvar(&c, &v));
    REQUIRE(v == row.v);
    REQUIRE(c.at_end());
}
