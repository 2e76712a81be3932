"""torshi.chunk, native and pure: random payloads, damaged ones, hostile ones, and user code that
runs in the middle of reading."""

from __future__ import annotations

import gc
import os
import pickle
import random
import sys
import tracemalloc
import unittest
from typing import Any

import format_reader
import torshi
from payload_maker import (
    EXTERNALS,
    Plain,
    Reference,
    describe,
    head,
    make_payload,
    pack,
    uvar,
    zvar,
)
from torshi._pure_read import chunk as pure_chunk

try:
    import _testcapi
except ImportError:
    _testcapi = None

FACTOR = int(os.environ.get("TORSHI_TEST_FACTOR", "1"))


def outcome(chunk: Any, kind: type, payload: bytes, *more: Any) -> Any:
    """What a call gives: the described target and roll, or the exception as text."""
    target: Any = kind()
    roll: list[Any] = []
    try:
        chunk(target, payload, *((roll, *more) if more else ()))
    except MemoryError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return describe(target, roll)


def refusal(kind: type, payload: bytes, *more: Any) -> str | None:
    """How the reader written from the text refuses a payload, in the words of docs/format.md."""
    try:
        format_reader.chunk(kind(), payload, *(([], *more) if more else ()))
    except format_reader.FormatError as error:
        return f"{error.status} at byte {error.offset}"
    except Exception as error:
        return type(error).__name__
    return None


class RandomPayloads(unittest.TestCase):
    def check(self, chunk: Any) -> None:
        for seed in range(1500 * FACTOR):
            payload, target, roll = make_payload(random.Random(seed))
            made_roll: list[Any] = []
            made = type(target)()
            self.assertIs(chunk(made, payload, made_roll, *EXTERNALS), made)
            self.assertTrue(describe(made, made_roll) == describe(target, roll), f"seed {seed}")

    def test_native(self) -> None:
        self.check(torshi.chunk)

    def test_pure(self) -> None:
        self.check(pure_chunk)


class DamagedPayloads(unittest.TestCase):
    """Every reader refuses the same payloads, at the same byte, or gives the same value."""

    def check(self, kind: type, payload: bytes) -> None:
        for more in ((), tuple(EXTERNALS)):
            native = outcome(torshi.chunk, kind, payload, *more)
            if native != outcome(pure_chunk, kind, payload, *more):
                self.fail(
                    f"{kind.__name__} {payload.hex()}: {native} {outcome(pure_chunk, kind, payload, *more)}"
                )
            refused = refusal(kind, payload, *more)
            if isinstance(native, str) and native.startswith("UnpicklingError: torshi payload"):
                self.assertIsNotNone(refused, payload.hex())
                if " at " in refused:  # not so when it made instances, of what is no class, earlier
                    self.assertEqual(
                        native.rsplit(" at ")[1], refused.rsplit(" at ")[1], payload.hex()
                    )
            elif refused is not None:
                self.assertIsInstance(native, str, payload.hex())

    def test_damage(self) -> None:
        for seed in range(120 * FACTOR):
            rng = random.Random(seed)
            payload, target, _ = make_payload(rng, rows=rng.choice((1, 2, 3, 5, 9)))
            kind = type(target)
            places = (
                range(len(payload)) if len(payload) < 60 else rng.sample(range(len(payload)), 8)
            )
            for i in places:
                self.check(kind, payload[:i])
                for byte in {
                    0,
                    1,
                    2,
                    0x7F,
                    0x80,
                    0xFF,
                    payload[i] ^ 1,
                    payload[i] ^ 0x80,
                    rng.randrange(256),
                }:
                    self.check(kind, payload[:i] + bytes((byte,)) + payload[i + 1 :])
                    self.check(kind, payload[:i] + bytes((byte,)) + payload[i:])


BOMBS = {
    "rows": uvar(2**63 >> 1 << 1) + head(0),
    "list of 2**48 items": uvar(65536 << 1) + head(18, 0) + uvar(2**32 - 1) + head(0),
    "str of 4 GiB": uvar(1 << 1) + head(10) + uvar(2**32 - 1),
    "bytes, 65,536 times 4 GiB": uvar(65536 << 1) + head(12) + uvar(2**32 - 1),
    "dictionary": uvar(1 << 1) + head(13) + uvar(2**60) + head(0),
    "arity": uvar(65536 << 1) + head(16) + uvar(255) + head(0) * 254 + head(31),
    "fields": uvar(65536 << 1)
    + head(17)
    + uvar(4096)
    + head(6)
    + zvar(0)
    + zvar(1)
    + head(0) * 4096,
    "deep": uvar(1 << 1) + (head(18) + uvar(1)) * 33 + head(0),
    "wide": uvar(65536 << 1) + (head(15, 3) + uvar(16) + bytes(32768)) * 15,
    "progression": uvar(65536 << 1) + head(6) + zvar(0) + zvar(2**62),
    "int": uvar(65536 << 1) + head(5, 7) + zvar(0),
    "float": uvar(65536 << 1) + head(8),
    "affix": uvar(65536 << 1) + head(25) + uvar(65535) + b"x" * 65535 + uvar(0) + head(5) + zvar(0),
    "following": uvar(1 << 1 | 1) + uvar(2**63) + head(0) + head(31),
}

