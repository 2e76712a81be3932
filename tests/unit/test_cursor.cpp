#include "bytes.hpp"
#include "catch.hpp"

TEST_CASE("a cursor over nothing", "[cursor]")
{
    torshi_cursor c;
    torshi_cursor_init(&c, nullptr, 0);
    uint8_t byte;
    const uint8_t *p = nullptr;
    REQUIRE(torshi_read_span(&c, 0, &p));
    REQUIRE(p != nullptr);
    REQUIRE_FALSE(torshi_read_byte(&c, &byte));
    REQUIRE(c.status == TORSHI_E_TRUNCATED);
    REQUIRE(c.error_at == 0);
}

TEST_CASE("the first error stays", "[cursor]")
{
    Cursor c("01 02");
    REQUIRE_FALSE(torshi_fail_at(&c, TORSHI_E_TEXT, c.start + 1));
    REQUIRE_FALSE(torshi_fail(&c, TORSHI_E_KIND));
    REQUIRE(c.failed(TORSHI_E_TEXT, 1));
}

TEST_CASE("bytes and spans end at the end", "[cursor]")
{
    Cursor c("01 02 03");
    uint8_t byte = 0;
    const uint8_t *p = nullptr;
    REQUIRE(torshi_read_byte(&c, &byte));
    REQUIRE(byte == 1);
    REQUIRE(torshi_read_span(&c, 2, &p));
    REQUIRE(p == c.start + 1);
    REQUIRE(torshi_read_span(&c, 0, &p));
    REQUIRE_FALSE(torshi_read_span(&c, 1, &p));
    REQUIRE(c.failed(TORSHI_E_TRUNCATED, 3));
    for (uint64_t n : {uint64_t{4}, uint64_t{1} << 32, UINT64_MAX}) {
        Cursor d("01 02 03");
        REQUIRE_FALSE(torshi_read_span(&d, n, &p));
        REQUIRE(d.failed(TORSHI_E_TRUNCATED, 0));
        REQUIRE(d.offset() == 0);
    }
}

TEST_CASE("uvar: what is read and what is refused", "[cursor]")
{
    struct Row {
        const char *hex;
        torshi_status status;
        uint64_t v;
    };
    auto row = GENERATE(values<Row>({
        {"80 00", TORSHI_S_OK, 0}, // overlong
        {"81 80 80 80 80 80 80 80 80 00", TORSHI_S_OK, 1},
        {"ff ff ff ff ff ff ff ff ff 01", TORSHI_S_OK, UINT64_MAX},
        {"ff ff ff ff ff ff ff ff ff 02", TORSHI_E_VARINT, 0},
        {"80 80 80 80 80 80 80 80 80 80 00", TORSHI_E_VARINT, 0},
        {"80 80 80 80 80 80 80 80 80 80", TORSHI_E_VARINT, 0},
        {"80 80 80 80 80 80 80 80 80", TORSHI_E_TRUNCATED, 0},
        {"80", TORSHI_E_TRUNCATED, 0},
        {"", TORSHI_E_TRUNCATED, 0},
    }));
    CAPTURE(row.hex);
    uint64_t u = 77;
    Cursor c(row.hex);
    REQUIRE(torshi_read_uvar(&c, &u) == (row.status == TORSHI_S_OK));
    REQUIRE(c.status == row.status);
    REQUIRE(c.error_at == 0);
    REQUIRE(u == (row.status == TORSHI_S_OK ? row.v : 77));
    REQUIRE(c.offset() == (row.status == TORSHI_S_OK ? from_hex(row.hex).size() : 0));

    int64_t z = 77;
    Cursor d(row.hex);
    REQUIRE(torshi_read_zvar(&d, &z) == (row.status == TORSHI_S_OK));
    REQUIRE(d.status == row.status);
    size_t n = 77;
    Cursor e(row.hex);
    bool small = row.status == TORSHI_S_OK && row.v < 10;
    REQUIRE(torshi_read_count(&e, 0, 9, &n) == small);
    Cursor f(row.hex);
    REQUIRE(torshi_read_external(&f, 10, &n) == small);
}

