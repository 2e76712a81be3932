"""torshi.dask: what is written for whom, and clusters over tcp in which all or only some processes have torshi.

Runs in an ordinary python3 and in the host, where scheduler and workers are hosts too.
"""

from __future__ import annotations

import importlib
import os
import pickle
import random
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import pytest

pytest.importorskip("distributed", reason="distributed is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

import dask_things as things  # noqa: E402
import distributed.protocol as protocol  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from distributed.protocol import Serialize, Serialized, to_serialize  # noqa: E402

import torshi  # noqa: E402
import torshi.dask  # noqa: E402

serialize_module = importlib.import_module("distributed.protocol.serialize")
IN_HOST = "_torshi" in sys.builtin_module_names
HERE = str(Path(__file__).resolve().parent)
SECONDS = 150  # processes take ten seconds to start on a busy machine
FRIEND = {"recipient": {"torshi": 1, "pickle-protocol": 5}, "pickle-protocol": 5, "compression": None}
STRANGER = {"recipient": {"pickle-protocol": 5}, "pickle-protocol": 5, "compression": None}


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """No test may hang."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"test took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    torshi.dask.enable()
    yield
    torshi.dask.disable()


def arrive(frames: list) -> list[memoryview]:
    """Frames as they come from a socket: writable, in memory of their own."""
    return [memoryview(bytearray(frame)) for frame in frames]


def sent(x: Any, context: dict = FRIEND, **options: Any) -> Any:
    return protocol.loads(arrive(protocol.dumps(x, context=context, **options)))


def families(header: dict) -> set[str]:
    if "sub-headers" in header:
        return set().union(*map(families, header["sub-headers"]), {"walked"})
    return {header["serializer"]}


def written(x: Any, context: dict = FRIEND) -> set[str]:
    """The families that x is written with when it is marked in a message."""
    (header, _) = serialize_module.serialize(Serialize(x), context=context)
    return families(header)


# ---- values ------------------------------------------------------------------------------------------------------------
VALUES = [
    {"a": 1, "b": "x", "c": None},
    {"a": {"b": {"c": [1, 2, {"d": 2.5}]}}},
    {1: "a", (2, 3): "b", None: "c", "k": "d"},
    things.records(50),
    {f"key {i}": {"n": i, "t": (i, str(i))} for i in range(50)},
    [things.Record(i, str(i), [i]) for i in range(20)],
    [things.Named(a=1), {"a": 1}, things.Named(b=2)],
    (1, [2, (3,)], {4}),
    {1, 2, 3},
    {"records": things.records(20), "label": "x", "blob": b"y" * 100_000},
    [b"x" * 70_000] + [1] * 2000,
    things.Record(1, "one", things.records(10)),
    "text",
    12345678901234567890,
    None,
    [],
    {},
]


@pytest.mark.parametrize("context", [FRIEND, STRANGER], ids=["friend", "stranger"])
@pytest.mark.parametrize("x", VALUES, ids=lambda x: type(x).__name__)
def test_values_come_back_exactly(x: Any, context: dict) -> None:
    back = sent({"op": "x", "data": to_serialize(x)}, context)["data"]
    assert back == x and type(back) is type(x)
    if isinstance(x, dict):
        assert list(back) == list(x)
    if isinstance(x, (list, tuple)):
        assert list(map(type, back)) == list(map(type, x))


def test_plain_collections_go_whole_and_small() -> None:
    rows = things.records(1000)
    assert written(rows) == written({"a": 1}) == written([things.Record(1, "a")]) == {"torshi"}
    ours = sum(map(len, protocol.dumps({"data": to_serialize(rows)}, context=FRIEND)))
    stock = sum(map(len, protocol.dumps({"data": to_serialize(rows)}, context=STRANGER)))
    assert ours * 5 < stock
    assert "torshi" not in written(rows, STRANGER) and "torshi" not in written(rows, {})


def test_shared_parts_stay_shared_in_what_goes_whole() -> None:
    part = [1, 2]
    back = sent({"data": to_serialize([part, part, {"p": part}])})["data"]
    assert back[0] is back[1] is back[2]["p"]


def test_cycles_are_left_to_dask() -> None:
    cycle: list = [1]
    cycle.append(cycle)
    back = sent({"data": to_serialize({"c": cycle})})["data"]["c"]
    assert back[1] is back


# ---- arrays, markers and types with serializers of their own -------------------------------------------------------------
def test_arrays_arrive_without_a_copy() -> None:
    big, fixed = numpy.arange(5000.0), numpy.arange(4000)
    fixed.flags.writeable = False
    x = {"rows": things.records(20), "big": big, "deep": [{"fixed": fixed}], "pair": (big[:100], 1)}
    assert written(x) == {"torshi"}
    frames = arrive(protocol.dumps({"data": to_serialize(x)}, context=FRIEND))
    back = protocol.loads(frames)["data"]
    assert back["rows"] == x["rows"] and (back["big"] == big).all() and (back["pair"][0] == big[:100]).all()
    assert (back["deep"][0]["fixed"] == fixed).all()
    for array in (back["big"], back["deep"][0]["fixed"]):
        assert any(numpy.shares_memory(array, numpy.asarray(frame)) for frame in frames)
    assert back["big"].flags.writeable and not back["deep"][0]["fixed"].flags.writeable


def test_many_small_arrays_do_not_become_many_frames() -> None:
    x = [numpy.arange(i % 9) for i in range(3000)]
    frames = protocol.dumps({"data": to_serialize(x)}, context=FRIEND)
    if torshi.native:  # the pure writer stumbles over in-band buffers, as pickle's own does: Dask walks then
        assert len(frames) < 1500
    back = protocol.loads(arrive(frames))["data"]
    assert all(a.dtype == b.dtype and (a == b).all() for a, b in zip(back, x)) and len(back) == len(x)


def test_views_of_one_row_many_times_stay_small() -> None:
    wide = numpy.broadcast_to(numpy.arange(10), (100_000, 10))
    frames = protocol.dumps({"data": to_serialize({"a": wide, "b": 1})}, context=FRIEND)
    assert sum(len(memoryview(f)) for f in frames) < 10_000
    assert (protocol.loads(arrive(frames))["data"]["a"][-1] == wide[-1]).all()


@pytest.mark.parametrize("context", [FRIEND, STRANGER], ids=["friend", "stranger"])
def test_markers_inside_a_collection_are_taken_off(context: dict) -> None:
    data = numpy.arange(3)
    back = sent({"data": to_serialize({"a": to_serialize(data), "b": [1, 2], "c": to_serialize({"d": 1})})}, context)["data"]
    assert (back["a"] == data).all() and back["b"] == [1, 2] and back["c"] == {"d": 1}


def test_own_serializers_are_asked() -> None:
    things.register_own()
    x = {"own": things.Own("a"), "rows": things.records(30), "list": [things.Own("b"), things.Own("c")]}
    assert written(x) == {"walked", "dask", "torshi"}
    assert sent({"data": to_serialize(x)})["data"] == x


def test_large_byte_strings_stay_frames() -> None:
    blob = b"x" * 1_000_000
    frames = protocol.dumps({"data": to_serialize({"blob": blob, "rows": things.records(30)})}, context=FRIEND)
    assert any(isinstance(f, memoryview) and f.obj is blob for f in frames)


# ---- __main__ ------------------------------------------------------------------------------------------------------------
def test_objects_of_main_are_left_to_cloudpickle() -> None:
    class InMain:
        pass

    InMain.__module__ = "__main__"
    InMain.__qualname__ = "InMain"
    main = sys.modules["__main__"]
    main.InMain = InMain  # type: ignore[attr-defined]
    try:
        x = [InMain() for _ in range(100)]
        stream = torshi.dumps(x, 5)
        assert b"__main__" in stream  # what Dask looks for stays literal
        assert written(x) == {"walked", "pickle"}
        by_value = protocol.pickle.dumps(x)
        assert b"cloudpickle" in by_value
    finally:
        del main.InMain  # type: ignore[attr-defined]
    assert type(pickle.loads(by_value)[0]).__name__ == "InMain"


def test_functions_without_a_name_work() -> None:
    f = sent({"data": to_serialize([lambda x: x + 1])})["data"][0]
    assert f(1) == 2


# ---- many markers in one message -------------------------------------------------------------------------------------------
def marked_message() -> dict[str, Any]:
    values: list[Any] = [i if i % 3 else {"n": i, "s": str(i)} for i in range(1100)]
    values[7] = numpy.arange(1000)
    values[8] = things.records(2000)
    values[9] = None
    return {"op": "update", "data": {f"k{i}": to_serialize(v) for i, v in enumerate(values)}, "set": {1, 2}, "l": [1, "a"]}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, numpy.ndarray):
        return isinstance(b, numpy.ndarray) and a.dtype == b.dtype and bool((a == b).all())
    return type(a) is type(b) and a == b


def test_markers_travel_in_one_piece() -> None:
    msg = marked_message()
    frames, stock = (protocol.dumps(msg, context=c) for c in (FRIEND, STRANGER))
    assert len(frames) < 20 < 2000 < len(stock)
    assert sum(len(memoryview(f)) for f in frames) * 2 < sum(len(memoryview(f)) for f in stock)
    back, theirs = protocol.loads(arrive(frames)), protocol.loads(arrive(stock))
    assert back.keys() == theirs.keys() and back["set"] == theirs["set"] and back["l"] == theirs["l"]
    assert list(back["data"]) == list(msg["data"])
    for key, marked in msg["data"].items():
        assert same(back["data"][key], marked.data) and same(theirs["data"][key], marked.data)


@pytest.mark.parametrize("context", [FRIEND, STRANGER], ids=["friend", "stranger"])
def test_scheduler_passes_them_on(context: dict) -> None:
    msg = marked_message()
    held = protocol.loads(arrive(protocol.dumps(msg, context=FRIEND)), deserialize=False)
    assert all(type(v) is Serialized for v in held["data"].values())
    part = {"op": "part", "data": {k: v for i, (k, v) in enumerate(held["data"].items()) if i % 2 or i < 10}, "t": [held["data"]["k0"]]}
    frames = protocol.dumps(part, context=context)
    if context is STRANGER:
        assert not any(b"torshi" in bytes(f) for f in frames)
        torshi.dask.disable()
    back = protocol.loads(arrive(frames))
    for key in part["data"]:
        assert same(back["data"][key], msg["data"][key].data)
    assert back["t"][0] == msg["data"]["k0"].data


def test_walked_collections_are_turned_into_pickles_part_by_part() -> None:
    things.register_own()
    array = numpy.arange(100.0)
    x = {"own": things.Own("a"), "rows": things.records(30), "deep": {"a": array, "r": [things.Record(1, "a")] * 9}}
    held = protocol.loads(arrive(protocol.dumps({"data": to_serialize(x)}, context=FRIEND)), deserialize=False)
    assert families(held["data"].header) == {"walked", "dask", "torshi"}
    frames = protocol.dumps(held, context=STRANGER)
    assert not any(b"torshi" in bytes(f) for f in frames)
    torshi.dask.disable()
    back = protocol.loads(arrive(frames))["data"]
    assert back["own"] == x["own"] and back["rows"] == x["rows"] and back["deep"]["r"] == x["deep"]["r"]
    assert (back["deep"]["a"] == array).all() and back["deep"]["a"].flags.writeable


def test_a_family_that_the_other_does_not_know_is_not_asked_for() -> None:
    msg = {"op": "get", "serializers": ["torshi", "dask", "pickle"]}
    assert protocol.loads(protocol.dumps(msg, context=STRANGER))["serializers"] == ("dask", "pickle")
    assert protocol.loads(protocol.dumps(msg, context=FRIEND))["serializers"] == ("torshi", "dask", "pickle")
    assert protocol.loads(protocol.dumps({"serializers": ["torshi"]}, context=STRANGER))["serializers"] == ("dask", "pickle")
    assert msg["serializers"] == ["torshi", "dask", "pickle"]


def test_named_serializers_are_kept_to() -> None:
    rows = things.records(30)
    for names, family in ((["dask", "pickle"], "pickle"), (["torshi", "pickle"], "torshi"), (["pickle", "torshi"], "pickle")):
        header, frames = serialize_module.serialize(rows, serializers=names, context=FRIEND)
        assert header["serializer"] == family
    many = {"data": [to_serialize(i) for i in range(100)]}
    assert len(protocol.dumps(many, serializers=["dask", "pickle"], context=FRIEND)) > 100
    frames = protocol.dumps(many, context=FRIEND)
    with pytest.raises(TypeError, match="only able to deserialize"):
        protocol.loads(frames, deserializers=["dask", "pickle"])


def test_what_cannot_be_serialized_says_so_as_ever() -> None:
    class Stubborn:
        def __reduce_ex__(self, protocol: int) -> Any:
            raise ValueError("never")

    with pytest.raises(TypeError, match="Could not serialize object of type Stubborn"):
        protocol.dumps({"data": [to_serialize(Stubborn()) for _ in range(30)]}, context=FRIEND, on_error="raise")


def test_compression_is_what_the_connection_agreed_on() -> None:
    msg = {"data": [to_serialize("the same text again and again " * 20) for _ in range(100)]}
    frames = protocol.dumps(msg, context={**FRIEND, "compression": "zlib"})
    assert sum(map(len, frames)) < 20_000
    assert protocol.loads(arrive(frames))["data"][0].startswith("the same")


# ---- enable and disable ------------------------------------------------------------------------------------------------------
def test_disable_puts_everything_back_and_reads_on() -> None:
    frames = protocol.dumps(marked_message(), context=FRIEND)
    header, parts = torshi.dask.dumps(things.records(30))
    torshi.dask.enable()
    torshi.dask.disable()
    torshi.dask.disable()
    assert serialize_module.serialize is protocol.serialize and protocol.dumps is protocol.core.dumps
    assert "torshi" not in protocol.core.dumps.__module__
    assert protocol.loads(arrive(frames))["data"]["k3"] == {"n": 3, "s": "3"}
    assert protocol.deserialize(header, parts) == things.records(30)
    assert len(protocol.dumps(marked_message(), context=FRIEND)) > 2000
    assert serialize_module.serialize([1], serializers=["torshi", "pickle"])[0]["serializer"] == "pickle"
    torshi.dask.enable()
    assert len(protocol.dumps(marked_message(), context=FRIEND)) < 20


def test_a_dask_that_lacks_something_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torshi.dask.disable()
    stock = protocol.dumps
    monkeypatch.delattr(serialize_module, "serialize")
    with pytest.raises(RuntimeError, match="has no distributed.protocol.serialize.serialize"):
        torshi.dask.enable()
    assert protocol.dumps is stock


@pytest.mark.skipif(not IN_HOST, reason="a mode of the host")
def test_standard_mode_leaves_the_family_its_columns() -> None:
    program = "import torshi.dask, pickle; x = [{'n': i} for i in range(99)]; print(b'torshi' in torshi.dask.dumps(x)[1][0], b'torshi' in pickle.dumps(x))"
    done = subprocess.run([sys.executable, "-X", "torshi=standard", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True False\n", done.stderr


def test_random_messages_arrive_as_stock_dask_would_bring_them() -> None:
    def value(r: random.Random, depth: int = 0) -> Any:
        if depth < 3 and r.random() < 0.5:
            n = r.randrange(6)
            return r.choice([
                lambda: [value(r, depth + 1) for _ in range(n)],
                lambda: {r.choice(["a", "b", i, (i, "t")]): value(r, depth + 1) for i in range(n)},
                lambda: tuple(value(r, depth + 1) for _ in range(n)),
                lambda: things.Named(a=value(r, depth + 1)),
            ])()  # fmt: skip
        return r.choice([1, 2.5, "text", None, True, b"bytes", bytearray(b"x"), 2**70, things.Record(1, "r"), {1, 2}])

    for seed in range(300):
        r = random.Random(seed)
        msg = {"op": "m", "items": {str(i): to_serialize(value(r)) for i in range(r.choice([1, 3, 20]))}}
        ours, theirs = sent(msg, FRIEND), sent(msg, STRANGER)
        assert ours == theirs and repr(ours) == repr(theirs), seed


# ---- clusters ----------------------------------------------------------------------------------------------------------------
def child_environment() -> dict[str, str]:
    path = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**os.environ, "PYTHONPATH": path, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "20s"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two workers, processes over tcp, all with torshi; in the host they are hosts."""
    torshi.dask.enable()
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = child_environment()["PYTHONPATH"]
    try:
        with LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            protocol="tcp",
            dashboard_address=None,
            preload=["torshi.dask"],
            memory_limit="2GiB",
        ) as made:
            yield made
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster, timeout=30) as made:
        yield made


