"""torshi without the native engine: the same streams, read and written in pure Python, slower.

The writer follows the native one step by step (plugin/target.c, record.c, finish.c), so that both
write the same bytes; payloads are made by _pure_write.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
from bisect import bisect_right
from itertools import islice
from typing import Any, Callable, Sequence

from . import _pure_pays as pays
from . import _pure_refs as references
from . import _pure_types as types
from . import _pure_wire as wire
from ._pure_read import chunk
from ._pure_scan import NO_KEY, Again, Decline, Limit
from ._pure_write import Writer

__all__ = ["Pickler", "Unpickler", "chunk", "dump", "dumps", "load", "loads"]

_MODES = ("chunked", "standard", None)
_BATCH = 1000
_MIN_ITEMS = 2
NESTED_BLOCK = 4096  # rows a block where rows are containers
_ATTRIBUTES_INLINE = 30
_ATOMS = frozenset((type(None), bool, int, float))
_BEFORE_HOOKS = frozenset((str, bytes, tuple, dict, list, set, frozenset, bytearray))
_BUILD_ENDS = (pickle.SETITEM, pickle.SETITEM + pickle.TUPLE2 + pickle.BUILD)


class _Framer(pickle._Framer):  # type: ignore[name-defined,misc]
    """Frames as the engine has them: the only frame of a stream with a chunk has no header."""

    chunked = False
    frames = 0

    def commit_frame(self, force: bool = False) -> None:
        if self.current_frame:
            size = self.current_frame.tell()
            if (size >= self._FRAME_SIZE_TARGET or force) and size >= self._FRAME_SIZE_MIN:
                self.frames += 1
        super().commit_frame(force=force)

    def end_framing(self) -> None:
        if (
            self.chunked
            and not self.frames
            and self.current_frame
            and self.current_frame.tell() > 0
        ):
            self.file_write(self.current_frame.getbuffer())
            self.current_frame = None
        super().end_framing()

    def write_large_bytes(self, header: bytes, payload: Any) -> None:
        super().write_large_bytes(header, payload)
        self.frames += 1


class _Row:
    """A row in which, or below which, something is pending."""

    __slots__ = ("obj", "index", "build", "steps", "busy", "done")

    def __init__(self, obj: Any, index: int, build: int, steps: list[Any]) -> None:
        self.obj, self.index, self.build, self.steps = obj, index, build, steps
        self.busy = self.done = False


class _Record:
    """What outlives the writing of a chunk: the rows that are to be finished, and the roll."""

    def __init__(self, w: Writer, target: Any) -> None:
        self.roll: Any = bytearray() if pays.needs_roll(w) else None  # any object with an identity
        self.rows: dict[int, _Row] = {}
        self.kept = [seen.obj for seen in w.seen.values() if seen.column > wire.NOT_MET]
        self.objects = w.columns
        self.refs = w.refs
        steps: dict[int, list[tuple[int, Any, Any, int, Any]]] = {}
        linked = set()
        firsts = [first for first, _, _, _ in w.columns]
        for origin, cell, value in w.pending:
            row, position, key, index = origin.place(cell)
            steps.setdefault(row, []).append((position, None, key, index, value))
            while row and row not in linked:
                linked.add(row)
                first, _, _, (above, ids) = w.columns[bisect_right(firsts, row) - 1]
                assert above is not None
                below = row
                cell = ids[row - first] if ids is not None else row - first
                row, position, key, index = above.place(cell)
                steps.setdefault(row, []).append((position, below, None, 0, None))
        for row, found in steps.items():
            obj, build = target, wire.BUILD_ITEM
            if row:
                first, build, objects, _ = w.columns[bisect_right(firsts, row) - 1]
                obj = objects[row - first]
            # A key that is pending itself comes before its value.
            found.sort(key=lambda step: (step[0], step[1] is not None or step[2] is not step[4]))
            self.rows[row] = _Row(obj, row, build, found)


    def values(self, row: int = 0) -> Any:
        """All that is pending in a row and below it, in pickle's order."""
        for _, below, _, _, value in self.rows[row].steps if row in self.rows else ():
            if below is None:
                yield value
            else:
                yield from self.values(below)