TEST_CASE("every number that is written is read", "[cursor]")
{
    Random random(4);
    for (int i = 0; i < 2000; i++) {
        uint64_t u = random.bits(64);
        int64_t z = static_cast<int64_t>(random.bits(64)) * (random.below(2) ? 1 : -1);
        Buf b;
        REQUIRE(torshi_buf_uvar(&b, u));
        REQUIRE(b.len == torshi_uvar_size(u));
        REQUIRE(torshi_buf_zvar(&b, z));
        Cursor c(b.bytes());
        uint64_t u2;
        int64_t z2;
        REQUIRE((torshi_read_uvar(&c, &u2) && torshi_read_zvar(&c, &z2) && c.at_end()));
        REQUIRE((u2 == u && z2 == z));
    }
}

TEST_CASE("counts have a range", "[cursor]")
{
    size_t v = 0;
    for (uint8_t byte = 0; byte < 20; byte++) {
        Cursor c(Bytes{0, byte});
        c.pos++;
        bool inside = byte >= 2 && byte <= 16;
        REQUIRE(torshi_read_count(&c, 2, 16, &v) == inside);
        if (inside) {
            REQUIRE(v == byte);
            REQUIRE(c.at_end());
        } else {
            REQUIRE(c.failed(TORSHI_E_LIMIT, 1));
        }
    }
    Cursor most("ff ff ff ff ff ff ff ff ff 01");
    REQUIRE_FALSE(torshi_read_count(&most, 0, 4096, &v));
    REQUIRE(most.failed(TORSHI_E_LIMIT, 0));
}

TEST_CASE("externals were passed", "[cursor]")
{
    size_t v = 9;
    Cursor c("00 01 02");
    REQUIRE(torshi_read_external(&c, 2, &v));
    REQUIRE(v == 0);
    REQUIRE(torshi_read_external(&c, 2, &v));
    REQUIRE(v == 1);
    REQUIRE_FALSE(torshi_read_external(&c, 2, &v));
    REQUIRE(c.failed(TORSHI_E_EXTERNAL, 2));
    Cursor none("00");
    REQUIRE_FALSE(torshi_read_external(&none, 0, &v));
    REQUIRE(none.failed(TORSHI_E_EXTERNAL, 0));
}

TEST_CASE("every column byte", "[cursor]")
{
    for (unsigned byte = 0; byte < 256; byte++) {
        Cursor c(Bytes{static_cast<uint8_t>(byte)});
        torshi_kind kind = TORSHI_COL_NONE;
        int w = -1;
        bool ok = torshi_read_head(&c, 3, 1, &kind, &w);
        const torshi_kind_info &info = torshi_kinds[byte & 31];
        CAPTURE(byte);
        if (!info.name) {
            REQUIRE_FALSE(ok);
            REQUIRE(c.failed(TORSHI_E_KIND, 0));
        } else if (!(info.widths >> (byte >> 5) & 1)) {
            REQUIRE_FALSE(ok);
            REQUIRE(c.failed(TORSHI_E_WIDTH, 0));
        } else {
            REQUIRE(ok);
            REQUIRE(static_cast<unsigned>(kind) == (byte & 31));
            REQUIRE(w == static_cast<int>(byte >> 5));
            REQUIRE(c.values == 3);
        }
    }
}