def test_scatter_submit_gather_map(client: Client) -> None:
    assert all(client.run(things.has_torshi).values())
    rows = things.records(5000)
    nested = {f"k{i}": {"n": i} for i in range(500)}
    (f, g) = client.scatter([rows, nested], hash=False)
    assert client.gather(f) == rows and client.gather(g) == nested
    assert client.submit(things.length_and_type, f).result(timeout=30) == (5000, "list")
    assert client.submit(things.length_and_type, g).result(timeout=30) == (500, "dict")
    named = client.scatter(things.Named(rows=rows), hash=False)
    back = client.gather(named)
    assert type(back) is things.Named and back["rows"] == rows and type(back["rows"]) is list
    made = client.map(things.make_records, [10, 2000, 30])
    assert client.gather(client.map(things.total, made)) == [sum(range(n)) for n in (10, 2000, 30)]
    assert client.gather(made)[1] == things.records(2000)
    arrays = client.scatter({"a": numpy.arange(10_000), "rows": rows}, hash=False)
    assert (client.gather(arrays)["a"] == numpy.arange(10_000)).all()
    assert client.gather(client.submit(things.length_and_type, rows, pure=False)) == (5000, "list")


def test_records_are_small_on_every_leg(client: Client) -> None:
    def sent_by_all() -> int:
        return sum(s["bytes"] for s in [torshi.dask.sent(), *client.run(torshi.dask.sent).values()])

    before = sent_by_all()
    rows = things.records(20_000)
    assert client.gather(client.scatter([rows], hash=False)) == [rows]
    one = len(torshi.dumps(rows, 5))
    assert 4 * one <= sent_by_all() - before < 4.2 * one + 20_000  # to the scheduler, the worker, the scheduler, and here