class Pickler(pickle._Pickler):  # type: ignore[name-defined,misc]
    """pickle.Pickler with `reducers=`: "chunked" (the default) or "standard"."""

    def __init__(
        self,
        file: Any,
        protocol: int | None = None,
        *,
        fix_imports: bool = True,
        buffer_callback: Any = None,
        reducers: str | None = None,
    ) -> None:
        if reducers not in _MODES:
            raise ValueError(f"reducers must be 'chunked', 'standard' or None, not {reducers!r}")
        super().__init__(file, protocol, fix_imports=fix_imports, buffer_callback=buffer_callback)
        self._chunks = reducers != "standard" and self.proto >= 4
        self._rolled: dict[
            int, tuple[_Record, int, Any]
        ] = {}  # id -> record, roll index, the object
        self._columns: dict[int, Any] = {}  # what was written in payloads, by id
        self._filling: list[int] = []  # ids of dicts with placeholders in them
        self._states: set[int] = set()  # ids of dicts that are written by opcodes in any case
        self.framer = _Framer(self._file_write)
        self.write = self.framer.write
        self._write_large_bytes = self.framer.write_large_bytes

    def clear_memo(self) -> None:
        """Forget everything that was written."""
        super().clear_memo()
        self._rolled.clear()
        self._columns.clear()

    def dump(self, obj: Any) -> None:
        """Write obj to the file."""
        if hasattr(self, "framer"):
            self.framer.chunked = False
            self.framer.frames = 0
        super().dump(obj)

    # ---- one object
    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if getattr(self.persistent_id, "__func__", None) is not pickle._Pickler.persistent_id:  # type: ignore[attr-defined]
            super().save(obj, save_persistent_id)
            return
        self.framer.commit_frame()
        cls = type(obj)
        if cls in _ATOMS:
            self.dispatch[cls](self, obj)
            return
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
            return
        if id(obj) in self._rolled:
            self._met(obj)
        elif (
            (cls is dict or cls is list)
            and self._chunks
            and not self.fast
            and len(obj) >= _MIN_ITEMS
            and id(obj) not in self._states
            and self._save_chunked(obj)
        ):
            pass
        elif cls in _BEFORE_HOOKS:  # before reducer_override, which pickle's Python code asks first
            self.dispatch[cls](self, obj)
        else:
            super().save(obj, save_persistent_id)

    dispatch = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def _save_dict(self, obj: dict[Any, Any]) -> None:
        self.write(pickle.EMPTY_DICT if self.bin else pickle.MARK + pickle.DICT)
        self.memoize(obj)
        if not self.bin or len(obj) < 2:
            self._batch_setitems(obj.items())
            return
        size = len(obj)
        self._batches(
            (self._save_pair, iter(obj.items())),
            pickle.SETITEMS,
            lambda: self._check(len(obj) == size, "dictionary"),
        )

    def _save_list(self, obj: list[Any]) -> None:
        self.write(pickle.EMPTY_LIST if self.bin else pickle.MARK + pickle.LIST)
        self.memoize(obj)
        if not self.bin or len(obj) < 2:
            self._batch_appends(obj)
            return
        at = 0
        while at < len(obj):
            self.write(pickle.MARK)
            for _ in range(_BATCH):
                self.save(obj[at])
                at += 1
                if at >= len(obj):
                    break
            self.write(pickle.APPENDS)

    def _save_set(self, obj: set[Any]) -> None:
        if self.proto < 4:
            super().save_set(obj)
            return
        self.write(pickle.EMPTY_SET)
        self.memoize(obj)
        size = len(obj)
        if size:
            self._batches(
                (self.save, iter(obj)),
                pickle.ADDITEMS,
                lambda: self._check(len(obj) == size, "set"),
            )

    def _save_str(self, obj: str) -> None:
        if self.bin:
            super().save_str(obj)
            return
        text = obj
        for character in "\\\0\n\r\x1a":  # the string itself is memoized, not its escaped form
            text = text.replace(character, f"\\u{ord(character):04x}")
        self.write(pickle.UNICODE + text.encode("raw-unicode-escape") + b"\n")
        self.memoize(obj)

    dispatch[dict], dispatch[list], dispatch[set], dispatch[str] = (
        _save_dict,
        _save_list,
        _save_set,
        _save_str,
    )

    def save_reduce(
        self,
        func: Any,
        args: Any,
        state: Any = None,
        listitems: Any = None,
        dictitems: Any = None,
        state_setter: Any = None,
        *,
        obj: Any = None,
    ) -> None:
        """As the C pickler has it: an object that its own arguments have written is complete."""
        super().save_reduce(func, args, obj=obj)
        if obj is not None and not self.fast and self.memo[id(obj)][0] != len(self.memo) - 1:
            return
        if listitems is not None:
            self._batch_appends(listitems)
        if dictitems is not None:
            self._batch_setitems(dictitems)
        if state is None:
            return
        if state_setter is None:
            self._save_state(obj, state)
            self.write(pickle.BUILD)
            return
        for part in (state_setter, obj, state):
            self.save(part)
        self.write(pickle.TUPLE2 + pickle.REDUCE + pickle.POP)

    def _save_state(self, obj: Any, state: Any) -> None:
        """The native writer reads the attributes of an instance that pickles by default itself."""
        if not self._chunks or not types.is_default_instance(obj, type(obj).__dictoffset__ != 0):
            self.save(state)
            return
        parts = state if type(state) is tuple else (state, None)
        states = [id(parts[1])]
        if parts[0] is not None and len(parts[0]) <= _ATTRIBUTES_INLINE:
            states.append(id(parts[0]))
        self._states.update(states)
        if id(parts[0]) not in self._filling or any(
            "__setstate__" in vars(cls) for cls in type(obj).__mro__
        ):
            self.save(state)
        else:  # BUILD would copy placeholders, where stock pickle's dict is still empty
            self.save(({}, parts[1]) if type(state) is tuple else {})
        self._states.difference_update(states)

    def _hooks(self) -> bool:
        return (
            getattr(self, "reducer_override", None) is not None
            or getattr(self, "dispatch_table", None) is not None
        )

    def _save_pair(self, pair: tuple[Any, Any]) -> None:
        self.save(pair[0])
        self.save(pair[1])

    @staticmethod
    def _check(same: bool, what: str) -> None:
        if not same:
            raise RuntimeError(f"{what} changed size during iteration")

    def _batches(
        self, items: tuple[Callable[[Any], None], Any], end: bytes, check: Callable[[], None]
    ) -> None:
        """As the C pickler has it: after a full batch comes another one, though nothing is left."""
        save, rest = items
        n = _BATCH
        while n == _BATCH:
            self.write(pickle.MARK)
            n = 0
            for item in rest:
                save(item)
                n += 1
                if n == _BATCH:
                    break
            self.write(end)
            check()

    # ---- the memo
    def memo_find(self, obj: Any) -> int:
        """A memo number, or ABSENT, ROLLED, COLUMN."""
        known = self.memo.get(id(obj))
        if known is not None:
            return int(known[0])
        return (
            wire.ROLLED
            if id(obj) in self._rolled
            else wire.COLUMN
            if id(obj) in self._columns
            else wire.ABSENT
        )

    def _write_chunk_callable(self) -> None:
        self.framer.chunked = True
        known = self.memo.get(id(chunk))
        code = copyreg._extension_registry.get(("torshi", "chunk"), 0)  # type: ignore[attr-defined]
        if known is not None:
            self.write(self.get(known[0]))
        elif code:
            if code <= 0xFF:
                self.write(pickle.EXT1 + struct.pack("<B", code))
            elif code <= 0xFFFF:
                self.write(pickle.EXT2 + struct.pack("<H", code))
            else:
                self.write(pickle.EXT4 + struct.pack("<i", code))
        else:
            self.write(
                pickle.SHORT_BINUNICODE
                + b"\x06torshi"
                + pickle.SHORT_BINUNICODE
                + b"\x05chunk"
                + pickle.STACK_GLOBAL
            )
            self.memoize(chunk)

    def _write_payload(self, payload: bytes) -> None:
        n = len(payload)
        if n <= 0xFF:
            self.write(pickle.SHORT_BINBYTES + struct.pack("<B", n) + payload)
        elif n < self.framer._FRAME_SIZE_TARGET:
            self.write(pickle.BINBYTES + struct.pack("<I", n) + payload)
        else:
            header = (
                pickle.BINBYTES + struct.pack("<I", n)
                if n <= 0xFFFFFFFF
                else pickle.BINBYTES8 + struct.pack("<Q", n)
            )
            self._write_large_bytes(header, payload)

    def _write_index(self, index: int) -> None:
        if index <= 0xFF:
            self.write(pickle.BININT1 + struct.pack("<B", index))
        elif index <= 0xFFFF:
            self.write(pickle.BININT2 + struct.pack("<H", index))
        else:
            self.write(pickle.BININT + struct.pack("<i", index))

    # ---- targets
    def _encode_block(
        self, target: Any, start: int, block: int
    ) -> tuple[Writer | None, list[Any], list[Any], int]:
        """The next rows as a chunk (None: better off as opcodes), keys, values, block size."""
        hooks = self._hooks()
        is_dict = type(target) is dict
        excluded: dict[int, Any] = {}
        refs = references.RefScan()
        while True:
            if is_dict:
                pairs = list(islice(target.items(), start, start + block))
                keys, values = [key for key, _ in pairs], [value for _, value in pairs]
            else:
                keys, values = [], target[start : start + block]
            if block > NESTED_BLOCK and len(values) > NESTED_BLOCK and type(values[0]) in (dict, list):
                block = NESTED_BLOCK
                continue
            w = Writer(self.memo_find, hooks, excluded, refs)
            if (
                not values
                or not (refs.reductions or pays.worth_trying(w, values))
                or not (w.keys_are_refs(keys) or w.keys_are_plain(keys, 1))
            ):
                return None, keys, values, block
            w = Writer(self.memo_find, hooks, excluded, refs)
            try:
                pays.encode_rows(
                    w, target, keys, values, max(len(target) - start - len(values), 0), start
                )
            except Decline:
                return None, keys, values, block
            except Again as again:
                excluded[id(again.obj)] = again.obj
                continue
            except Limit:
                if len(values) == 1:
                    return None, keys, values, block
                block = (len(values) + 1) // 2
                continue
            if refs.wanted:
                w.bound += refs.wanted * references.LEAST_COST
                w.extra -= refs.extra
                if not pays.pays(w, chunk, True):
                    return None, keys, values, block
                size = len(target)
                record = _Record(w, target)
                references.reduce_all(w, record.values, self._reducer, self.proto, self.memo_find)
                if is_dict:
                    self._check(len(target) == size, "dictionary")
                continue
            must = refs.reductions or pays.pays(w, chunk, pays.needs_roll(w))
            return (w if must else None), keys, values, block

    def _reducer(self, cls: type) -> Any:
        return getattr(self, "dispatch_table", copyreg.dispatch_table).get(cls)

    def _save_reduced(self, obj: Any, made_by: Any, args: tuple[Any, ...]) -> None:
        """An object whose reducer was called already."""
        if self.memo_find(obj) != wire.ABSENT:
            self.save(obj)
            return
        self.save(made_by)
        self.save(args)
        self.write(pickle.REDUCE)
        if id(obj) in self.memo:
            self.write(pickle.POP + self.get(self.memo[id(obj)][0]))
        else:
            self.memoize(obj)

    def _save_chunked(self, target: Any) -> bool:
        """Write a dict or list in chunks; False, with nothing written, when that does not pay."""
        size = len(target)
        is_dict = type(target) is dict
        w, _, values, block = self._encode_block(target, 0, wire.MAX_ROWS)
        if w is None:
            return False
        self._write_block(w, target, True)
        rows = len(values)
        look = bool(w.pending)
        while look or rows < len(target):
            if is_dict:
                self._check(len(target) == size, "dictionary")
            if rows >= len(target):
                break
            w, keys, values, block = self._encode_block(target, rows, block)
            if w is None and not values:
                break
            rows += len(values)
            if w is not None:
                self._write_block(w, target, False)
                look = bool(w.pending)
            else:
                self._write_opcodes(is_dict, keys, values)
                look = True
        return True

    def _write_opcodes(self, is_dict: bool, keys: Sequence[Any], values: Sequence[Any]) -> None:
        for i, value in enumerate(values):
            if i % _BATCH == 0:
                self.write(pickle.MARK)
            if is_dict:
                self.save(keys[i])
            self.save(value)
            if i % _BATCH == _BATCH - 1 or i + 1 == len(values):
                self.write(pickle.SETITEMS if is_dict else pickle.APPENDS)

    def _write_block(self, w: Writer, target: Any, first: bool) -> None:
        record = _Record(w, target)
        for obj in record.kept:
            if self.memo_find(obj) == wire.ABSENT:
                self._columns[id(obj)] = obj
        for start, _, objects, _ in w.columns:
            for i, obj in enumerate(objects):
                self._rolled[id(obj)] = record, start + i, obj
        self._write_chunk_callable()
        if record.roll is not None:
            self.write(pickle.MARK)
        if first:
            self.write(pickle.EMPTY_DICT if type(target) is dict else pickle.EMPTY_LIST)
            self.memoize(target)
        else:
            self.write(self.get(self.memo[id(target)][0]))
        self._write_payload(bytes(w.out))
        if record.roll is None:
            self.write(pickle.TUPLE2 + pickle.REDUCE)
        else:
            self.write(pickle.EMPTY_LIST)
            self.memoize(record.roll)
            for external in w.externals:
                self.save(external)
            self.write(pickle.TUPLE + pickle.REDUCE)
        if not first:
            self.write(pickle.POP)
        if 0 in record.rows:
            self._finish(record, record.rows[0], True)

    # ---- setting what was pending
    def _push(self, record: _Record, obj: Any, index: int) -> None:
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
            return
        self._write_chunk_callable()
        self.write(self.get(self.memo[id(record.roll)][0]))
        self._write_index(index)
        self.write(pickle.TUPLE2 + pickle.REDUCE)
        self.memoize(obj)

    def _met(self, obj: Any) -> None:
        record, index, _ = self._rolled[id(obj)]
        self._push(record, obj, index)
        if index in record.rows:
            self._finish(record, record.rows[index], True)

    def _finish(self, record: _Record, row: _Row, on_stack: bool) -> None:
        if row.busy or row.done:
            return
        row.busy = True
        if type(row.obj) is dict:
            self._filling.append(id(row.obj))
        pushed = on_stack
        for _, below, key, index, value in row.steps:
            if below is not None:
                self._finish(record, record.rows[below], False)
                continue
            if not pushed:
                self._push(record, row.obj, row.index)
                pushed = True
            if row.build == wire.BUILD_SLOTS:
                self.write(pickle.NONE + pickle.EMPTY_DICT)
            if key is NO_KEY:
                self._write_index(index)
            else:
                self.save(key)
            reduction = record.refs.reduction(value)
            if reduction is None:
                self.save(value)
            else:
                self._save_reduced(value, *reduction)
            self.write(_BUILD_ENDS[row.build])
        if type(row.obj) is dict:
            self._filling.pop()
        row.busy = False
        row.done = True
        if pushed and not on_stack:
            self.write(pickle.POP)


class Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """pickle.Unpickler."""


def dump(
    obj: Any,
    file: Any,
    protocol: int | None = None,
    *,
    fix_imports: bool = True,
    buffer_callback: Any = None,
    reducers: str | None = None,
) -> None:
    """pickle.dump with `reducers=`."""
    Pickler(
        file, protocol, fix_imports=fix_imports, buffer_callback=buffer_callback, reducers=reducers
    ).dump(obj)


def dumps(
    obj: Any,
    protocol: int | None = None,
    *,
    fix_imports: bool = True,
    buffer_callback: Any = None,
    reducers: str | None = None,
) -> bytes:
    """pickle.dumps with `reducers=`."""
    file = io.BytesIO()
    Pickler(
        file, protocol, fix_imports=fix_imports, buffer_callback=buffer_callback, reducers=reducers
    ).dump(obj)
    return file.getvalue()


def load(
    file: Any,
    *,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    errors: str = "strict",
    buffers: Any = None,
) -> Any:
    """pickle.load."""
    return Unpickler(
        file, fix_imports=fix_imports, encoding=encoding, errors=errors, buffers=buffers
    ).load()


def loads(
    data: Any,
    /,
    *,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    errors: str = "strict",
    buffers: Any = None,
) -> Any:
    """pickle.loads."""
    if isinstance(data, str):
        raise TypeError("a bytes-like object is required, not 'str'")
    file = io.BytesIO(data)
    return Unpickler(
        file, fix_imports=fix_imports, encoding=encoding, errors=errors, buffers=buffers
    ).load()
