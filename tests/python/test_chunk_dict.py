"""Flat dicts and lists as chunks: values, blocks, what pays, what changes while it is written."""

from __future__ import annotations

import io
import pickle
import pickletools
import random
import unittest

import torshi
from chunk_values import LOADERS, chunks_in, column, hashable, same
from stock_engine import stock


class RoundTrip(unittest.TestCase):
    def check(self, obj, chunked: bool | None = None):
        data = torshi.dumps(obj, 5)
        for name, loads in LOADERS.items():
            self.assertTrue(same(loads(data), obj), f"{name}: {obj!r:.200}")
        if chunked is not None:
            self.assertEqual(chunks_in(data) > 0, chunked, f"{obj!r:.200}")
        return data

    def test_random_flat(self):
        for seed in range(250):
            r = random.Random(seed)
            n = r.choice((4, 8, 9, 16, 50, 300, 1000))
            values = column(r, n, rows=False)
            obj = values if r.random() < 0.5 else dict(zip((hashable(r) for _ in values), values))
            with self.subTest(seed=seed):
                self.check(obj)

    def test_every_int_border(self):
        borders = [s * 2**k + d for k in (7, 8, 15, 16, 31, 32, 62, 63, 64) for s in (1, -1) for d in (-1, 0, 1)]
        self.check(borders * 3)
        for a in borders:
            self.check([a, a + 1, a + 2] * 10)
            self.check(list(range(a, a + 300, 3)), True)
            self.check([a - i * i for i in range(50)])

    def test_progressions_at_the_ends(self):
        top = 2**63 - 1
        self.check([top - 2 * i for i in range(40)], True)
        self.check([-top - 1 + i for i in range(40)], True)
        self.check([-top - 1, -1, top - 1, top] * 10)  # steps that overflow
        self.check([top, -top - 1] * 20)

    def test_bools_are_not_ints(self):
        self.check([True, 1, False, 0] * 20, True)
        self.check({i: (True if i % 2 else 1) for i in range(100)}, True)

    def test_nan_keys_stay_opcodes(self):
        nan = float("nan")
        data = torshi.dumps({nan: 1, **{i: i for i in range(50)}}, 5)
        self.assertEqual(chunks_in(data), 0)
        self.assertEqual(len(pickle.loads(data)), 51)

    def test_one_string_many_times(self):
        text = "long shared string " * 50
        data = self.check([text] * 5000, True)
        self.assertLess(len(data), 2000)
        self.assertEqual(len({id(x) for x in torshi.loads(data)}), 1)
        big = "z" * 1_000_000
        data = self.check([big] * 5000)
        self.assertLess(len(data), 1_050_000)

    def test_deleted_entries(self):
        d = {i: i * 7 for i in range(400)}
        for i in range(0, 400, 3):
            del d[i]
        self.check(d, True)

    def test_colliding_strings(self):
        """Strings that a cheap hash cannot tell apart are coded all the same."""
        texts = ["a" * 17 + "b" * i + "c" for i in range(40)] * 40
        self.check(texts, True)