def test_many_values_in_one_message(client: Client) -> None:
    values = {f"key-{i}": i for i in range(1100)}
    assert client.gather(client.scatter(values)) == values


def test_between_workers(client: Client) -> None:
    a, b = client.scheduler_info()["workers"]
    made = client.submit(things.make_records, 3000, workers=[a], pure=False)
    assert client.submit(things.total, made, workers=[b], pure=False).result(timeout=30) == sum(range(3000))


def test_with_a_list_of_serializers(cluster: LocalCluster) -> None:
    names = ["torshi", "dask", "pickle"]
    with Client(cluster, serializers=names, deserializers=names, timeout=30) as client:
        f = client.scatter([things.records(3000)], hash=False)[0]
        assert client.gather(f) == things.records(3000)
        assert client.submit(lambda x: {"flat": len(x)}, f).result(timeout=30) == {"flat": 3000}
    with Client(cluster, serializers=["dask", "pickle"], timeout=30) as client:
        f = client.scatter([things.records(300)], hash=False)[0]
        assert client.gather(f) == things.records(300)


def test_retries(client: Client, tmp_path: Path) -> None:
    f = client.scatter([things.records(100)], hash=False)[0]
    assert client.submit(things.fail_first, str(tmp_path / "calls"), f, retries=3).result(timeout=30) == 100


