#include "bytes.hpp"
#include "catch.hpp"

TEST_CASE("ASCII or not, wherever the byte stands", "[text]")
{
    REQUIRE(torshi_is_ascii(nullptr, 0));
    for (size_t n = 1; n < 140; n++) {
        std::unique_ptr<uint8_t[]> text(new uint8_t[n]);
        memset(text.get(), 0x7f, n);
        REQUIRE(torshi_is_ascii(text.get(), n));
        for (size_t i = 0; i < n; i++) {
            text[i] = 0x80;
            CAPTURE(n, i);
            REQUIRE_FALSE(torshi_is_ascii(text.get(), n));
            REQUIRE(torshi_is_ascii(text.get(), i));
            text[i] = 0x7f;
        }
    }
}

TEST_CASE("the largest character", "[text]")
{
    REQUIRE(torshi_max_char(nullptr, 0, 0) == 0);
    REQUIRE(torshi_max_char(nullptr, 0, 3) == 0);
    Bytes one = from_hex("41 ff 7e");
    REQUIRE(torshi_max_char(one.data(), 3, 0) == 0xff);
    REQUIRE(torshi_max_char(one.data(), 3, 1) == 0xff);
    Bytes two = from_hex("00 41 00 00 d8 ff 00"); // from the second byte on: not aligned
    REQUIRE(torshi_max_char(two.data() + 1, 3, 2) == 0xd800);
    Bytes four = from_hex("00 41 00 00 00 ff ff 10 00");
    REQUIRE(torshi_max_char(four.data() + 1, 2, 3) == 0x10ffff);
    Bytes beyond = from_hex("ff ff ff ff");
    REQUIRE(torshi_max_char(beyond.data(), 1, 3) == UINT32_MAX);
}

TEST_CASE("the smallest kind", "[text]")
{
    struct Row {
        uint32_t max;
        int kind; // -1: none
    };
    auto row = GENERATE(values<Row>({{0, 0},
                                     {0x7f, 0},
                                     {0x80, 1},
                                     {0xff, 1},
                                     {0x100, 2},
                                     {0xd800, 2},
                                     {0xffff, 2},
                                     {0x10000, 3},
                                     {0x10ffff, 3},
                                     {0x110000, -1},
                                     {UINT32_MAX, -1}}));
    for (int kind = 0; kind < 4; kind++) {
        CAPTURE(row.max, kind);
        REQUIRE(torshi_kind_holds(static_cast<unsigned>(kind), row.max) == (kind == row.kind));
    }
}

TEST_CASE("bytes a character", "[text]")
{
    REQUIRE(torshi_char_size(0) == 1);
    REQUIRE(torshi_char_size(1) == 1);
    REQUIRE(torshi_char_size(2) == 2);
    REQUIRE(torshi_char_size(3) == 4);
}
