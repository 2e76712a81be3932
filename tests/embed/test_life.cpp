// Start, stop, start again; what a start leaves behind; what it refuses.
#include <Python.h>

#include "catch.hpp"
#include "torshi/embed.h"

#include <cstdlib>
#include <string>
#include <vector>

namespace
{

// torshi_embed_start with words; the exit status when it does not run, -1 when it does.
int start(std::vector<std::string> words)
{
    std::vector<char *> argv;
    int status = -1;

    words.insert(words.begin(), "torshi");
    for (auto &word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    return torshi_embed_start(static_cast<int>(words.size()), argv.data(), &status) == 0 ? -1
                                                                                         : status;
}

// Run Python text that sets `answer`, a str.
std::string answer(const std::string &code)
{
    std::string result = "<error>";
    PyObject *globals = PyDict_New();
    PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins());
    PyObject *done = PyRun_String(code.c_str(), Py_file_input, globals, globals);
    if (done == nullptr)
        PyErr_Print();
    PyObject *value = PyDict_GetItemString(globals, "answer"); // borrowed
    if (done != nullptr && value != nullptr)
        result = PyUnicode_AsUTF8(value);
    Py_XDECREF(done);
    Py_DECREF(globals);
    return result;
}

const char *const which_pickle = R"(
import _pickle, _torshi, _torshi_stock_pickle as stock
answer = "stock" if _pickle.Pickler is stock.Pickler else "ours"
)";

std::string built(const std::string &name)
{
    return std::string(std::getenv("TORSHI_BUILD")) + "/" + name;
}

} // namespace

TEST_CASE("start, use and stop, four times in one process")
{
    for (int turn = 0; turn < 4; turn++) {
        REQUIRE(start({"-I"}) == -1);
        PyObject *dict = Py_BuildValue("{s:i,s:[d,O]}", "a", turn, "b", 1.5, Py_None);
        PyObject *data = torshi_embed_dumps(dict);
        REQUIRE(data != nullptr);
        PyObject *loaded = torshi_embed_loads(data);
        REQUIRE(loaded != nullptr);
        CHECK(PyObject_RichCompareBool(dict, loaded, Py_EQ) == 1);
        Py_DECREF(loaded);
        Py_DECREF(data);
        Py_DECREF(dict);
        CHECK(answer(which_pickle) == "ours");
        CHECK(torshi_embed_stop() == 0);
    }
}

TEST_CASE("each start has its own mode")
{
    const std::vector<std::pair<std::string, std::string>> modes = {
        {"chunked", "ours"}, {"off", "stock"}, {"standard", "ours"}, {"off", "stock"}};

    for (const auto &mode : modes) {
        REQUIRE(start({"-I", "-X", "torshi=" + mode.first}) == -1);
        CHECK(answer(which_pickle) == mode.second);
        CHECK(torshi_embed_stop() == 0);
    }
}

TEST_CASE("settings reach children through the environment, which stop restores")
{
    unsetenv("TORSHI");
    REQUIRE(start({"-I", "-Xtorshi=standard"}) == -1);
    CHECK(answer("import os; answer = os.environ['TORSHI']") == "standard");
    CHECK(torshi_embed_stop() == 0);
    CHECK(std::getenv("TORSHI") == nullptr);

    setenv("TORSHI", "off", 1);
    REQUIRE(start({"-I"}) == -1);
    CHECK(answer(which_pickle) == "stock");
    CHECK(torshi_embed_stop() == 0);
    REQUIRE(start({"-IX", "torshi=chunked"}) == -1);
    CHECK(answer("import os; answer = os.environ['TORSHI']") == "chunked");
    CHECK(answer(which_pickle) == "ours");
    CHECK(torshi_embed_stop() == 0);
    CHECK(std::getenv("TORSHI") == std::string("off"));
    unsetenv("TORSHI");

    REQUIRE(start({"-I"}) == -1);
    CHECK(answer("import os; answer = os.environ.get('TORSHI', 'unset')") == "unset");
    CHECK(torshi_embed_stop() == 0);
}

TEST_CASE("a second start while Python runs is refused")
{
    REQUIRE(start({"-I"}) == -1);
    CHECK(start({"-I"}) == 1);
    CHECK(torshi_embed_stop() == 0);
    CHECK(torshi_embed_stop() == 0);
}

TEST_CASE("run gives the program's exit status, and Python can be started again")
{
    REQUIRE(start({"-I", "-c", "raise ValueError('as wanted')"}) == -1);
    CHECK(torshi_embed_run() == 1);
    REQUIRE(start({"-I", "-c", "import pickle; assert pickle.loads(pickle.dumps([1])) == [1]"}) ==
            -1);
    CHECK(torshi_embed_run() == 0);
}

TEST_CASE("functions are reached by name")
{
    REQUIRE(start({"-I"}) == -1);
    PyObject *function = torshi_embed_function("loads");
    CHECK(PyCallable_Check(function));
    Py_XDECREF(function);
    CHECK(torshi_embed_function("no such function") == nullptr);
    CHECK(PyErr_ExceptionMatches(PyExc_AttributeError));
    PyErr_Clear();
    CHECK(torshi_embed_stop() == 0);
}

TEST_CASE("what cannot be run gives an exit status, and the next start works")
{
    CHECK(start({"--version"}) == 0);
    CHECK(start({"--help"}) == 0);
    CHECK(start({"-X", "torshi=fast"}) == 2);
    CHECK(start({"-X", "torshi"}) == 2);
    CHECK(start({"-X", "torshi.speed=9"}) == 2);
    CHECK(start({"-X", "torshi.allocator=jemalloc"}) == 2);
    CHECK(start({"-X", "torshi.plugin="}) == 2);
    CHECK(start({"-X", "torshi.plugin=?"}) == 2);
    CHECK(start({"-X", "torshi.plugin=/a:b"}) == 2);
    CHECK(start({"-I", "-X", "torshi.plugin=" + built("no_such_plugin.so")}) == 2);
    CHECK(start({"--no-such-option"}) == 2);
    REQUIRE(start({"-I", "-X", "torshi.plugin=?" + built("no_such_plugin.so")}) == -1);
    CHECK(torshi_embed_stop() == 0);
}

TEST_CASE("the home may be named")
{
    REQUIRE(torshi_embed_set_home("/") == 0);
    CHECK(start({"-I"}) == 2);
    CHECK(start({"-I", "-X", "torshi=standard"}) == -1);
    CHECK(torshi_embed_stop() == 0);
    REQUIRE(torshi_embed_set_home(std::getenv("TORSHI_BUILD")) == 0);
    CHECK(start({"-I"}) == -1);
    CHECK(answer("import torshi; answer = torshi.__name__") == "torshi");
    CHECK(torshi_embed_stop() == 0);
    REQUIRE(torshi_embed_set_home(nullptr) == 0);
}