def test_spilling(client: Client) -> None:
    rows = things.records(20_000)
    f = client.submit(things.make_records, 20_000, pure=False)
    assert client.submit(len, f, pure=False).result(timeout=30) == 20_000
    assert sum(client.run(things.spill_all).values()) >= 1
    assert any(b"torshi" in data for data in client.run(things.spilled_bytes).values())
    assert client.gather(f) == rows
    assert client.submit(things.total, f, pure=False).result(timeout=30) == sum(range(20_000))


def test_worker_restart(client: Client) -> None:
    before = set(client.run(things.pid).values())
    client.restart(timeout=100)
    assert not before & set(client.run(things.pid).values())
    assert all(client.run(things.has_torshi).values())
    (f,) = client.scatter([things.records(3000)], hash=False)
    assert client.gather(client.submit(things.length_and_type, f)) == (3000, "list")
    assert client.gather(f) == things.records(3000)


# ---- clusters in which only some have torshi -----------------------------------------------------------------------------------
WITHOUT = "import sys; sys.modules['torshi'] = None; import runpy; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__')"


def plain_python() -> str:
    """A python3 whose pickle is not ours, with Dask."""
    if not IN_HOST:
        return sys.executable
    beside = Path(sys.executable).with_name("python")
    if not beside.exists() or beside.resolve() == Path(sys.executable).resolve():
        pytest.skip("no python beside the host that is not the host")
    return str(beside)


