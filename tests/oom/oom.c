/*
 * oom.c - each function of the wire core with its k-th allocation failing, for k = 1, 2, 3… until
 * none fails any more. It must say so, lose no memory, and leave what it was given as it was.
 */
#include "counting.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>

static int passed, bad;

#define CHECK(WHAT) check((WHAT), #WHAT, __func__, __LINE__)

static bool check(bool ok, const char *what, const char *where, int line)
{
    if (!ok) {
        printf("%s:%d: %s: not %s\n", __FILE__, line, where, what);
        bad++;
    }
    return ok;
}

/* ---- what appends to a buffer ---------------------------------------------------------------- */
enum { ITEMS = 300 };
static uint64_t items_u64[ITEMS];
static uint32_t items_u32[ITEMS];
static uint8_t items_u8[ITEMS];
static int64_t items_i64[ITEMS];

static bool append_bytes(torshi_buf *b)
{
    return torshi_buf_byte(b, 1) && torshi_buf_put(b, items_u8, ITEMS) &&
           torshi_buf_put(b, items_u64, sizeof(items_u64));
}

static bool append_numbers(torshi_buf *b)
{
    for (int i = 0; i < ITEMS; i++) {
        if (!torshi_buf_uvar(b, items_u64[i] << 40) || !torshi_buf_zvar(b, items_i64[i])) {
            return false;
        }
    }
    return true;
}

static bool append_u64(torshi_buf *b)
{
    return torshi_pack_u64(b, items_u64, ITEMS, 7);
}

static bool append_u32(torshi_buf *b)
{
    return torshi_pack_u32(b, items_u32, ITEMS, 6);
}

static bool append_u8(torshi_buf *b)
{
    return torshi_pack_u8(b, items_u8, ITEMS, 4);
}

static bool append_offsets(torshi_buf *b)
{
    return torshi_pack_offsets(b, items_i64, ITEMS, -1000, 5);
}

static bool append_lens(torshi_buf *b)
{
    return torshi_pack_lens(b, items_u32, ITEMS, 0, 6);
}

static bool append_reserve(torshi_buf *b)
{
    return torshi_buf_reserve(b, 5000) && torshi_buf_grow(b, 50000);
}

static const struct append_case {
    const char *name;
    bool (*append)(torshi_buf *b);
} append_cases[] = {
    {"bytes", append_bytes}, {"numbers", append_numbers}, {"u64", append_u64},
    {"u32", append_u32},     {"u8", append_u8},           {"offsets", append_offsets},
    {"lens", append_lens},   {"reserve", append_reserve},
};

/* What a call that succeeds appends to a buffer that begins with one byte. */
static torshi_buf expected_bytes(const struct append_case *one)
{
    torshi_buf b = {0};
    fail_allocation(0);
    CHECK(torshi_buf_byte(&b, 42) && one->append(&b));
    return b;
}

static void test_append(const struct append_case *one)
{
    int before = bad;
    torshi_buf expected = expected_bytes(one);
    size_t alive = blocks_alive();
    bool again = true;
    size_t k = 1;
    for (; again && k < 1000; k++) {
        torshi_buf b = {0};
        fail_allocation(0);
        CHECK(torshi_buf_byte(&b, 42));
        fail_allocation(k);
        bool ok = one->append(&b);
        again = allocation_failed();
        CHECK(ok == !again);
        /* What is there is a beginning of what would be, and the buffer can still be used. */
        CHECK(b.len >= 1 && b.len <= expected.len && memcmp(b.data, expected.data, b.len) == 0);
        CHECK(ok ? b.len == expected.len : b.len < expected.len || one->append == append_reserve);
        fail_allocation(0);
        b.len = 1;
        CHECK(one->append(&b));
        CHECK(b.len == expected.len && memcmp(b.data, expected.data, b.len) == 0);
        torshi_buf_free(&b);
        CHECK(blocks_alive() == alive);
    }
    CHECK(k > 2 && !again); /* an allocation did fail, and in the end none */
    torshi_buf_free(&expected);
    if (bad == before) {
        passed++;
    } else {
        printf("append %s failed\n", one->name);
    }
}

/* ---- the walker --------------------------------------------------------------------------------
 */
