/*
 * planted.c - an extension module with mistakes that Valgrind must find in the host.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Drop a block as the engine would get one. */
static PyObject *leak(PyObject *module, PyObject *unused)
{
    volatile char *block = PyMem_Malloc(1000);

    (void)module, (void)unused;
    if (block == NULL)
        return PyErr_NoMemory();
    block[0] = 1;
    block = NULL;
    Py_RETURN_NONE;
}

/* Read one byte behind the end of a bytes object and its final zero. */
static PyObject *overread(PyObject *module, PyObject *unused)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, 1000);

    (void)module, (void)unused;
    if (bytes == NULL)
        return NULL;
    volatile Py_ssize_t end = 1001;
    volatile char read = PyBytes_AS_STRING(bytes)[end];
    (void)read;
    Py_DECREF(bytes);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"leak", leak, METH_NOARGS, NULL},
    {"overread", overread, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "planted",
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_planted(void);
PyMODINIT_FUNC PyInit_planted(void)
{
    return PyModuleDef_Init(&definition);
}
