"""Compiler and warnings flags of each variant."""

from __future__ import annotations

COMMON = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-fPIC", "-fvisibility=hidden", "-g"]
VARIANTS = {
    # Asserts state our own invariants; they are checked in every other variant.
    "release": (["-O3", "-DNDEBUG"], []),
    "debug": (["-O0"], []),
    "asan": (["-O1", "-fno-omit-frame-pointer", "-fsanitize=address"], ["-fsanitize=address"]),
    "ubsan": (
        ["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"],
        ["-fsanitize=undefined"],
    ),
}


def exists(env) -> bool:
    return True


def generate(env) -> None:
    compile_flags, link_flags = VARIANTS[env["variant"]]
    werror = ["-Werror"] if env["werror"] else []
    # The files of an engine or plugin are compiled as one: 4 to 20% on dumps, as it is small functions
    # called from the next file that cost. The objects are ordinary ones as well: tests link those, so
    # that their links are quick and can put wrappers in, and so can who links libtorshi.a. clang would
    # want its own linker for it.
    lto = env["variant"] == "release" and env["cc"] == "gcc"
    cxx = {"gcc": "g++", "clang": "clang++"}[env["cc"]]
    common_cxx = ["-std=c++17", *COMMON[1:]]
    whole = ["-flto=auto", "-ffat-lto-objects"] if lto else []
    env.Replace(CC=env["cc"], CXX=cxx, LINK="$CC", SHLINK="$CC")
    env.Replace(
        CFLAGS=COMMON + compile_flags + werror + whole,
        WHOLE_PROGRAM_CFLAGS=whole,
        CXXFLAGS=common_cxx + compile_flags + werror,
        CCFLAGS=[],
        SHCCFLAGS=[],
        SHCFLAGS=["$CFLAGS"],
        SHCXXFLAGS=["$CXXFLAGS"],
        LINKFLAGS=[*link_flags, *(["-fno-lto"] if lto else [])],
        SHLINKFLAGS=["-shared", "$LINKFLAGS"],
        WHOLE_PROGRAM=[*link_flags, *(["-flto=auto", "-O3"] if lto else [])],
        # Every object is position independent, so that the host, the extension, the plugin
        # and the tests share them.
        STATIC_AND_SHARED_OBJECTS_ARE_THE_SAME=True,
        SHOBJSUFFIX=".o",
        SHLIBPREFIX="",
        CPPPATH=["#embed/include"],
    )
