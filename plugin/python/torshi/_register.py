"""Columns for picklers that are not torshi's: reducers for copyreg, and Chunked. docs/opt-in.md."""

from __future__ import annotations

import copy
import copyreg
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from operator import is_
from types import BuiltinFunctionType, FunctionType
from typing import Any

from ._engine import engine

if engine is not None:
    engine.load_default_plugin()
    chunk = engine.function("torshi", "chunk")
    _encode = engine.function("torshi", "_encode")
    _register_ref = engine.function("torshi", "register_ref")
    _unregister_ref = engine.function("torshi", "unregister_ref")
else:
    from ._pure_read import chunk
    from ._pure_reduce import encode as _encode
    from ._refs import register_ref as _register_ref
    from ._refs import unregister_ref as _unregister_ref

# What may be in a payload: immutable values; what is below, too; the same where nobody else has it.
_FLAT, _NESTED, _SINGLE = 0, 1, 2
# Columns that look worth trying and are shorter, by a number of bytes; that are shorter; in any case.
_IF_WORTH, _IF_SHORTER, _ALWAYS = 0, 1, 2
# The factory of a defaultdict as the state of a slot, where stock pickle has it as an argument.
_FACTORY_COST = 23

# Containers and states smaller than this are not looked at.
_FEW_ROWS = 16
_LARGE_STATE, _LARGE_VALUE = 16, 64
# Containers of so many rows are not part of the payload of what they are in.
_LONG_ROW = 4096

# pickle does not ask copyreg about these.
_NEVER_ASKED = frozenset(
    (
        dict,
        list,
        tuple,
        set,
        frozenset,
        str,
        bytes,
        bytearray,
        int,
        float,
        complex,
        bool,
        type,
        FunctionType,
    )
    + (BuiltinFunctionType, type(None), type(...), type(NotImplemented))
) - {complex}

_ABSENT = object()

# What each registered class had in copyreg.dispatch_table before, and what it got.
_registered: dict[type, tuple[Any, Any, bool]] = {}


# ---- containers ------------------------------------------------------------------------------------
def _reduce_container(obj: Any, mode: int) -> tuple[Any, ...]:
    """The reduction of an exact dict or list that comes back as a copy."""
    columns = _encode_nested(obj, mode, _IF_WORTH)
    if columns is None:
        return (
            (dict, (), None, None, iter(obj.items()))
            if type(obj) is dict
            else (list, (), None, iter(obj))
        )
    return _reduction(type(obj)(), columns, mode)


def _encode_nested(obj: Any, mode: int, when: int) -> tuple[Any, ...] | None:
    columns = _encode(obj, mode, when, 0)
    if columns is None and mode != _FLAT and _has_long(obj):  # it is the long ones that pay
        columns = _encode(obj, mode, _ALWAYS, 0)
    return columns


def _has_long(obj: Any) -> bool:
    """Whether a dict or list is in it that makes a payload of its own."""
    return any(
        (type(value) is list or type(value) is dict) and len(value) >= _LONG_ROW
        for value in (obj.values() if type(obj) is dict else obj)
    )


def _reduction(
    target: Any, columns: tuple[Any, ...], mode: int = _FLAT, state: Any = None
) -> tuple[Any, ...]:
    tail, pairs, single = columns
    if mode != _FLAT:
        for i in single:
            key, value = pairs[i]
            pairs[i] = key, _Part(value)
    return chunk, (target, *tail), state, None, iter(pairs) if pairs else None


