"""Reads from the chosen interpreter's own sysconfig how to compile and link against it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from SCons.Errors import StopError

# Run by the chosen interpreter. Its executable tells how it was linked: Debian's is
# self-contained although a shared library exists too.
PROBE = r"""
import json, os, sys, sysconfig
var = sysconfig.get_config_var
with open(os.path.realpath(sys.executable), "rb") as f:
    shared = (var("INSTSONAME") or "?").encode() in f.read()
names = ("LIBPL", "LIBRARY", "LIBDIR", "LDVERSION", "LIBS", "SYSLIBS", "MODLIBS",
         "LINKFORSHARED", "EXT_SUFFIX", "MULTIARCH", "Py_GIL_DISABLED")
print(json.dumps({
    "executable": sys.executable,
    "version": sys.version_info[:2],
    "hexversion": sys.hexversion,
    "implementation": sys.implementation.name,
    "prefix": sys.base_prefix,
    "exec_prefix": sys.base_exec_prefix,
    "stdlib": sysconfig.get_path("stdlib"),
    "include": [sysconfig.get_path("include"), sysconfig.get_path("platinclude")],
    "shared": shared,
    "builtin_pickle": "_pickle" in sys.builtin_module_names,
    **{n: var(n) for n in names},
}))
"""


def exists(env) -> bool:
    return True


def probe(python: str) -> dict:
    found = shutil.which(python)
    if not found:
        raise StopError(f"python={python}: no such interpreter")
    run = subprocess.run([found, "-I", "-c", PROBE], capture_output=True, text=True)
    if run.returncode:
        raise StopError(f"python={python} does not run:\n{run.stderr}")
    info = json.loads(run.stdout)
    if info["implementation"] != "cpython" or not [3, 11] <= info["version"] <= [3, 13]:
        raise StopError(f"python={python}: CPython 3.11, 3.12 or 3.13 is needed")
    if info["Py_GIL_DISABLED"]:
        raise StopError(f"python={python}: builds without the GIL are not supported")
    return info


def generate(env) -> None:
    info = probe(env["python"])
    env["PYINFO"] = info
    env["PYTHON"] = info["executable"]
    env["EXT_SUFFIX"] = info["EXT_SUFFIX"]
    # -isystem: their warnings are not ours.
    includes = [flag for folder in dict.fromkeys(info["include"]) for flag in ("-isystem", folder)]
    env["PYTHON_CFLAGS"] = includes

    archive = os.path.join(info["LIBPL"] or "", info["LIBRARY"] or "?")
    static = env["libpython"] == "static" or (env["libpython"] == "auto" and not info["shared"])
    words = " ".join(info[n] or "" for n in ("MODLIBS", "LIBS", "SYSLIBS")).split()
    libraries = list(dict.fromkeys(w for w in words if w.startswith("-l"))) + ["-lpthread"]
    export = ["-Wl,--export-dynamic"]
    if static:
        if not os.path.exists(archive):
            raise StopError(f"libpython=static: there is no {archive}")
        # Extension modules need every function of the library, not only those that main calls.
        # Like the interpreter itself, not position independent: that is where its speed is.
        env["PYTHON_LINK"] = [
            "-no-pie",
            *export,
            "-Wl,--whole-archive",
            archive,
            "-Wl,--no-whole-archive",
            *libraries,
        ]
    else:
        library = "-lpython" + info["LDVERSION"]
        rpath = "-Wl,-rpath," + info["LIBDIR"]
        env["PYTHON_LINK"] = [*export, "-L" + info["LIBDIR"], rpath, library, *libraries]
    how = "static" if static else "shared"
    if not env.GetOption("silent"):
        print(f"scons: {info['executable']} ({how}), {env['cc']}, {env['variant']}", file=sys.stderr)
