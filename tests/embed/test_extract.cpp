// extract_serialize and its inverse called from a C host.
#include <Python.h>

#include "catch.hpp"
#include "torshi/embed.h"

TEST_CASE("a C host takes byte strings out of a message and puts them back")
{
    char name[] = "torshi";
    char isolated[] = "-I";
    char *argv[] = {name, isolated, nullptr};
    int status = -1;
    REQUIRE(torshi_embed_start(2, argv, &status) == 0);

    PyObject *extract = torshi_embed_function("extract_serialize");
    PyObject *insert = torshi_embed_function("insert_serialized");
    REQUIRE(extract != nullptr);
    REQUIRE(insert != nullptr);
    PyObject *big = PyBytes_FromStringAndSize(nullptr, 70000);
    PyObject *message = Py_BuildValue("{s:s,s:[O,i]}", "op", "update", "data", big, 5);
    REQUIRE(message != nullptr);

    PyObject *parts = PyObject_CallOneArg(extract, message);
    REQUIRE(parts != nullptr);
    REQUIRE(PyTuple_Size(parts) == 3);
    PyObject *rest = PyTuple_GetItem(parts, 0); // borrowed, like the next two
    PyObject *list = PyDict_GetItemString(rest, "data");
    CHECK(PyList_GetItem(list, 0) == Py_None);
    CHECK(PyDict_Size(PyTuple_GetItem(parts, 1)) == 1);
    CHECK(PySet_Size(PyTuple_GetItem(parts, 2)) == 1);
    CHECK(PyList_GetItem(PyDict_GetItemString(message, "data"), 0) == big);

    PyObject *back = PyObject_CallObject(insert, parts);
    REQUIRE(back != nullptr);
    CHECK(PyObject_RichCompareBool(back, message, Py_EQ) == 1);

    Py_DECREF(back);
    Py_DECREF(parts);
    Py_DECREF(message);
    Py_DECREF(big);
    Py_DECREF(insert);
    Py_DECREF(extract);
    CHECK(torshi_embed_stop() == 0);
}