TEST_CASE("a head's limits", "[cursor]")
{
    torshi_kind kind;
    int w;
    SECTION("nothing there")
    {
        Cursor c("");
        REQUIRE_FALSE(torshi_read_head(&c, 1, 1, &kind, &w));
        REQUIRE(c.failed(TORSHI_E_TRUNCATED, 0));
    }
    SECTION("rows")
    {
        Cursor c("00 00");
        REQUIRE(torshi_read_head(&c, TORSHI_MAX_ROWS, 1, &kind, &w));
        REQUIRE_FALSE(torshi_read_head(&c, TORSHI_MAX_ROWS + 1, 1, &kind, &w));
        REQUIRE(c.failed(TORSHI_E_LIMIT, 1));
    }
    SECTION("rows that do not fit 32 bits")
    {
        Cursor c("00");
        REQUIRE_FALSE(torshi_read_head(&c, uint64_t{1} << 32, 1, &kind, &w));
        REQUIRE(c.failed(TORSHI_E_LIMIT, 0));
    }
    SECTION("values of all columns")
    {
        Cursor c(Bytes(18, 0));
        for (int i = 0; i < 16; i++) {
            REQUIRE(torshi_read_head(&c, 65536, 1, &kind, &w));
        }
        REQUIRE(c.values == TORSHI_MAX_VALUES);
        REQUIRE(torshi_read_head(&c, 0, 1, &kind, &w));
        REQUIRE_FALSE(torshi_read_head(&c, 1, 1, &kind, &w));
        REQUIRE(c.failed(TORSHI_E_LIMIT, 17));
    }
    SECTION("depth")
    {
        Cursor c("00 00");
        REQUIRE(torshi_read_head(&c, 1, TORSHI_MAX_DEPTH, &kind, &w));
        REQUIRE_FALSE(torshi_read_head(&c, 1, TORSHI_MAX_DEPTH + 1, &kind, &w));
        REQUIRE(c.failed(TORSHI_E_DEPTH, 1));
    }
}

TEST_CASE("the payload's head", "[cursor]")
{
    struct Row {
        const char *hex;
        torshi_status status;
        size_t at;
        size_t rows;
        uint64_t following;
    };
    auto row = GENERATE(values<Row>({
        {"00", TORSHI_S_OK, 0, 0, 0},
        {"06", TORSHI_S_OK, 0, 3, 0},
        {"07 0a", TORSHI_S_OK, 0, 3, 10},
        {"07 ff ff ff ff ff ff ff ff ff 01", TORSHI_S_OK, 0, 3, UINT64_MAX},
        {"80 80 08", TORSHI_S_OK, 0, 65536, 0},
        {"82 80 08", TORSHI_E_LIMIT, 0, 0, 0},
        {"83 80 08", TORSHI_E_LIMIT, 0, 0, 0}, // before the number that is missing
        {"ff ff ff ff ff ff ff ff ff 01", TORSHI_E_LIMIT, 0, 0, 0},
        {"", TORSHI_E_TRUNCATED, 0, 0, 0},
        {"07", TORSHI_E_TRUNCATED, 1, 0, 0},
        {"07 80", TORSHI_E_TRUNCATED, 1, 0, 0},
        {"07 80 80 80 80 80 80 80 80 80 02", TORSHI_E_VARINT, 1, 0, 0},
    }));
    CAPTURE(row.hex);
    Cursor c(row.hex);
    size_t rows;
    uint64_t following;
    bool ok = torshi_read_rows(&c, &rows, &following);
    REQUIRE(ok == (row.status == TORSHI_S_OK));
    REQUIRE(c.failed(row.status, row.at));
    if (ok) {
        REQUIRE(rows == row.rows);
        REQUIRE(following == row.following);
        REQUIRE(c.at_end());
    }
}

TEST_CASE("progressions against wide arithmetic", "[cursor]")
{
    const int64_t edges[] = {
        INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, -65536,        -2,       -1, 0, 1, 2,
        65535,     1ll << 47,     INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
    for (int64_t start : edges) {
        for (int64_t step : edges) {
            for (size_t n : {0, 1, 2, 3, 4, 65535, 65536}) {
                __extension__ typedef __int128 wide;
                wide last = n ? static_cast<wide>(start) +
                                    static_cast<wide>(step) * static_cast<wide>(n - 1)
                              : start;
                bool fits = last >= INT64_MIN && last <= INT64_MAX;
                CAPTURE(start, step, n);
                REQUIRE(torshi_progression_fits(start, step, n) == fits);
            }
        }
    }
}
