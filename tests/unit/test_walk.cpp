#include "bytes.hpp"
#include "catch.hpp"

namespace
{
bool refused(const torshi_walk &r, torshi_status status, size_t at)
{
    return r.status == status && r.error_at == at;
}
} // namespace

TEST_CASE("what the walker counts", "[walk]")
{
    torshi_walk flat = walk(from_hex("06 0a 04 4f736c6f 526f6d65 426f6e6e c5 b8a729"
                                     "b2c90500 8cc02400 00000000"),
                            true, false);
    REQUIRE(flat.status == TORSHI_S_OK);
    REQUIRE(flat.rows == 3);
    REQUIRE(flat.values == 6);
    REQUIRE(flat.rolled == 0);
    REQUIRE(flat.externals == 0);

    torshi_walk nested =
        walk(from_hex("06 11 02 4a 02 08 6964 74616773 06 0e 02 0e 05 32 01 02 0a 01 616263"));
    REQUIRE(nested.status == TORSHI_S_OK);
    REQUIRE(nested.rows == 3);
    REQUIRE(nested.values == 3 + 2 + 3 + 3 + 2 + 3);
    REQUIRE(nested.rolled == 5);
}

TEST_CASE("the highest external", "[walk]")
{
    // A tuple of two REDUCE columns, externals 4 and 1.
    Bytes bytes = from_hex("02 10 02 17 04 00 17 01 00");
    REQUIRE(walk(bytes, false, true, 5).externals == 5);
    REQUIRE(refused(walk(bytes, false, true, 4), TORSHI_E_EXTERNAL, 4));
    REQUIRE(refused(walk(bytes, false, false, 5), TORSHI_E_EXTERNAL, 4));
}

TEST_CASE("no bytes at all", "[walk]")
{
    REQUIRE(refused(torshi_walk_payload(nullptr, 0, false, true, 0), TORSHI_E_TRUNCATED, 0));
}

TEST_CASE("every two-byte payload", "[walk]")
{
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            Bytes bytes{static_cast<uint8_t>(a), static_cast<uint8_t>(b)};
            torshi_walk r = torshi_walk_payload(bytes.data(), 2, false, true, 0);
            bool constant = b <= TORSHI_COL_TRUE;
            bool no_body = constant || (a == 0 && (b == TORSHI_COL_BOOL || b == TORSHI_COL_FLOAT));
            CAPTURE(a, b);
            // An even number below 128, so no more numbers; a kind without a body.
            REQUIRE((r.status == TORSHI_S_OK) == (a < 128 && a % 2 == 0 && no_body));
            REQUIRE(r.error_at <= 2);
        }
    }
}

TEST_CASE("depth counts in every direction", "[walk]")
{
    const std::string wrapper = GENERATE("10 01",     // TUPLE of one
                                         "0e 01",     // NULLABLE
                                         "12 01",     // LIST
                                         "17 00 01",  // REDUCE
                                         "18 00 01"); // REFERENCE
    for (int levels = 30; levels <= 33; levels++) {
        std::string hex = "02";
        for (int i = 0; i < levels; i++) {
            hex += wrapper;
        }
        torshi_walk r = walk(from_hex(hex + "00"), false, true, 1);
        CAPTURE(wrapper, levels);
        if (levels < TORSHI_MAX_DEPTH) {
            REQUIRE(r.status == TORSHI_S_OK);
        } else {
            REQUIRE(refused(r, TORSHI_E_DEPTH, 1 + TORSHI_MAX_DEPTH * from_hex(wrapper).size()));
        }
    }
}

TEST_CASE("names: equal ones are found among many", "[walk]")
{
    // A STRUCT of n names of four characters, all different, then with the last like another.
    for (size_t n : {2, 3, 100, 4096}) {
        Bytes bytes = from_hex("00 11"); // no rows: fields take one byte each
        Buf number;
        REQUIRE(torshi_buf_uvar(&number, n));
        for (uint8_t byte : number.bytes()) {
            bytes.push_back(byte);
        }
        size_t names_at = bytes.size();
        bytes.push_back(TORSHI_COL_STR);
        bytes.push_back(4);
        for (size_t i = 0; i < n; i++) {
            for (unsigned k = 0; k < 4; k++) {
                bytes.push_back(static_cast<uint8_t>('0' + (i >> (4 * k) & 15)));
            }
        }
        size_t last = bytes.size() - 4;
        bytes.insert(bytes.end(), n, TORSHI_COL_NONE);
        REQUIRE(walk(bytes).status == TORSHI_S_OK);
        for (size_t other : {size_t{0}, n / 2 - 1, n - 2}) {
            Bytes twice = bytes;
            std::copy_n(bytes.begin() + static_cast<long>(names_at + 2 + 4 * other), 4,
                        twice.begin() + static_cast<long>(last));
            CAPTURE(n, other);
            REQUIRE(refused(walk(twice), TORSHI_E_NAMES, names_at));
        }
    }
}

TEST_CASE("names that differ only in kind or length", "[walk]")
{
    // STR_KINDS: "ab" (ASCII) and U+6261 (the same two bytes as UCS-2).
    REQUIRE(walk(from_hex("02 11 02 2b 01 01 08 6162 6162 0000")).status == TORSHI_S_OK);
    // STR: "a" and "aa", "" and "a".
    REQUIRE(walk(from_hex("02 11 02 2a 01 02 61 6161 0000")).status == TORSHI_S_OK);
    REQUIRE(walk(from_hex("02 11 02 2a 00 02 61 0000")).status == TORSHI_S_OK);
    // Kinds that only a reader of objects can compare.
    REQUIRE(walk(from_hex("02 11 02 00 0000")).status == TORSHI_S_OK);
}

TEST_CASE("single-byte changes never break the walker, and it agrees with itself", "[walk]")
{
    const Bytes whole = from_hex("06 11 02 4a 02 08 6964 74616773 06 0e 02 0e 05 32 01 02 0a 01"
                                 "616263");
    for (size_t i = 0; i < whole.size(); i++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            Bytes changed = whole;
            changed[i] = static_cast<uint8_t>(byte);
            for (bool dict : {false, true}) {
                torshi_walk a = walk(changed, dict), b = walk(changed, dict);
                REQUIRE(a.status == b.status);
                REQUIRE(a.error_at == b.error_at);
                REQUIRE(a.error_at <= changed.size());
                REQUIRE(a.values <= TORSHI_MAX_VALUES);
                // Without a roll it accepts what makes nothing mutable, and nothing else.
                torshi_walk c = walk(changed, dict, false);
                bool same = a.status == TORSHI_S_OK && c.status == TORSHI_S_OK;
                REQUIRE((same ? a.rolled == 0 : c.status != TORSHI_S_OK));
            }
        }
    }
}
