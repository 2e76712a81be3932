"""`import torshi`: its names, install() and uninstall(), life without the extension."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torshi
from plugin_support import IN_HOST, check_code, run_code

needs_engine = pytest.mark.skipif(not torshi.native, reason="needs the native engine")
outside = pytest.mark.skipif(IN_HOST, reason="in the host pickle is the engine's anyway")


def test_names():
    for name in torshi.__all__:
        assert getattr(torshi, name) is not None
    assert torshi.__version__ == "0.1.0"
    for name in ("PickleError", "PicklingError", "UnpicklingError", "PickleBuffer"):
        assert getattr(torshi, name) is getattr(pickle, name)
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler", "chunk", "registry"):
        assert getattr(torshi, name).__module__ == "torshi"
        assert pickle.loads(pickle.dumps(getattr(torshi, name))) is getattr(torshi, name)


def test_reducers_are_an_argument():
    value = {i: i * i for i in range(100)}
    chunked = torshi.dumps(value, reducers="chunked")
    standard = torshi.dumps(value, reducers="standard")
    assert b"torshi" in chunked and b"torshi" not in standard
    assert len(chunked) < len(standard)
    assert torshi.dumps(value, reducers=None) == torshi.dumps(value)
    for data in chunked, standard:
        assert torshi.loads(data) == pickle.loads(data) == value
    for wrong in "nonsense", "CHUNKED", "":
        with pytest.raises(ValueError):
            torshi.dumps(value, reducers=wrong)
    with pytest.raises((TypeError, ValueError)):
        torshi.dumps(value, reducers=1)
    with pytest.raises(TypeError):
        torshi.dumps(value, None, "chunked")


def test_raises_the_classes_of_pickle():
    with pytest.raises(pickle.UnpicklingError):
        torshi.loads(b"Pname\n.")
    with pytest.raises((pickle.PicklingError, AttributeError)):
        torshi.dumps(lambda: 0)


def test_stub_names_what_there_is():
    stub = Path(torshi.__file__).with_suffix(".pyi").read_text()
    for name in torshi.__all__:
        assert re.search(rf"\b{name}\b", stub), name
    assert Path(torshi.__file__).with_name("py.typed").exists()


@needs_engine
@outside
def test_install_and_uninstall():
    check_code(
        """
import sys, pickle, copyreg
before = {n: getattr(pickle, n) for n in dir(pickle)}
stock = sys.modules["_pickle"]
from pickle import dumps as early
import torshi
value = {i: i for i in range(100)}
assert b"torshi" not in pickle.dumps(value)

torshi.uninstall()                      # nothing to undo
torshi.install()
torshi.install()                        # twice is once
assert b"torshi" in pickle.dumps(value) and b"torshi" not in early(value)
assert pickle.loads(pickle.dumps(value)) == value
import _pickle
assert _pickle is not stock and _pickle.dumps is pickle.dumps
assert pickle.Pickler.__module__ == "_pickle" and type(pickle.dumps) is type(len)
assert _pickle.PickleBuffer is before["PickleBuffer"]
for name in "PickleError", "PicklingError", "UnpicklingError":
    assert getattr(_pickle, name) is getattr(pickle, name) is before[name]
try:
    pickle.dumps(value, reducers="standard")
except TypeError:
    pass
else:
    raise AssertionError("pickle's own signature has no reducers")
import io, shelve                       # a late one gets ours
assert shelve.Pickler is pickle.Pickler

class Persistent(pickle.Pickler):
    def persistent_id(self, obj):
        return None
file = io.BytesIO()
Persistent(file).dump(value)
assert pickle.loads(file.getvalue()) == value

torshi.uninstall()
assert {n: getattr(pickle, n) for n in dir(pickle)} == before
assert sys.modules["_pickle"] is stock
assert copyreg.dispatch_table is not None and torshi.loads(torshi.dumps(value)) == value

torshi.install()
pickle.dumps = early                    # somebody else's, which stays
torshi.uninstall()
assert pickle.dumps is early and pickle.loads is before["loads"]
"""
    )


@needs_engine
@outside
def test_install_reaches_what_looks_up_late():
    check_code(
        """
import torshi
torshi.install()
import pickle, multiprocessing.reduction as r
value = {i: i for i in range(100)}
assert issubclass(r.ForkingPickler, pickle.Pickler)
data = bytes(r.ForkingPickler.dumps(value))
assert b"torshi" in data and r.ForkingPickler.loads(data) == value
"""
    )


@needs_engine
def test_install_leaks_nothing():
    check_code(
        """
import gc, sys, pickle, torshi
def once():
    torshi.install()
    pickle.loads(pickle.dumps([1, {"a": 2}]))
    torshi.uninstall()
for i in range(20):
    once()
gc.collect()
before = sys.getallocatedblocks()
for i in range(50):
    once()
gc.collect()
assert sys.getallocatedblocks() - before < 300, sys.getallocatedblocks() - before
"""
    )


@pytest.mark.skipif(not IN_HOST, reason="the host's")
def test_in_the_host_install_has_nothing_to_do():
    before = pickle.dumps, pickle.Pickler, sys.modules["_pickle"]
    torshi.install()
    assert (pickle.dumps, pickle.Pickler, sys.modules["_pickle"]) == before
    torshi.uninstall()
    assert (pickle.dumps, pickle.Pickler, sys.modules["_pickle"]) == before


PURE = """
import pickle, torshi
assert not torshi.native
assert torshi.registry() == []
value = {i: "x%d" % i for i in range(100)}
assert torshi.loads(torshi.dumps(value)) == value == pickle.loads(torshi.dumps(value))
assert torshi.chunk.__module__ == "torshi"
for call in torshi.install, lambda: torshi.load_plugin("x.so"), lambda: torshi.function("a", "b"):
    try:
        call()
    except (RuntimeError, ImportError, LookupError):
        pass
    else:
        raise AssertionError
"""


@outside
def test_without_the_extension_by_choice():
    check_code(PURE, TORSHI_PURE="1")


@outside
def test_without_the_extension_because_it_is_not_there(tmp_path):
    package = tmp_path / "torshi"
    package.mkdir()
    for file in Path(torshi.__file__).parent.glob("*.py"):
        (package / file.name).write_text(file.read_text())
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PURE], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")


@outside
@needs_engine
def test_an_extension_that_cannot_start_is_an_error(tmp_path):
    """Going on without would hide it."""
    source = Path(torshi.__file__).parent
    package = tmp_path / "torshi"
    package.mkdir()
    for file in [*source.glob("*.py"), *source.glob("_torshi*.so")]:
        (package / file.name).write_bytes(file.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", "import torshi"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1 and "chunked.so: No such file or directory" in done.stderr


@needs_engine
def test_reading_needs_only_that_torshi_can_be_imported():
    value = {i: i for i in range(100)}
    data = torshi.dumps(value, reducers="chunked")
    check_code(f"import pickle; assert pickle.loads({data!r}) == {value!r}")
    lost = run_code(
        f"import sys, pickle; sys.modules['torshi'] = None; pickle.loads({data!r})",
    )
    assert "ModuleNotFoundError" in lost.stderr and "torshi" in lost.stderr