static const struct walk_case {
    const char *name;
    bool dict;
    torshi_status status;
    const char *hex;
} walk_cases[] = {
    {"flat dict", true, TORSHI_S_OK,
     "060a044f736c6f526f6d65426f6e6ec5b8a729b2c905008cc0240000000000"},
    {"nested", false, TORSHI_S_OK,
     "0611024a02086964746167730"
     "60e020e05320102"
     "0a01616263"},
    {"big", false, TORSHI_S_OK, "0407020102ff03"},
    {"bytes", false, TORSHI_S_OK, "040c0201020304"},
    {"kinds", false, TORSHI_S_OK, "042b01010161ff62"},
    {"dictionary", false, TORSHI_S_OK, "062d020a01616205"},
    {"mixed", false, TORSHI_S_OK, "062f02050a016100"},
    {"map", false, TORSHI_S_OK, "041301050000"},
    {"instance", false, TORSHI_S_OK,
     "021400022a00026100"
     "00"},
    {"affixed names", false, TORSHI_S_OK, "02140002190170000a0161620000"},
    {"equal names", false, TORSHI_E_NAMES, "0211020a0161610000"},
    {"equal names of two kinds", false, TORSHI_E_NAMES, "0211020b0105ffff0000"},
    {"text", false, TORSHI_E_TEXT, "020a0180"},
    {"text of a kind", false, TORSHI_E_TEXT, "020b010161"},
    {"index", false, TORSHI_E_INDEX,
     "022d01"
     "00"
     "01"},
    {"selector", false, TORSHI_E_INDEX,
     "024f02"
     "03"
     "0000"},
    {"truncated lens", false, TORSHI_E_TRUNCATED, "068a0000"},
    {"truncated kinds", false, TORSHI_E_TRUNCATED, "0a0b0000"},
    {"length", false, TORSHI_E_LENGTH, "020a8080808010"},
};

static size_t read_hex(const char *hex, uint8_t *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        CHECK(sscanf(hex + 2 * i, "%2x", &byte) == 1);
        out[i] = (uint8_t)byte;
    }
    return n;
}

static void test_walk(const struct walk_case *one)
{
    int before = bad;
    uint8_t payload[100];
    size_t size = read_hex(one->hex, payload);
    for (int from = 0; from < 2; from++) {
        bool again = true;
        size_t k = 1;
        for (; again && k < 1000; k++) {
            if (from) {
                fail_from_allocation(k);
            } else {
                fail_allocation(k);
            }
            torshi_walk r = torshi_walk_payload(payload, size, one->dict, true, 1);
            again = allocation_failed();
            CHECK(r.status == (again ? TORSHI_E_MEMORY : one->status));
            CHECK(r.error_at <= size);
            CHECK(blocks_alive() == 0);
        }
        CHECK(k > 2 && !again);
    }
    if (bad == before) {
        passed++;
    } else {
        printf("walk %s failed\n", one->name);
    }
}

/* ---- what allocates nothing --------------------------------------------------------------------
 */
static void test_reading(void)
{
    int before = bad;
    uint8_t bytes[64];
    memset(bytes, 1, sizeof(bytes));
    torshi_cursor c;
    uint64_t u, total;
    int64_t z;
    uint8_t byte, kinds[8];
    uint32_t lens[8];
    uint64_t wide[2];
    size_t n;
    const uint8_t *p;
    torshi_kind kind;
    int w;
    fail_from_allocation(1);
    torshi_cursor_init(&c, bytes, sizeof(bytes));
    CHECK(torshi_read_rows(&c, &n, &u) && torshi_read_uvar(&c, &u) && torshi_read_zvar(&c, &z) &&
          torshi_read_byte(&c, &byte) && torshi_read_span(&c, 3, &p) &&
          torshi_read_head(&c, 1, 1, &kind, &w) && torshi_unpack_u64(&c, wide, 2, 7) &&
          torshi_unpack_u32(&c, lens, 4, 4) && torshi_unpack_u8(&c, kinds, 8, 3) &&
          torshi_read_lens(&c, lens, 2, 4, &total) && torshi_read_bitmap(&c, 8, &p, &n) &&
          torshi_read_count(&c, 0, 9, &n) && torshi_read_external(&c, 9, &n));
    CHECK(torshi_is_ascii(bytes, sizeof(bytes)) && torshi_max_char(bytes, 16, 3) == 0x1010101);
    CHECK(!allocation_failed());
    passed += bad == before;
}

int main(void)
{
    for (int i = 0; i < ITEMS; i++) {
        items_u64[i] = (uint64_t)i * 77;
        items_u32[i] = (uint32_t)i * 7;
        items_u8[i] = (uint8_t)i;
        items_i64[i] = i - 500;
    }
    for (size_t i = 0; i < sizeof(append_cases) / sizeof(append_cases[0]); i++) {
        test_append(&append_cases[i]);
    }
    for (size_t i = 0; i < sizeof(walk_cases) / sizeof(walk_cases[0]); i++) {
        test_walk(&walk_cases[i]);
    }
    test_reading();
    /* A failed check is counted, not the case it belongs to: it names itself above. */
    printf("%d passed, %d failed\n", passed, bad);
    return bad != 0;
}