# Accepted; as much as the limits allow in a few bytes.
LARGEST = {
    "lists": uvar(65536 << 1) + head(16) + uvar(14) + (head(18) + uvar(0) + head(0)) * 14,
    "affix": uvar(65536 << 1)
    + head(16)
    + uvar(7)
    + (head(25) + uvar(127) + b"x" * 127 + uvar(0) + head(5) + zvar(0)) * 7,
    "struct": uvar(65536 << 1) + head(17) + uvar(14) + head(6) + zvar(0) + zvar(1) + head(3) * 14,
    "nan": uvar(65536 << 1) + head(16) + uvar(15) + (head(9) + b"\0\0\0\0\0\0\xf8\x7f") * 15,
    "following": uvar(1 << 1 | 1) + uvar(2**63) + head(0),
}


class HostilePayloads(unittest.TestCase):
    def peak(self, payload: bytes, *more: Any) -> int:
        tracemalloc.start()
        try:
            torshi.chunk([], payload, [], *EXTERNALS)
        except pickle.UnpicklingError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return peak

    def test_bombs_are_refused(self) -> None:
        for name, payload in BOMBS.items():
            with self.subTest(name):
                with self.assertRaisesRegex(pickle.UnpicklingError, "^torshi payload: .* at byte"):
                    torshi.chunk([], payload, [], *EXTERNALS)
                self.assertLess(self.peak(payload), 40 << 20)
                kind = list
                self.assertEqual(
                    outcome(torshi.chunk, kind, payload, *EXTERNALS),
                    outcome(pure_chunk, kind, payload, *EXTERNALS),
                )

    def test_largest(self) -> None:
        for name, payload in LARGEST.items():
            with self.subTest(name):
                self.assertLess(self.peak(payload), 256 << 20)

    def test_scratch_is_given_back(self) -> None:
        """What a large call used is not kept."""
        payload = (
            uvar(65536 << 1)
            + head(15, 1)
            + uvar(2)
            + pack([i & 1 for i in range(65536)], 1)
            + head(0) * 2
        )
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            torshi.chunk([], payload)
        kept = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        self.assertLess(kept, 2 << 20)


class Arguments(unittest.TestCase):
    CASES: list[tuple] = [
        (),
        ([],),
        ((), b""),
        ([], bytearray(b"\0\0")),
        ([], "\0\0"),
        (type("D", (dict,), {})(), b"\0\0\0"),
        ([], b"\0\0", None),
        ([], b"\0\0", ()),
        ({}, 0),
        ((), 0),
        ([1], True),
        ([1], 0, []),
        ([1], 1),
        ([1], -1),
        ([1], 1 << 80),
        ([1], -1 << 80),
        ([1], 0),
        ([], b""),
        ([], b"\0\0"),
        ({}, b"\0\0\0"),
        ({}, b"\0\0"),
    ]

    def test_same_answers(self) -> None:
        for args in self.CASES:
            answers = []
            for chunk in (torshi.chunk, pure_chunk):
                try:
                    answers.append(chunk(*args))
                except Exception as error:
                    answers.append((type(error), str(error)))
            with self.subTest(args):
                self.assertEqual(*answers)

    def test_kinds_of_errors(self) -> None:
        for args, error in (
            ((), TypeError),
            (([1], 1), IndexError),
            (([1], -1), IndexError),
            (([], b""), pickle.UnpicklingError),
            (({}, 0), TypeError),
        ):
            with self.assertRaises(error):
                torshi.chunk(*args)
        with self.assertRaisesRegex(TypeError, "keyword"):
            torshi.chunk([], payload=b"\0\0")

    def test_list_is_extended_and_dict_set(self) -> None:
        for chunk in (torshi.chunk, pure_chunk):
            self.assertEqual(chunk([7], uvar(2 << 1) + head(3)), [7, True, True])
            made = {True: 7, 2: 8}
            chunk(made, uvar(2 << 1) + head(6) + zvar(1) + zvar(1) + head(0))
            self.assertEqual(list(made.items()), [(1, None), (2, None)])
            self.assertIs(next(iter(made)), True)

    def test_nothing_but_target_and_roll_changes(self) -> None:
        """A refused payload leaves the target alone unless the roll or the keys are at fault."""
        for chunk in (torshi.chunk, pure_chunk):
            target, roll = [1], [2]
            with self.assertRaises(pickle.UnpicklingError):
                chunk(target, uvar(2 << 1) + head(18) + uvar(1) + head(0) + b"!", roll)
            self.assertEqual((target, roll), ([1], [2]))