class Blocks(unittest.TestCase):
    def test_sizes_around_a_block(self):
        for n in (65535, 65536, 65537, 65736, 131072, 131272):
            for obj in (list(range(n)), {i: i * 2 for i in range(n)}):
                data = torshi.dumps(obj, 5)
                self.assertEqual(chunks_in(data), (n + 65535 - 7) // 65536, n)
                self.assertEqual(torshi.loads(data), obj)
                self.assertEqual(stock.loads(data), obj)

    def test_later_block_that_does_not_pay(self):
        class_ = Odd
        obj = list(range(65536)) + [class_() for _ in range(30)]
        data = torshi.dumps(obj, 5)
        self.assertEqual(chunks_in(data), 1)
        for loads in LOADERS.values():
            back = loads(data)
            self.assertEqual(back[:65536], obj[:65536])
            self.assertEqual([type(x) for x in back[65536:]], [class_] * 30)

    def test_following(self):
        data = torshi.dumps(list(range(65536 + 9)), 5)
        payload = next(a for op, a, _ in pickletools.genops(data) if op.name.endswith("BINBYTES"))
        self.assertEqual(payload[:4], bytes((0x81, 0x80, 8, 9)))


class Odd:
    """No default path: always by opcodes."""

    def __reduce__(self):
        return (Odd, ())


class WhilePickling(unittest.TestCase):
    def test_dict_that_changes(self):
        for act in (lambda d: d.clear(), lambda d: d.update(new=1), lambda d: d.pop("k0")):
            d = {f"k{i}": i for i in range(100)}
            d["odd"] = Changes(d, act)
            with self.assertRaisesRegex(RuntimeError, "changed size during iteration"):
                torshi.dumps(d, 5)

    def test_same_length(self):
        d = {f"k{i}": i for i in range(100)}
        d["odd"] = Changes(d, lambda d: (d.pop("k0"), d.update(new=1)))
        data = torshi.dumps(d, 5)
        for loads in LOADERS.values():
            self.assertEqual(list(loads(data)), [f"k{i}" for i in range(100)] + ["odd"])

    def test_list_that_grows(self):
        items = list(range(100))
        items.append(Changes(items, lambda x: x.extend(range(5))))
        data = torshi.dumps(items, 5)
        for loads in LOADERS.values():
            self.assertEqual(len(loads(data)), 106)

    def test_list_that_shrinks(self):
        items = list(range(100))
        items.insert(0, Changes(items, lambda x: x.clear()))
        data = torshi.dumps(items, 5)
        for loads in LOADERS.values():
            self.assertEqual(loads(data)[1:], list(range(100)))

    def test_reentrant(self):
        inner = {i: i for i in range(200)}
        items = [Dumps(inner), *range(300)]
        back = torshi.loads(torshi.dumps(items, 5))
        self.assertEqual(torshi.loads(back[0]), inner)
        self.assertEqual(back[1:], items[1:])

    def test_file_that_dumps(self):
        class File(io.BytesIO):
            def write(self, data):
                torshi.dumps({i: str(i) for i in range(300)}, 5)
                return super().write(data)

        f = File()
        obj = [{"a": i, "b": "x" * 50 + str(i)} for i in range(20000)]
        torshi.dump(obj, f, 5)
        self.assertEqual(pickle.loads(f.getvalue()), obj)


class Changes:
    def __init__(self, target, act):
        self.target, self.act = target, act

    def __reduce__(self):
        self.act(self.target)
        return (int, ())


class Dumps:
    def __init__(self, obj):
        self.obj = obj

    def __reduce__(self):
        return (bytes, (torshi.dumps(self.obj, 5),))


class WhatPays(unittest.TestCase):
    """Shorter than standard where it is used, never much longer."""

    def test_never_longer_on_random(self):
        for seed in range(150):
            r = random.Random(seed)
            obj = column(r, r.choice((4, 9, 16, 50, 300)), rows=True)
            with self.subTest(seed=seed):
                met_again = 60  # strings of chunk_values are short
                self.assertLessEqual(
                    len(torshi.dumps(obj, 5)), len(stock.dumps(obj, 5)) + met_again * 40
                )

    def test_keys_shared_by_many_dicts(self):
        keys = [f"a long key that all of them share {i}" for i in range(12)]
        once = sum(map(len, keys)) + 12 * 3
        for n in (1, 2, 3, 10, 100):
            obj = [[{k: i + j for j, k in enumerate(keys)}, Odd()] for i in range(n)]
            self.assertLessEqual(len(torshi.dumps(obj, 5)), len(stock.dumps(obj, 5)) + once + 17)

    def test_string_in_a_column_then_as_attributes(self):
        text = "a string of some length " * 40
        obj = [[text, *(str(i) * 9 for i in range(40))], *([text, Odd()] for _ in range(300))]
        self.assertLessEqual(
            len(torshi.dumps(obj, 5)), len(stock.dumps(obj, 5)) + len(text) + 60
        )

    def test_small_ones_are_opcodes(self):
        for obj in ({"a": 1}, [1, 2, 3], {"op": "x", "key": 1, "list": [0.1, 0.2], "n": None}):
            self.assertEqual(torshi.dumps(obj, 5), stock.dumps(obj, 5))

    def test_standard_is_standard(self):
        obj = {i: str(i) for i in range(1000)}
        self.assertEqual(torshi.dumps(obj, 5, reducers="standard"), stock.dumps(obj, 5))
        for protocol in range(4):
            self.assertEqual(torshi.dumps(obj, protocol), stock.dumps(obj, protocol))

    def test_fast_and_persistent_id(self):
        obj = {i: str(i) for i in range(1000)}

        class Persistent(torshi.Pickler):
            def persistent_id(self, obj):
                return None

        for make in (Persistent, torshi.Pickler):
            f = io.BytesIO()
            pickler = make(f, 5)
            pickler.fast = make is torshi.Pickler
            pickler.dump(obj)
            self.assertEqual(chunks_in(f.getvalue()), 0)
            self.assertEqual(torshi.loads(f.getvalue()), obj)

    def test_same_bytes_twice(self):
        for seed in range(50):
            r = random.Random(seed)
            obj = column(r, 200, rows=True)
            self.assertEqual(torshi.dumps(obj, 5), torshi.dumps(obj, 5))


if __name__ == "__main__":
    unittest.main()
