// argv and environment as options.c reads them, without Python.
#include <Python.h>

#include "catch.hpp"

extern "C" {
#include "host.h"
}

#include <cstdlib>
#include <string>
#include <vector>

namespace
{

// host_options_read over words, and what it found; the list of plugins as strings.
struct reading {
    host_options options;
    int result;
    std::vector<std::string> plugins;

    explicit reading(std::vector<std::string> words)
    {
        std::vector<char *> argv;
        words.insert(words.begin(), "torshi");
        for (auto &word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);
        result = host_options_read(&options, static_cast<int>(words.size()), argv.data());
        for (size_t i = 0; i < options.plugin_count; i++)
            plugins.emplace_back(options.plugins[i]);
        host_options_clear(&options);
    }
};

int mode_of(std::vector<std::string> words)
{
    reading read(std::move(words));
    return read.result < 0 ? -1 : read.options.mode;
}

} // namespace

TEST_CASE("options are read where Python reads them, and nowhere else")
{
    unsetenv("TORSHI");
    unsetenv("TORSHI_PLUGINS");
    const std::string off = "torshi=off";

    CHECK(mode_of({}) == TORSHI_MODE_CHUNKED);
    CHECK(mode_of({"-X", off}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"-X" + off}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"-EsX", off, "script"}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"-BX" + off, "-c", "pass"}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"-W", "ignore", "-X", off}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"-Wignore", "-X", off}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"--check-hash-based-pycs", "always", "-X", off}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"-X", "dev", "-X", "torshi=standard", "-X", off}) == TORSHI_MODE_OFF);
    CHECK(mode_of({"-X", "torshiness=off"}) == TORSHI_MODE_CHUNKED);
    // the program's own
    CHECK(mode_of({"script", "-X", off}) == TORSHI_MODE_CHUNKED);
    CHECK(mode_of({"-c", "pass", "-X", off}) == TORSHI_MODE_CHUNKED);
    CHECK(mode_of({"-cpass", "-X", off}) == TORSHI_MODE_CHUNKED);
    CHECK(mode_of({"-Im", "module", "-X", off}) == TORSHI_MODE_CHUNKED);
    CHECK(mode_of({"-", "-X", off}) == TORSHI_MODE_CHUNKED);
    CHECK(mode_of({"--", "-X", off}) == TORSHI_MODE_CHUNKED);
    CHECK(mode_of({"-W", "-X", off}) == TORSHI_MODE_CHUNKED); // -X is what -W takes
    CHECK(mode_of({"-X"}) == TORSHI_MODE_CHUNKED);            // Python complains of that
}

TEST_CASE("-X wins over the environment")
{
    setenv("TORSHI", "standard", 1);
    CHECK(mode_of({}) == TORSHI_MODE_STANDARD);
    CHECK(mode_of({"-I"}) == TORSHI_MODE_STANDARD);
    CHECK(mode_of({"-X", "torshi=off"}) == TORSHI_MODE_OFF);
    setenv("TORSHI", "nonsense", 1);
    CHECK(mode_of({}) == -1);
    CHECK(mode_of({"-X", "torshi=off"}) == TORSHI_MODE_OFF);
    setenv("TORSHI", "", 1);
    CHECK(mode_of({}) == TORSHI_MODE_CHUNKED);
    unsetenv("TORSHI");

    setenv("TORSHI_PLUGINS", "/one.so::?/two.so", 1);
    CHECK(reading({}).plugins == std::vector<std::string>{"/one.so", "?/two.so"});
    CHECK(reading({}).options.plugins_export == 0);
    CHECK(reading({"-X", "torshi.plugin=/three.so"}).plugins ==
          std::vector<std::string>{"/three.so"});
    unsetenv("TORSHI_PLUGINS");
}

TEST_CASE("paths of plugins become absolute")
{
    char *folder = getcwd(nullptr, 0);
    const std::string here = folder;
    std::free(folder);

    CHECK(reading({"-X", "torshi.plugin=a.so", "-Xtorshi.plugin=?b/c.so"}).plugins ==
          std::vector<std::string>{here + "/a.so", "?" + here + "/b/c.so"});
    setenv("TORSHI_PLUGINS", "d.so", 1);
    CHECK(reading({}).plugins == std::vector<std::string>{here + "/d.so"});
    CHECK(reading({}).options.plugins_export == 1);
    unsetenv("TORSHI_PLUGINS");
}

TEST_CASE("the rest of the options")
{
    CHECK(reading({"-X", "torshi.allocator=malloc"}).options.allocator == PYMEM_ALLOCATOR_MALLOC);
    CHECK(reading({}).options.allocator == PYMEM_ALLOCATOR_NOT_SET);
    CHECK(reading({}).options.internals == 1);
    CHECK(reading({"-X", "torshi.internals=off"}).options.internals == 0);
    setenv("TORSHI_INTERNALS", "0", 1);
    CHECK(reading({}).options.internals == 0);
    CHECK(reading({"-X", "torshi.internals=on"}).options.internals == 1);
    unsetenv("TORSHI_INTERNALS");
    CHECK(reading({"-V"}).options.version == 1);
    CHECK(reading({"--version"}).options.version == 1);
    CHECK(reading({"-c", "-V"}).options.version == 0);
    CHECK(reading({"-h"}).options.help == 1);
    CHECK(reading({"-?"}).options.help == 1);
    CHECK(reading({"--help-all"}).options.help == 1);
}
