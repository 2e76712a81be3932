# Sourced by tools/run and tools/test: installs what is missing, from a bare Debian 12 on.
#
# Sets PYTHON (the interpreter to build against, absolute), VENV (a virtual environment of it under
# build/, with the host linked in as VENV/bin/torshi). Safe to run again; quick when all is there.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
VENV=$ROOT/build/venv
JOBS=$(nproc 2>/dev/null || echo 2)

say() { printf 'torshi: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Install the Debian packages among "$@" that are not there.
install_packages() {
    command -v dpkg-query >/dev/null || { say "no Debian here: install by hand: $*"; return 0; }
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q '^install ok installed' || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || die "these Debian packages are missing: ${missing[*]}"
    say "installing Debian packages: ${missing[*]}"
    mkdir -p build
    local log=build/apt.log
    export DEBIAN_FRONTEND=noninteractive
    apt-get update >"$log" 2>&1 || say "apt-get update failed, going on with the lists that are there"
    apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 ||
        { tail -n 30 "$log" >&2; die "apt-get could not install: ${missing[*]}"; }
}

# What the build itself needs, and what only tests need.
BUILD_PACKAGES=(gcc g++ libc6-dev python3 python3-venv python3-dev libpython3-dev)
TEST_PACKAGES=(clang clang-format clang-tidy cppcheck valgrind catch2 libclang-rt-dev)

choose_python() {
    PYTHON=$(command -v "${PYTHON:-python3}") || die "no ${PYTHON:-python3} on PATH"
    PYTHON=$("$PYTHON" -c 'import sys; print(sys.executable)')
    say "building against $PYTHON ($("$PYTHON" -V 2>&1))"
}

make_venv() {
    local want
    want=$( { cat tools/requirements.txt; echo "$PYTHON"; "$PYTHON" -VV; } | sha256sum | cut -d' ' -f1)
    if [ "$(cat "$VENV/.made-of" 2>/dev/null || true)" != "$want" ]; then
        say "making build/venv and installing tools/requirements.txt into it"
        rm -rf "$VENV"
        "$PYTHON" -m venv "$VENV"
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt ||
            die "pip could not install tools/requirements.txt"
        echo "$want" >"$VENV/.made-of"
    fi
    # The host run by this name finds the environment's packages as any python3 in it would.
    ln -sfn ../../torshi "$VENV/bin/torshi"
}

# The test package of the standard library is a package of its own on Debian.
install_python_tests() {
    "$PYTHON" -c 'import test.pickletester' 2>/dev/null && return 0
    local version
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [ "$PYTHON" != "/usr/bin/python3" ] || install_packages "libpython$version-testsuite"
    "$PYTHON" -c 'import test.pickletester' 2>/dev/null ||
        say "SKIPPED: CPython's own suites ($PYTHON has no test package)"
}

scons_() { "$VENV/bin/python" -m SCons -Q -j"$JOBS" "python=$PYTHON" "$@"; }