class Identity(unittest.TestCase):
    def test_shared_and_not(self) -> None:
        nan = b"\1\0\0\0\0\0\xf8\x7f"
        for chunk in (torshi.chunk, pure_chunk):
            text = chunk([], uvar(3 << 1) + head(13) + uvar(1) + head(10) + uvar(9) + b"some text")
            self.assertTrue(text[0] is text[1] is text[2])
            for payload in (
                head(9) + nan,
                head(13) + uvar(1) + head(8) + nan,
                head(13) + uvar(1) + head(9) + nan,
            ):
                made = chunk([], uvar(3 << 1) + payload)
                self.assertEqual(len({id(v) for v in made}), 3)
                self.assertEqual(describe(made[0]), [("float", nan)])
                self.assertEqual(describe(made[2]), [("float", nan)])

    def test_struct_keys_are_shared(self) -> None:
        made = torshi.chunk(
            [], uvar(2 << 1) + head(17) + uvar(1) + head(10) + uvar(3) + b"key" + head(0), []
        )
        self.assertIs(next(iter(made[0])), next(iter(made[1])))


class Mine(Exception):
    pass


def reducing(callee_arguments: bytes, rows: int = 3, kind: int = 23) -> bytes:
    """A list of `rows` results of external 0."""
    return uvar(rows << 1) + head(kind) + uvar(0) + callee_arguments


NUMBERED = uvar(1) + head(6) + zvar(0) + zvar(1)


