"""The pure-Python package against the native engine: the same bytes, the same values."""

from __future__ import annotations

import io
import os
import pickle
import random
import sys
import unittest
from typing import Any

import graph_maker
import random_graphs
import torshi
from torshi import _pure

FACTOR = int(os.environ.get("TORSHI_TEST_FACTOR", "1"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "bench"))
import workloads  # noqa: E402

# Their slots are known to copyreg, and so to both engines, from the first dump on.
for _cls in (graph_maker.Slotted, graph_maker.Mixed):
    pickle.dumps(_cls(1, 2, 3), 5)
pickle.dumps(workloads.Slotted(1, 2, 3), 5)


def attempt(call: Any, *args: Any, **kwargs: Any) -> Any:
    """The result, or the exception as a text."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@unittest.skipUnless(torshi.native, "there is no native engine to compare with")
class SameBytes(unittest.TestCase):
    def same(self, native: Any, pure: Any, what: str) -> None:
        if native != pure:
            at = next(
                (i for i, (a, b) in enumerate(zip(native, pure)) if a != b),
                min(len(native), len(pure)),
            )
            self.fail(
                f"{what}: lengths {len(native)}, {len(pure)}, differ at {at}: {native[at : at + 40]!r} {pure[at : at + 40]!r}"
            )

    def test_workloads(self) -> None:
        for name, obj in workloads.workloads().items():
            if name != "dict_ints_1m":
                self.same(torshi.dumps(obj, 5), _pure.dumps(obj, 5), name)

    def test_graphs(self) -> None:
        chunked = 0
        for seed in range(600 * FACTOR):
            protocol = 4 + seed % 2
            graph = graph_maker.make_graph(seed)
            native = torshi.dumps(graph, protocol)
            chunked += b"torshi" in native
            self.same(native, _pure.dumps(graph, protocol), f"seed {seed}")
        self.assertGreater(chunked, 100 * FACTOR)

    def test_graphs_of_the_pickler(self) -> None:
        for seed in range(300 * FACTOR):
            for protocol in range(6):
                for reducers in ("chunked", "standard"):
                    native = attempt(
                        torshi.dumps, random_graphs.build(seed), protocol, reducers=reducers
                    )
                    pure = attempt(
                        _pure.dumps, random_graphs.build(seed), protocol, reducers=reducers
                    )
                    if type(native) is type(pure) is bytes:
                        self.same(native, pure, f"seed {seed}, protocol {protocol}, {reducers}")

    def test_sizes(self) -> None:
        """Borders of batches, blocks and frames."""
        for n in (
            0,
            1,
            2,
            7,
            8,
            15,
            16,
            255,
            256,
            257,
            999,
            1000,
            1001,
            2000,
            65535,
            65536,
            65537,
            140000,
        ):
            for make in (
                lambda n: list(range(n)),
                lambda n: {i: None for i in range(n)},
                lambda n: {str(i): float(i) for i in range(n)},
                lambda n: [[i] for i in range(n)],
                lambda n: [object] * n,
                lambda n: [(i, str(i)) for i in range(n)],
                lambda n: {i for i in range(n)},
            ):
                for reducers in ("chunked", "standard"):
                    native = torshi.dumps(make(n), 5, reducers=reducers)
                    self.same(
                        native, _pure.dumps(make(n), 5, reducers=reducers), f"{n} {make(min(n, 2))}"
                    )
                    self.assertEqual(_pure.loads(native), make(n))

    def test_repeating_texts(self) -> None:
        """Columns about as full of equal strings as a dictionary needs, and with strings of all kinds."""
        r = random.Random(5)
        for n in (8, 9, 40, 255, 256, 257, 300, 1000, 4096, 20_000):
            for share in (0.05, 0.3, 0.45, 0.5, 0.55, 0.7, 1.0):
                for tail in ("", "\xe9", "\u0394" * 90, "\U0001f600" * 70, "x" * 300):
                    texts = [f"{r.randrange(int(n * share) + 1)}{tail}" for _ in range(n)]
                    native = torshi.dumps(texts, 5)
                    self.same(native, _pure.dumps(texts, 5), f"{n} {share} {tail[:1]!r}")
                    self.assertEqual(pickle.loads(native), texts)

    def test_texts_that_start_with_few_repeats(self) -> None:
        """Long columns give a dictionary up by what their first eighth holds, short ones do not."""
        for n, gives_up in ((2047, False), (2048, True), (2056, True)):
            look = n // 8
            sizes = []
            for distinct in (look * 15 // 16, look * 15 // 16 + 1):
                texts = [f"row {min(i, distinct - 1)}" for i in range(look)] + ["row 0"] * (n - look)
                native = torshi.dumps(texts, 5)
                self.same(native, _pure.dumps(texts, 5), f"{n} {distinct}")
                self.assertEqual(pickle.loads(native), texts)
                sizes.append(len(native))
            self.assertEqual(sizes[1] > 2 * sizes[0], gives_up, f"{n} {sizes}")

    def test_a_pickler_again(self) -> None:
        """The memo is kept from dump to dump."""
        for seed in range(150 * FACTOR):
            streams = []
            graph, other = graph_maker.make_graph(seed, 100), graph_maker.make_graph(seed + 1, 100)
            for pickler in (torshi.Pickler, _pure.Pickler):
                file = io.BytesIO()
                writer = pickler(file, 5)
                for obj in (graph, [graph, graph], other):
                    writer.dump(obj)
                streams.append(file.getvalue())
            self.same(*streams, f"seed {seed}")

    def test_slots_after_user_code(self) -> None:
        class Empty:
            def __reduce__(self) -> Any:
                return int, ()

        shared = [(1, 2)] * 40
        for cls in (workloads.Slotted, graph_maker.Mixed):
            obj = cls(shared, shared, 1)
            for before in (1, Empty(), len, 1j):
                graph = [before, obj, {"a": shared, "b": obj}]
                native = torshi.dumps(graph, 5)
                self.same(native, _pure.dumps(graph, 5), f"{cls.__name__} after {before}")
                file = io.BytesIO()
                torshi.dump(graph, file, 5)
                self.same(file.getvalue(), native, f"{cls.__name__} after {before}, to a file")
                standard = torshi.dumps(graph, 5, reducers="standard")
                self.same(standard, pickle._dumps(graph, 5), "standard")  # type: ignore[attr-defined]

    def test_slot_states_that_hold_themselves(self) -> None:
        class Empty:
            def __reduce__(self) -> Any:
                return int, ()

        for where in ("dict", "slots", "slots alone"):
            attributes: dict[str, Any] = {}
            slots: dict[str, Any] = {"a": 1}
            state = (None if where == "slots alone" else attributes, slots)
            (attributes if where == "dict" else slots)["state"] = state
            obj = graph_maker.WithDict(state)
            for graph in ([Empty(), obj], [obj, state], [state, obj]):
                expected = pickle._dumps(graph, 5)  # type: ignore[attr-defined]
                self.same(torshi.dumps(graph, 5), expected, where)
                self.same(_pure.dumps(graph, 5), expected, f"{where}, pure")

    def test_extension_code(self) -> None:
        import copyreg

        for code in (7, 700, 70000):
            copyreg.add_extension("torshi", "chunk", code)
            try:
                obj = {f"k{i}": i for i in range(100)}
                native = torshi.dumps(obj, 5)
                self.same(native, _pure.dumps(obj, 5), f"code {code}")
                self.assertEqual(_pure.loads(native), obj)
            finally:
                copyreg.remove_extension("torshi", "chunk", code)

    def test_hooks(self) -> None:
        class Mine:
            def reducer_override(self, obj: Any) -> Any:
                return (list, ()) if isinstance(obj, graph_maker.Point) else NotImplemented

        for seed in range(150 * FACTOR):
            streams = []
            graph = graph_maker.make_graph(seed, 100)
            for pickler in (torshi.Pickler, _pure.Pickler):
                cls = type("Hooked", (Mine, pickler), {})
                file = io.BytesIO()
                cls(file, 5).dump(graph)
                streams.append(file.getvalue())
            self.same(*streams, f"seed {seed}")


class SameValues(unittest.TestCase):
    """Whoever writes, whoever reads: what stock pickle makes of the graph."""

    def test_graphs(self) -> None:
        loads = {
            "torshi": torshi.loads,
            "pure": _pure.loads,
            "stock": pickle.loads,
            "stock in Python": pickle._loads,
        }  # type: ignore[attr-defined]
        for seed in range(300 * FACTOR):
            expected = graph_maker.describe(
                pickle.loads(pickle.dumps(graph_maker.make_graph(seed), 5))
            )
            for writer in (torshi.dumps, _pure.dumps):
                stream = writer(graph_maker.make_graph(seed), 5)
                for name, load in loads.items():
                    self.assertTrue(
                        graph_maker.describe(load(stream)) == expected,
                        f"seed {seed}, {writer.__module__}, {name}",
                    )


class Interface(unittest.TestCase):
    def test_arguments(self) -> None:
        with self.assertRaises(ValueError):
            _pure.dumps(1, reducers="other")
        with self.assertRaises(ValueError):
            _pure.dumps(1, 99)
        with self.assertRaises(TypeError):
            _pure.loads("text")
        with self.assertRaises(TypeError):
            _pure.Pickler(object())
        self.assertEqual(_pure.loads(_pure.dumps({1: 2})), {1: 2})
        file = io.BytesIO()
        _pure.dump([1] * 50, file, reducers="standard")
        self.assertEqual(file.getvalue(), pickle._dumps([1] * 50))  # type: ignore[attr-defined]
        file.seek(0)
        self.assertEqual(_pure.load(file), [1] * 50)

    def test_persistent_ids_go_the_standard_way(self) -> None:
        class Persistent(_pure.Pickler):
            def persistent_id(self, obj: Any) -> Any:
                return None

        file = io.BytesIO()
        Persistent(file, 5).dump([1] * 50)
        self.assertEqual(file.getvalue(), pickle._dumps([1] * 50, 5))  # type: ignore[attr-defined]

    def test_clear_memo(self) -> None:
        file = io.BytesIO()
        writer = _pure.Pickler(file, 5)
        rows = [{"id": i, "at": [i]} for i in range(50)]
        writer.dump(rows)
        first = file.getvalue()
        writer.clear_memo()
        writer.dump(rows)
        self.assertEqual(file.getvalue(), first * 2)

    def test_size_changes_meanwhile(self) -> None:
        target: dict[Any, Any] = {}

        class Grows:
            def __reduce__(self) -> Any:
                target["more"] = 1
                return int, ()

        target.update({i: i for i in range(100)}, last=Grows())
        with self.assertRaisesRegex(RuntimeError, "changed size"):
            _pure.dumps(target, 5)


if __name__ == "__main__":
    unittest.main()
