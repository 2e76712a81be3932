/*
 * embed.c - a C program that keeps its data as Python objects and pickles them with Torshi.
 *
 *     embed [FOLDER]     FOLDER holds chunked.so and lib/torshi (default: beside this program)
 */
#include <Python.h>

#include "torshi/embed.h"

/* A dict of 1000 city names and populations; new, or NULL with an exception. */
static PyObject *make_cities(void)
{
    PyObject *cities = PyDict_New();

    for (int i = 0; cities != NULL && i < 1000; i++) {
        PyObject *name = PyUnicode_FromFormat("city %d", i), *people = PyLong_FromLong(1000L * i);
        if (name == NULL || people == NULL || PyDict_SetItem(cities, name, people) < 0)
            Py_CLEAR(cities);
        Py_XDECREF(name);
        Py_XDECREF(people);
    }
    return cities;
}

/* Pickle, load, compare. 0, or -1 with an exception. */
static int round_trip(void)
{
    PyObject *cities = make_cities();
    PyObject *data = cities != NULL ? torshi_embed_dumps(cities) : NULL;
    PyObject *loaded = data != NULL ? torshi_embed_loads(data) : NULL;
    int equal = loaded != NULL ? PyObject_RichCompareBool(cities, loaded, Py_EQ) : -1;

    if (equal >= 0)
        printf("%zd bytes, %s\n", PyBytes_GET_SIZE(data), equal ? "equal" : "different");
    Py_XDECREF(loaded);
    Py_XDECREF(data);
    Py_XDECREF(cities);
    return equal < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    char *python_argv[] = {argv[0], "-I", NULL};
    int status = 0;

    if (argc > 1 && torshi_embed_set_home(argv[1]) < 0)
        return 1;
    for (int turn = 0; turn < 2; turn++) { /* start and stop may be repeated */
        if (torshi_embed_start(2, python_argv, &status) < 0)
            return status;
        if (round_trip() < 0)
            PyErr_Print();
        if (torshi_embed_stop() < 0)
            return 1;
    }
    return 0;
}