class UserCode(unittest.TestCase):
    """Code that payloads make run may do what it likes."""

    def both(self, run: Any) -> None:
        for chunk in (torshi.chunk, pure_chunk):
            with self.subTest(chunk.__module__):
                run(chunk)

    def test_order_and_number_of_calls(self) -> None:
        def run(chunk: Any) -> None:
            calls: list[int] = []
            roll: list[Any] = []
            target = chunk([], reducing(NUMBERED), roll, calls.append)
            self.assertEqual((target, calls), ([None] * 3, [0, 1, 2]))

        self.both(run)

    def test_exceptions_pass_through(self) -> None:
        def run(chunk: Any) -> None:
            def callee(i: int) -> int:
                if i == 2:
                    raise Mine(i)
                return i

            target, roll = [5], [6]
            with self.assertRaises(Mine):
                chunk(target, reducing(NUMBERED), roll, callee)
            self.assertEqual((target, roll), ([5], [6]))

        self.both(run)

    def test_chunk_within_chunk(self) -> None:
        def run(chunk: Any) -> None:
            nested = random.Random(5)
            expected = []

            def callee(i: int) -> Any:
                payload, target, roll = make_payload(nested, rows=40)
                made, made_roll = type(target)(), []
                chunk(made, payload, made_roll, *EXTERNALS)
                self.assertTrue(describe(made, made_roll) == describe(target, roll))
                expected.append(made)
                return made

            made = chunk([], reducing(NUMBERED, 50, 24), [], callee)
            self.assertTrue(all(a is b for a, b in zip(made, expected, strict=True)))

        self.both(run)

    def test_target_and_roll_change_meanwhile(self) -> None:
        def run(chunk: Any) -> None:
            target: list[Any] = []
            roll: list[Any] = []

            def callee(i: int) -> Any:
                target.append(i)
                roll.append(-i)
                return Reference(i)

            chunk(target, reducing(NUMBERED, kind=24), roll, callee)
            self.assertEqual(target[:3], [0, 1, 2])
            self.assertEqual([r.args for r in target[3:]], [(0,), (1,), (2,)])
            self.assertEqual(roll[:3], [0, -1, -2])
            self.assertTrue(
                roll[3] is target and all(a is b for a, b in zip(roll[4:], target[3:], strict=True))
            )

        self.both(run)

    def test_references_are_owned(self) -> None:
        """The only other references to arguments go away."""

        def run(chunk: Any) -> None:
            args: list[Any] = [[], reducing(NUMBERED + head(0), 200), []]
            args[1] = uvar(200 << 1) + head(23) + uvar(0) + uvar(1) + head(6) + zvar(0) + zvar(1)

            def callee(i: int) -> Any:
                args.clear()
                gc.collect()
                return [i]

            args.append(callee)
            self.assertEqual(chunk(*args), [[i] for i in range(200)])

        self.both(run)

    def test_hash_and_eq_of_keys(self) -> None:
        class Key:
            behaviour: Any = None

            def __init__(self, i: int) -> None:
                self.i = i

            def __hash__(self) -> int:
                return 3

            def __eq__(self, other: object) -> bool:
                return Key.behaviour(self, other)

        payload = uvar(5 << 1) + head(23) + uvar(0) + NUMBERED + head(6) + zvar(0) + zvar(1)

        def run(chunk: Any) -> None:
            target: dict[Any, Any] = {}
            Key.behaviour = lambda a, b: True
            chunk(target, payload, [], Key)
            self.assertEqual(list(target.values()), [4])
            self.assertEqual(next(iter(target)).i, 0)

            def failing(a: Any, b: Any) -> bool:
                raise Mine

            Key.behaviour = failing
            with self.assertRaises(Mine):
                chunk({}, payload, [], Key)

            def clearing(a: Any, b: Any) -> bool:
                target.clear()
                return False

            Key.behaviour = clearing
            target = {}
            try:
                chunk(target, payload, [], Key)
            except RuntimeError:
                pass
            target = {}
            roll: list[Any] = []
            # the same below: names of a struct, keys of a map
            Key.behaviour = lambda a, b: a.i == b.i
            made = chunk(
                [],
                uvar(2 << 1) + head(17) + uvar(2) + head(23) + uvar(0) + NUMBERED + head(0) * 2,
                roll,
                Key,
            )
            self.assertEqual([[k.i for k in row] for row in made], [[0, 1], [0, 1]])
            made = chunk(
                [],
                uvar(2 << 1) + head(19) + uvar(2) + head(23) + uvar(0) + NUMBERED + head(0),
                roll,
                Key,
            )
            self.assertEqual([[k.i for k in row] for row in made], [[0, 1], [2, 3]])
            Key.behaviour = failing
            for kind in (head(17) + uvar(2), head(19) + uvar(2)):
                with self.assertRaises(Mine):
                    chunk(
                        [],
                        uvar(2 << 1)
                        + kind
                        + head(23)
                        + uvar(0)
                        + NUMBERED
                        + head(0) * (2 if kind[0] == 17 else 1),
                        [],
                        Key,
                    )

        self.both(run)

    def test_unhashable_keys(self) -> None:
        def run(chunk: Any) -> None:
            for payload in (head(23) + uvar(0) + uvar(0) + head(0),):
                with self.assertRaisesRegex(TypeError, "unhashable"):
                    chunk({}, uvar(2 << 1) + payload, [], list)

        self.both(run)

    def test_setstate_and_descriptors(self) -> None:
        seen: list[Any] = []

        class Stated:
            def __setstate__(self, state: Any) -> None:
                seen.append(state)

        class Described:
            x = property(lambda self: 0, lambda self, value: seen.append(value))

        fields = uvar(0) + uvar(1) + head(10) + uvar(1) + b"x" + head(6) + zvar(0) + zvar(1)

        def run(chunk: Any) -> None:
            seen.clear()
            chunk([], uvar(2 << 1) + head(20) + fields, [], Stated)
            chunk([], uvar(2 << 1) + head(21) + fields, [], Stated)
            chunk([], uvar(2 << 1) + head(20) + uvar(0) + uvar(0), [], Stated)
            self.assertEqual(seen, [{"x": 0}, {"x": 1}, (None, {"x": 0}), (None, {"x": 1}), {}, {}])
            seen.clear()
            made = chunk([], uvar(2 << 1) + head(20) + fields, [], Described)
            self.assertEqual((seen, [vars(m) for m in made]), ([], [{"x": 0}, {"x": 1}]))
            chunk([], uvar(2 << 1) + head(21) + fields, [], Described)
            self.assertEqual(seen, [0, 1])
            made = chunk([], uvar(2 << 1) + head(22) + uvar(0), [], Stated)
            self.assertEqual([type(m) for m in made], [Stated, Stated])
            with self.assertRaises(pickle.UnpicklingError):
                chunk([], uvar(1 << 1) + head(22) + uvar(0), [], len)

        self.both(run)

    def test_names_of_instances_are_interned(self) -> None:
        name = "some_field_name"
        payload = (
            uvar(1 << 1)
            + head(20)
            + uvar(0)
            + uvar(1)
            + head(10)
            + uvar(len(name))
            + name.encode()
            + head(0)
        )
        self.both(
            lambda chunk: self.assertIs(
                next(iter(vars(chunk([], payload, [], Plain)[0]))), sys.intern(name)
            )
        )

    def test_collector(self) -> None:
        """It works while user code runs, and afterwards as before."""
        states = []

        def callee(i: int) -> None:
            states.append(gc.isenabled())

        for chunk in (torshi.chunk, pure_chunk):
            states.clear()
            self.assertTrue(gc.isenabled())
            chunk([], reducing(NUMBERED), [], callee)
            chunk([], b"\0\0")
            self.assertTrue(gc.isenabled() and all(states))
            with self.assertRaises(pickle.UnpicklingError):
                chunk([], b"\0")
            self.assertTrue(gc.isenabled())
            gc.disable()
            try:
                states.clear()
                chunk([], reducing(NUMBERED), [], callee)
                self.assertFalse(gc.isenabled() or any(states))
            finally:
                gc.enable()

    def test_collector_while_hashing(self) -> None:
        states = []

        class Key:
            def __init__(self, i: int) -> None:
                self.i = i

            def __hash__(self) -> int:
                states.append(gc.isenabled())
                return self.i

        class Stated:
            def __setstate__(self, state: Any) -> None:
                states.append(gc.isenabled())

        keys = head(23) + uvar(0) + NUMBERED
        for payload, kind in (
            (uvar(3 << 1) + keys + head(0), dict),
            (uvar(1 << 1) + head(19) + uvar(3) + keys + head(0), list),
            (uvar(1 << 1) + head(17) + uvar(3) + keys + head(0) * 3, list),
            (uvar(3 << 1) + head(20) + uvar(1) + uvar(0), list),
        ):
            states.clear()
            torshi.chunk(kind(), payload, [], Key, Stated)
            self.assertTrue(len(states) >= 3 and all(states), payload.hex())
            self.assertTrue(gc.isenabled())

    def test_no_leaks(self) -> None:
        """Neither when reading succeeds nor when it fails at any byte."""

        def references() -> list[int]:
            return [sys.getrefcount(x) for x in (*EXTERNALS, list, dict, tuple)]

        def work() -> None:
            for seed in range(60):
                rng = random.Random(seed)
                payload, target, _ = make_payload(rng, rows=rng.choice((1, 3, 9)))
                outcome(torshi.chunk, type(target), payload, *EXTERNALS)
                for _ in range(20):
                    i = rng.randrange(len(payload))
                    outcome(torshi.chunk, type(target), payload[:i], *EXTERNALS)
                    outcome(
                        torshi.chunk,
                        type(target),
                        payload[:i] + rng.randbytes(1) + payload[i + 1 :],
                        *EXTERNALS,
                    )

        work()
        gc.collect()
        before = references()
        tracemalloc.start()
        try:
            work()
            gc.collect()
            used = tracemalloc.get_traced_memory()[0]
            for _ in range(3):
                work()
            gc.collect()
            self.assertLess(tracemalloc.get_traced_memory()[0] - used, 20_000)
        finally:
            tracemalloc.stop()
        self.assertEqual(references(), before)