@contextmanager
def processes(folder: Path) -> Iterator[Any]:
    """start(module, *options, with_torshi=) starts a Dask process; all of them end with the block. What they say is printed
    when the block ends badly."""
    running: list[subprocess.Popen] = []
    said = open(folder / "said", "w+")

    def start(module: str, *options: str, with_torshi: bool | None) -> None:
        words = [sys.executable, "-m", f"distributed.cli.{module}"]
        if with_torshi:
            words += ["--preload", "torshi.dask"]
        elif with_torshi is False:
            words = [plain_python(), "-c", WITHOUT, f"distributed.cli.{module}"]
        running.append(subprocess.Popen(
            [*words, *options], env=child_environment(), stdin=subprocess.DEVNULL,
            stdout=said, stderr=said,
        ))  # fmt: skip

    try:
        yield start
    except BaseException:
        said.seek(0)
        print(said.read())
        raise
    finally:
        said.close()
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def start_worker(start: Any, where: list[str], name: str, with_torshi: bool) -> None:
    start(
        "dask_worker", *where, "--name", name, "--nworkers", "1", "--nthreads", "1", "--no-dashboard",
        "--host", "127.0.0.1", "--no-nanny", with_torshi=with_torshi,
    )  # fmt: skip


def start_scheduler(start: Any, where: list[str], with_torshi: bool) -> None:
    start("dask_scheduler", *where, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", with_torshi=with_torshi)


def use_everything(client: Client, addresses: list[str]) -> None:
    """Data to, from and between these workers."""
    rows, nested = things.records(2000), {f"k{i}": {"n": i, "r": [i]} for i in range(300)}
    markers = {f"m{i}": {"i": i} if i % 2 else i for i in range(40)}
    for address in addresses:
        f, g = client.scatter([rows, nested], workers=[address], hash=False)
        assert client.gather(f) == rows and client.gather(g) == nested
        assert client.gather(client.scatter(markers, workers=[address])) == markers
        assert client.submit(things.length_and_type, f, workers=[address], pure=False).result(timeout=30) == (2000, "list")
        made = client.submit(things.make_records, 500, workers=[address], pure=False)
        assert client.gather(made, direct=False) == client.gather(made, direct=True) == things.records(500)
        for other in addresses:
            assert client.submit(things.total, made, workers=[other], pure=False).result(timeout=30) == sum(range(500))
    f = client.scatter([rows], broadcast=True, hash=False)
    assert client.gather(f) == [rows]


CLIENT = """
import sys
sys.modules["torshi"] = None
import dask_things as things
from distributed import Client
with Client(sys.argv[1], timeout=30) as client:
    for address in client.scheduler_info()["workers"]:
        made = client.submit(things.make_records, 2000, workers=[address], pure=False)
        assert client.gather(made, direct=False) == client.gather(made, direct=True) == things.records(2000)
    (f,) = client.scatter([things.records(500)], hash=False)
    assert client.gather(f) == things.records(500)
    values = {f"m{i}": i for i in range(50)}
    assert client.gather(client.scatter(values)) == values
print("well")
"""


def test_only_some_processes_have_torshi(cluster: LocalCluster, tmp_path: Path) -> None:
    """A worker without torshi joins a running cluster, and a client without it uses that."""
    names = ["torshi", "dask", "pickle"]
    with processes(tmp_path) as start, Client(cluster, timeout=30, serializers=names) as client:
        (early,) = client.scatter([things.records(2000)], hash=False)
        before = set(client.scheduler_info()["workers"])
        start_worker(start, [cluster.scheduler_address], "without", with_torshi=False)
        client.wait_for_workers(len(before) + 1, timeout=60)
        (without,) = set(client.scheduler_info()["workers"]) - before
        assert client.run(things.has_torshi) == {**dict.fromkeys(before, True), without: False}
        late = client.submit(things.length_and_type, early, workers=[without], pure=False)
        assert late.result(timeout=30) == (2000, "list")
        use_everything(client, [without, min(before)])
        done = subprocess.run(
            [plain_python(), "-c", CLIENT, cluster.scheduler_address],
            env=child_environment(), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.stdout == "well\n", done.stderr


def test_scheduler_without_torshi(tmp_path: Path) -> None:
    where = ["--scheduler-file", str(tmp_path / "scheduler.json")]
    with processes(tmp_path) as start:
        start_scheduler(start, where, with_torshi=False)
        start_worker(start, where, "with", with_torshi=True)
        with Client(scheduler_file=where[1], timeout=60, serializers=["torshi", "dask", "pickle"]) as client:
            client.wait_for_workers(1, timeout=60)
            use_everything(client, list(client.scheduler_info()["workers"]))


@pytest.mark.skipif(not IN_HOST, reason="the host's scheduler and worker")
def test_unmodified_dask_in_hosts(tmp_path: Path) -> None:
    torshi.dask.disable()
    where = ["--scheduler-file", str(tmp_path / "scheduler.json")]
    with processes(tmp_path) as start:
        start("dask_scheduler", *where, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", with_torshi=None)
        start("dask_worker", *where, "--nworkers", "1", "--nthreads", "1", "--no-dashboard", with_torshi=None)
        with Client(scheduler_file=where[1], timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            assert client.run(things.pickles_are_ours) == dict.fromkeys(client.scheduler_info()["workers"], True)
            use_everything(client, list(client.scheduler_info()["workers"]))