class _Part:
    """A dict or list that only the container being pickled has."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _reduce_container(self.obj, _SINGLE)


class Chunked:
    """An exact dict or list that any pickler writes in columns.

    `pickle.dumps(Chunked(rows))` loads as a plain list, without the wrapper. It is a copy: so are
    the dicts, lists and instances below it, and what else in the same pickle refers to one of them
    gets another. Two references within it to one object stay two references to one object.
    """

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        if type(obj) is not dict and type(obj) is not list:
            raise TypeError(
                f"torshi.Chunked: an exact dict or list is needed, not {type(obj).__name__}"
            )
        self.obj = obj

    def __repr__(self) -> str:
        return f"torshi.Chunked({self.obj!r})"

    def __copy__(self) -> Chunked:
        return Chunked(self.obj)

    def __deepcopy__(self, memo: Any) -> Chunked:
        return Chunked(copy.deepcopy(self.obj, memo))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _reduce_container(self.obj, _NESTED)


# ---- subclasses of dict and list -------------------------------------------------------------------
def _comes_empty(cls: type, reduction: tuple[Any, ...]) -> bool:
    """Whether the reduction makes what cls.__new__(cls) does."""
    callee, args = reduction[:2]
    if callee is copyreg.__newobj__:  # type: ignore[attr-defined]
        return type(args) is tuple and len(args) == 1 and args[0] is cls
    return (
        callee is cls
        and args == ()
        and type(cls) is type
        and _has_own(cls, OrderedDict, "__init__", "__new__")
    )


def _has_own(cls: type, base: type, *names: str) -> bool:
    return all(getattr(cls, name) is getattr(base, name) for name in names)


def _split_factory(cls: type, reduction: tuple[Any, ...]) -> tuple[Any, ...]:
    """A defaultdict gets its factory afterwards, as the state of a slot."""
    callee, args = reduction[:2]
    if (
        callee is cls
        and type(cls) is type
        and type(args) is tuple
        and len(args) <= 1
        and reduction[2] is None
        and _has_own(cls, defaultdict, "__init__", "__new__", "__setattr__", "default_factory")
        and not hasattr(cls, "__setstate__")
    ):
        state = (None, {"default_factory": args[0]}) if args else None
        return copyreg.__newobj__, (cls,), state, None, reduction[4]  # type: ignore[attr-defined]
    return reduction


def _split_counts(cls: type, reduction: tuple[Any, ...]) -> tuple[Any, ...]:
    callee, args = reduction[:2]
    if (
        callee is cls
        and type(cls) is type
        and type(args) is tuple
        and len(args) == 1
        and type(args[0]) is dict
        and reduction[2:] == (None, None, None)
        and _has_own(cls, Counter, "__init__", "__new__")
    ):
        return copyreg.__newobj__, (cls,), None, None, iter(args[0].items())  # type: ignore[attr-defined]
    return reduction


def _in_order(obj: Any) -> bool:
    """Whether the entries of an OrderedDict lie in the order that it gives them."""
    return all(map(is_, obj, dict.__iter__(obj)))


def _reduce_dict(obj: Any, reduction: tuple[Any, ...], direct: bool) -> tuple[Any, ...]:
    cls = type(obj)
    split = reduction
    if issubclass(cls, defaultdict):
        split = _split_factory(cls, reduction)
    elif issubclass(cls, Counter):
        split = _split_counts(cls, reduction)
    if (
        len(obj) < _FEW_ROWS
        or split[3] is not None
        or split[4] is None
        or not _comes_empty(cls, split)
    ):
        return reduction
    content: Any = obj
    if not direct:
        content = dict(split[4])
        if split is reduction:
            reduction = (*reduction[:4], iter(content.items()))
    elif cls.items is OrderedDict.items:
        if cls.__iter__ is not OrderedDict.__iter__ or not _in_order(obj):
            content = dict(obj.items())
    elif cls.items is not dict.items:
        return reduction
    split_state = split[2] is not reduction[2]
    columns = _encode(content, _FLAT, _IF_WORTH, _FACTORY_COST if split_state else 0)
    own_set = cls.__setitem__ in (dict.__setitem__, OrderedDict.__setitem__)
    if columns is None or (columns[1] and not own_set):  # placeholders would be seen
        return reduction
    return _reduction(cls, columns, state=split[2])


def _reduce_list(obj: Any, reduction: tuple[Any, ...], direct: bool) -> tuple[Any, ...]:
    cls = type(obj)
    if (
        len(obj) < _FEW_ROWS
        or reduction[3] is None
        or reduction[4] is not None
        or not _comes_empty(cls, reduction)
    ):
        return reduction
    content: Any = obj
    if not direct or cls.__iter__ is not list.__iter__:
        content = list(reduction[3])
        reduction = (*reduction[:3], iter(content), None)
    columns = _encode(content, _FLAT, _IF_WORTH, 0)
    if columns is None or (
        columns[1] and not _has_own(cls, list, "extend", "append", "__setitem__")
    ):
        return reduction
    return _reduction(cls, columns, state=reduction[2])


# ---- state -----------------------------------------------------------------------------------------
class _State:
    """The attributes of an object: a mapping to `copy`, columns to a pickler, and a dict to who loads it."""

    __slots__ = ("content", "mode")

    def __init__(self, content: dict[str, Any], mode: int) -> None:
        self.content = content
        self.mode = mode

    def keys(self) -> Any:
        return self.content.keys()

    def items(self) -> Any:
        return self.content.items()

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self.content, memo)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        columns = _encode_nested(self.content, self.mode, _IF_SHORTER)
        if columns is None:
            return dict, (), None, None, iter(self.content.items())
        return _reduction({}, columns, self.mode)


def _is_large(state: dict[str, Any], owned: bool) -> bool:
    if len(state) >= _LARGE_STATE:
        return True
    return owned and any(
        type(value) in (list, dict) and len(value) >= _LARGE_VALUE for value in state.values()
    )


def _wrap_state(cls: type, state: Any, owned: bool) -> Any:
    if state is None or hasattr(cls, "__setstate__"):
        return state
    if type(state) is dict:
        mode = _NESTED if owned else _FLAT
        if not _is_large(state, owned) or _encode_nested(state, mode, _IF_SHORTER) is None:
            return state
        return _State(state, mode)  # which encodes it again: pickling the arguments may change it
    if (
        type(state) is tuple
        and len(state) == 2
        and all(part is None or type(part) is dict for part in state)
    ):
        return tuple(part and _wrap_state(cls, part, owned) for part in state)
    return state


# ---- reducers --------------------------------------------------------------------------------------
class _Reducer:
    """What is in copyreg.dispatch_table for a registered class."""

    __slots__ = ("function", "owned")

    def __init__(self, function: Any, owned: bool) -> None:
        self.function = function
        self.owned = owned

    def __call__(self, obj: Any) -> Any:
        reduction = obj.__reduce_ex__(4) if self.function is None else self.function(obj)
        if type(reduction) is not tuple or not 2 <= len(reduction) <= 5:
            return reduction
        reduction += (None,) * (5 - len(reduction))
        if isinstance(obj, dict):
            reduction = _reduce_dict(obj, reduction, self.function is None)
        elif isinstance(obj, list):
            reduction = _reduce_list(obj, reduction, self.function is None)
        callee, args, state, items, pairs = reduction
        return callee, args, _wrap_state(type(obj), state, self.owned), items, pairs


def _check(cls: Any, pickle_function: Any) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"torshi.register: a class is needed, not {type(cls).__name__}")
    if cls in _NEVER_ASKED:
        raise TypeError(
            f"torshi.register: pickle never asks about {cls.__name__}; torshi.Chunked is for dicts and lists"
        )
    if pickle_function is not None and not callable(pickle_function):
        raise TypeError("reduction functions must be callable")


def reducer(
    cls: type, pickle_function: Callable[[Any], Any] | None = None, *, owned: bool = False
) -> Callable[[Any], Any]:
    """The function that `register` enters, for the dispatch_table of a single Pickler."""
    _check(cls, pickle_function)
    return _Reducer(pickle_function, bool(owned))


def register(
    cls: type,
    pickle_function: Callable[[Any], Any] | None = None,
    constructor_ob: Callable[..., Any] | None = None,
    *,
    owned: bool = False,
    value: bool = False,
) -> None:
    """Write objects of exactly `cls` in columns, whatever pickler is at work, as copyreg.pickle does it.

    `pickle_function(obj)` gives the reduction to start from; by default it is what was registered
    before, or the object's own. In it the entries of a subclass of dict or list, and a large state,
    become columns as far as they are immutable values: all that has an identity is pickled as ever.

    `owned`: the dicts and lists in the state, and all below them, belong to the object alone; they
    become columns as well, as with `Chunked`. `value`: objects of the class are small and many, and
    torshi's picklers make a column of the arguments that rebuild them; reducers may be called early.

    `unregister` undoes it. Registering again replaces what was said the first time.
    """
    _check(cls, pickle_function)
    if constructor_ob is not None:
        copyreg.constructor(constructor_ob)
    if cls in _registered:
        unregister(cls)
    before = copyreg.dispatch_table.get(cls, _ABSENT)
    function = (
        pickle_function if pickle_function is not None else None if before is _ABSENT else before
    )
    entered: Any = function if value else _Reducer(function, bool(owned))
    # what pickles by default has columns of its own
    value = value and (
        function is not None or not _has_own(cls, object, "__reduce_ex__", "__reduce__")
    )
    if value:
        _register_ref(cls)
    if entered is not None:
        copyreg.pickle(cls, entered)
    _registered[cls] = before, entered, bool(value)


def unregister(cls: type) -> None:
    """Undo `register`: what copyreg had for the class before is back. What somebody else has entered
    since then is left alone. ValueError when there is nothing to undo."""
    if cls not in _registered:
        raise ValueError(f"torshi.unregister: {cls!r} is not registered")
    before, entered, value = _registered.pop(cls)
    if value:
        _unregister_ref(cls)
    if copyreg.dispatch_table.get(cls) is not entered:
        return
    if before is _ABSENT:
        copyreg.dispatch_table.pop(cls, None)
    else:
        copyreg.dispatch_table[cls] = before