@unittest.skipUnless(_testcapi, "this Python has no _testcapi")
class NoMemory(unittest.TestCase):
    """Each allocation of a call fails once: MemoryError or the right value, and nothing lost."""

    def fail_at(self, k: int, kind: type, payload: bytes) -> Any:
        target: Any = kind()
        roll: list[Any] = []
        externals = tuple(EXTERNALS)
        set_nomemory, remove_mem_hooks, chunk = (
            _testcapi.set_nomemory,
            _testcapi.remove_mem_hooks,
            torshi.chunk,
        )
        set_nomemory(k, k + 1)
        try:
            chunk(target, payload, roll, *externals)
        except MemoryError:
            remove_mem_hooks()
            return None
        finally:
            remove_mem_hooks()
        return target, roll

    def test_every_allocation(self) -> None:
        for seed in range(400 * FACTOR):
            payload, target, roll = make_payload(random.Random(seed), rows=4)
            if len(payload) > 1000:
                continue
            expected = describe(target, roll)
            done = 0
            for k in range(100_000):
                got = self.fail_at(k, type(target), payload)
                if got is not None:
                    self.assertTrue(describe(*got) == expected, f"seed {seed}, allocation {k}")
                    done += 1
                    if done == 10:
                        break
                else:
                    done = 0
            self.assertTrue(gc.isenabled())


if __name__ == "__main__":
    unittest.main()
