#include "bytes.hpp"
#include "catch.hpp"

#include <set>

namespace
{
struct Row {
    const char *name;
    int value;
    const char *text;
};
const Row statuses[] = {
#define STATUS(NAME, VALUE, TEXT) {#NAME, VALUE, TEXT},
#include "wire/status.def"
};
struct Column {
    const char *name;
    int code;
    int widths;
    bool is_mutable;
    const char *doc;
};
const Column columns[] = {
#define COLUMN(NAME, CODE, WIDTHS, MUTABLE, DOC) {#NAME, CODE, WIDTHS, MUTABLE != 0, DOC},
#include "wire/columns.def"
};
} // namespace

TEST_CASE("every status has a text of its own", "[status]")
{
    std::set<std::string> texts;
    std::set<int> values;
    for (const Row &row : statuses) {
        CAPTURE(row.name);
        REQUIRE(torshi_status_text(static_cast<torshi_status>(row.value)) == std::string(row.text));
        REQUIRE(texts.insert(row.text).second);
        REQUIRE(values.insert(row.value).second);
    }
    REQUIRE(TORSHI_S_OK == 0);
}

TEST_CASE("a value that is no status has a text", "[status]")
{
    // Inside the range of the enumeration's representation, so not undefined.
    REQUIRE(torshi_status_text(static_cast<torshi_status>(63)) == std::string("unknown status"));
}

TEST_CASE("the table of kinds is columns.def", "[status]")
{
    std::set<int> codes;
    for (const Column &column : columns) {
        CAPTURE(column.name);
        REQUIRE(codes.insert(column.code).second);
        REQUIRE(column.code < 32);
        const torshi_kind_info &info = torshi_kinds[column.code];
        REQUIRE(info.name == std::string(column.name));
        REQUIRE(info.widths == column.widths);
        REQUIRE(info.is_mutable == column.is_mutable);
    }
    for (int code = 0; code < 32; code++) {
        if (!codes.count(code)) {
            REQUIRE(torshi_kinds[code].name == nullptr);
            REQUIRE(torshi_kinds[code].widths == 0);
        }
    }
}
