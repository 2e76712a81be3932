// tests/golden through the walker: statuses with their byte offsets.
#include "bytes.hpp"
#include "catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace
{
namespace fs = std::filesystem;

struct Golden {
    std::string name;
    std::map<std::string, std::string> fields;
    Bytes payload;

    bool has(const std::string &key) const { return fields.count(key) != 0; }
    std::string get(const std::string &key) const { return has(key) ? fields.at(key) : ""; }
    size_t words(const std::string &key) const
    {
        std::istringstream in(get(key));
        std::string word;
        size_t n = 0;
        while (in >> word) {
            n++;
        }
        return n;
    }
    torshi_walk walked() const
    {
        return walk(payload, get("target") == "dict", has("roll"), words("externals"));
    }
};

std::vector<Golden> read_all(const char *kind)
{
    const char *folder = std::getenv("TORSHI_GOLDEN");
    std::vector<Golden> all;
    for (const auto &entry :
         fs::directory_iterator(fs::path(folder ? folder : "tests/golden") / kind)) {
        Golden golden;
        golden.name = entry.path().stem().string();
        std::ifstream in(entry.path());
        std::string line, key;
        while (std::getline(in, line)) {
            if (line.rfind("  ", 0) == 0) {
                golden.fields[key] += line;
            } else if (line[0] != '#') {
                size_t colon = line.find(':');
                key = line.substr(0, colon);
                golden.fields[key] = line.substr(colon + 1);
                auto &value = golden.fields[key];
                value.erase(0, value.find_first_not_of(' '));
            }
        }
        golden.payload = from_hex(golden.get("hex"));
        all.push_back(golden);
    }
    return all;
}

std::string status_name(torshi_status status)
{
    switch (status) {
#define STATUS(NAME, VALUE, TEXT)                                                                  \
    case TORSHI_##NAME:                                                                            \
        return #NAME;
#include "wire/status.def"
    }
    return "?";
}
} // namespace

TEST_CASE("golden payloads are accepted", "[golden]")
{
    auto all = read_all("ok");
    REQUIRE(all.size() > 100);
    for (const Golden &golden : all) {
        CAPTURE(golden.name);
        torshi_walk r = golden.walked();
        CHECK(status_name(r.status) == "S_OK");
        CHECK(r.rolled == golden.words("roll"));
        CHECK(r.externals <= golden.words("externals"));
    }
}

TEST_CASE("golden payloads are refused, each with its status at its byte", "[golden]")
{
    auto all = read_all("bad");
    REQUIRE(all.size() > 200);
    for (const Golden &golden : all) {
        CAPTURE(golden.name);
        torshi_walk r = golden.walked();
        if (golden.get("walker") == "accepts") {
            CHECK(status_name(r.status) == "S_OK");
        } else {
            CHECK(status_name(r.status) == golden.get("status"));
            CHECK(std::to_string(r.error_at) == golden.get("offset"));
        }
    }
}

TEST_CASE("every prefix of an accepted payload is cut short", "[golden]")
{
    for (const Golden &golden : read_all("ok")) {
        Golden cut = golden;
        size_t most = std::min<size_t>(golden.payload.size(), 600);
        for (size_t size = 0; size < most; size++) {
            cut.payload.assign(golden.payload.begin(),
                               golden.payload.begin() + static_cast<long>(size));
            torshi_walk r = cut.walked();
            if (r.status != TORSHI_E_TRUNCATED || r.error_at > size) {
                CAPTURE(golden.name, size);
                REQUIRE(status_name(r.status) == "E_TRUNCATED");
                REQUIRE(r.error_at <= size);
            }
        }
    }
}

TEST_CASE("a byte after an accepted payload", "[golden]")
{
    for (Golden golden : read_all("ok")) {
        golden.payload.push_back(0);
        torshi_walk r = golden.walked();
        CAPTURE(golden.name);
        REQUIRE(status_name(r.status) == "E_TRAILING");
        REQUIRE(r.error_at == golden.payload.size() - 1);
    }
}
