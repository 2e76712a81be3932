"""What the pure-Python writer knows about types: the twin of plugin/types.c and plugin/values.c,
and of the engine's test for the default path."""

from __future__ import annotations

import copyreg
import datetime
import sys
import types
from typing import Any

from ._pure_wire import LONG_TEXT, MAX_ARITY

PENDING, INSTANCE, REFERENCE, ZONE = 1, 2, 3, 4
DATE, DATETIME, TIME, TIMEDELTA, DECIMAL, UUID, ENUM, FRACTION, PATH, NAMED = range(10, 20)

_HEAPTYPE, _IMMUTABLE, _MANAGED_DICT = 1 << 9, 1 << 8, 1 << 4
_POINTER = 8
_MOST_SLOTS = 256
_SPECIAL = frozenset(("__reduce_ex__", "__reduce__", "__getstate__"))
_ABSENT = object()


def look_up(cls: type, name: str) -> Any:
    """What the type's own lookup finds, without descriptors; _ABSENT."""
    for owner in cls.__mro__:
        found = owner.__dict__.get(name, _ABSENT)
        if found is not _ABSENT:
            return found
    return _ABSENT


def _has_objects_own(cls: type, *names: str) -> bool:
    return all(look_up(cls, name) is look_up(object, name) for name in names)


class TypeEntry:
    """One type, as a chunk sees it."""

    __slots__ = ("type", "form", "has_dict", "slots", "own", "arguments", "variants", "parts")

    def __init__(self, cls: type) -> None:
        self.type = cls
        self.form = PENDING
        self.has_dict = False
        self.own = False  # an ObjectRef, read directly
        self.slots: list[tuple[str, Any]] = []  # names and descriptors
        self.arguments = 1  # of a value's callable
        self.variants: dict[int, TypeEntry] = {}  # by that, where the objects differ in it
        self.parts: list[Any] = []  # PATH: descriptors of drive, root and parts, or of parts

    def variant(self, arguments: int) -> TypeEntry:
        """The entry of the objects whose callable takes so many arguments."""
        if arguments == self.arguments:
            return self
        made = self.variants.get(arguments)
        if made is None:
            made = self.variants[arguments] = TypeEntry(self.type)
            made.form, made.parts, made.arguments = self.form, self.parts, arguments
        return made

    def slot(self, obj: Any, name: str) -> Any:
        for slot, descriptor in self.slots:
            if slot == name:
                try:
                    return descriptor.__get__(obj, self.type)
                except AttributeError:
                    return _ABSENT
        return _ABSENT

    def set_slots(self, obj: Any) -> list[tuple[str, Any]]:
        """Names and values of the slots that are set."""
        found = []
        for name, descriptor in self.slots:
            try:
                found.append((name, descriptor.__get__(obj, self.type)))
            except AttributeError:
                pass
        return found


# ---- slots ---------------------------------------------------------------------------------------
def _mangle(owner: type, name: str) -> str:
    stripped = owner.__name__.lstrip("_")
    if not name.startswith("__") or (len(name) >= 4 and name.endswith("__")) or not stripped:
        return name
    return f"_{stripped}{name}"


def _find_slots(entry: TypeEntry) -> bool:
    """Fill in the slots in copyreg's order; False when one is out of the ordinary."""
    for owner in entry.type.__mro__:
        if not owner.__flags__ & _HEAPTYPE or "__slots__" not in owner.__dict__:
            continue
        slots = owner.__dict__["__slots__"]
        if type(slots) is str:
            slots = (slots,)
        if type(slots) is not tuple and type(slots) is not list:
            return False
        for raw in slots:
            if type(raw) is not str or len(entry.slots) >= _MOST_SLOTS:
                return False
            if raw in ("__dict__", "__weakref__"):
                continue
            name = _mangle(owner, raw)
            descriptor = look_up(entry.type, name)
            if type(descriptor) is not types.MemberDescriptorType or descriptor.__name__ != name:
                return False
            entry.slots.append(
                (descriptor.__name__, descriptor)
            )  # the object that others will meet
    return len({name for name, _ in entry.slots}) == len(entry.slots)


# ---- the default path ----------------------------------------------------------------------------
def _reduces_by_default(cls: type) -> bool:
    meta = type(cls)
    if (
        not _has_objects_own(
            cls, "__getattribute__", "__reduce_ex__", "__class__", "__reduce__", "__getstate__"
        )
        or look_up(cls, "__getattr__") is not _ABSENT
        or issubclass(cls, (type, list, dict))
    ):
        return False
    if meta is not type and (
        look_up(meta, "__getattr__") is not _ABSENT
        or look_up(meta, "__getattribute__") is not look_up(type, "__getattribute__")
        or look_up(meta, "__hash__") is not look_up(object, "__hash__")
        or not _has_objects_own(meta, "__eq__", "__reduce__")
    ):
        return False
    return (
        bool(cls.__flags__ & _HEAPTYPE)
        and cls.__itemsize__ == 0
        and look_up(cls, "__getnewargs_ex__") is _ABSENT
        and look_up(cls, "__getnewargs__") is _ABSENT
    )


def _slot_names(cls: type) -> list[str] | None:
    """copyreg's list, made now where it was not yet; None where the class is unusual."""
    names = cls.__dict__.get("__slotnames__", _ABSENT)
    if names is not _ABSENT:
        return names if type(names) is list else None
    any_slots = False
    for base in cls.__mro__:
        if not base.__flags__ & _HEAPTYPE:
            if base is not object:
                return None
            continue
        slots = base.__dict__.get("__slots__", _ABSENT)
        any_slots |= slots is not _ABSENT
        if slots is _ABSENT or type(slots) is str:
            continue
        if type(slots) not in (tuple, list) or any(type(slot) is not str for slot in slots):
            return None
    if not any_slots:
        return []
    return copyreg._slotnames(cls) if type(cls) is type else None  # type: ignore[attr-defined]


def _is_default_type(cls: type) -> bool:
    if not _reduces_by_default(cls) or cls in copyreg.dispatch_table:
        return False
    names = _slot_names(cls)
    if names is None:
        return False
    for name in names:
        if type(name) is not str or type(look_up(cls, name)) is not types.MemberDescriptorType:
            return False
    size = object.__basicsize__ + len(names) * _POINTER
    if cls.__dictoffset__ and not cls.__flags__ & _MANAGED_DICT:
        size += _POINTER
    if cls.__weakrefoffset__ > 0:
        size += _POINTER
    return cls.__basicsize__ <= size


def attributes_of(obj: Any) -> Any:
    return object.__getattribute__(obj, "__dict__")


def is_default_instance(obj: Any, has_dict: bool) -> bool:
    """Whether obj pickles by object's own __reduce_ex__, nothing overridden or shadowed."""
    if not _is_default_type(type(obj)):
        return False
    if not has_dict:
        return True
    attributes = attributes_of(obj)
    return type(attributes) is dict and all(
        type(name) is str and name not in _SPECIAL for name in attributes
    )


# ---- values --------------------------------------------------------------------------------------
def _is_function_of(function: Any, module: types.ModuleType, qualname: str) -> bool:
    return (
        isinstance(function, types.FunctionType)
        and function.__globals__ is module.__dict__
        and function.__qualname__ == qualname
        and function.__code__.co_qualname == qualname
    )


def _is_uuid(cls: type) -> bool:
    module = sys.modules.get("uuid")
    return (
        cls.__name__ == "UUID"
        and isinstance(module, types.ModuleType)
        and module.__dict__.get("UUID") is cls
        and all(
            _is_function_of(look_up(cls, name), module, f"UUID.{name}")
            for name in ("__getstate__", "__setstate__", "__init__")
        )
        and _has_objects_own(cls, "__reduce_ex__", "__reduce__", "__new__", "__getattribute__")
        and look_up(cls, "__getnewargs__") is _ABSENT
        and look_up(cls, "__getnewargs_ex__") is _ABSENT
    )


def _is_fraction(cls: type) -> bool:
    module = sys.modules.get("fractions")
    return (
        cls.__name__ == "Fraction"
        and isinstance(module, types.ModuleType)
        and module.__dict__.get("Fraction") is cls
        and _is_function_of(look_up(cls, "__reduce__"), module, "Fraction.__reduce__")
        and _has_objects_own(cls, "__reduce_ex__", "__getattribute__")
    )


def _is_enum(cls: type) -> bool:
    module = sys.modules.get("enum")
    if type(cls) is type or not isinstance(module, types.ModuleType):
        return False
    base = module.__dict__.get("Enum")
    reducer = look_up(cls, "__reduce_ex__")
    return (
        module.__dict__.get("EnumType") is type(cls)
        and isinstance(base, type)
        and reducer is look_up(base, "__reduce_ex__")
        and _is_function_of(reducer, module, "Enum.__reduce_ex__")
        and type(look_up(cls, "__getattribute__")) is types.WrapperDescriptorType
    )


def _is_decimal(cls: type) -> bool:
    module = sys.modules.get("_decimal")
    return (
        cls.__name__ == "Decimal"
        and (not cls.__flags__ & _HEAPTYPE or bool(cls.__flags__ & _IMMUTABLE))
        and isinstance(module, types.ModuleType)
        and module.__dict__.get("Decimal") is cls
    )


def _is_zone(cls: type) -> bool:
    if cls is datetime.timezone:
        return not cls.__flags__ & _HEAPTYPE
    module = sys.modules.get("_zoneinfo")
    return (
        cls.__name__ == "ZoneInfo"
        and isinstance(module, types.ModuleType)
        and module.__dict__.get("ZoneInfo") is cls
        and type(look_up(cls, "__reduce__")) is types.MethodDescriptorType
        and type(look_up(cls, "_unpickle")) is types.ClassMethodDescriptorType
        and type(look_up(cls, "__getattribute__")) is types.WrapperDescriptorType
        and _has_objects_own(cls, "__reduce_ex__")
    )


def is_known_zone(zone: Any) -> bool:
    """Whether a time zone of the library is made of plain parts: others may have reducers."""
    if type(zone) is datetime.timezone:
        return type(zone.utcoffset(None)) is datetime.timedelta and type(zone.tzname(None)) is str
    return type(zone.key) is str


def _find_parts(cls: type) -> list[Any]:
    """The descriptors of the slots that PurePath.__reduce__ reads; none where it is not known."""
    module = sys.modules.get("pathlib._local") or sys.modules.get("pathlib")
    reducer = look_up(cls, "__reduce__")
    if (
        cls.__name__ not in ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath")
        or type(cls) is not type
        or not isinstance(module, types.ModuleType)
        or module.__dict__.get(cls.__name__) is not cls
        or not _has_objects_own(cls, "__reduce_ex__", "__getattribute__", "__class__")
        or look_up(cls, "__getattr__") is not _ABSENT
        or not _is_function_of(reducer, module, "PurePath.__reduce__")
    ):
        return []
    last = reducer.__code__.co_names[-1:]
    if last in (("_parts",), ("_raw_paths",)):
        names = list(last)
    elif last == ("parts",) and all(
        type(found := look_up(cls, name)) is property
        and _is_function_of(found.fget, module, f"PurePath.{name}")
        for name in ("parts", "drive", "root", "_tail")
    ):
        names = ["_drv", "_root", "_tail_cached"]
    else:
        return []
    slots = [look_up(cls, name) for name in names]
    return slots if all(type(slot) is types.MemberDescriptorType for slot in slots) else []


def path_parts(obj: Any, entry: TypeEntry) -> list[str] | None:
    """What PurePath.__reduce__ gives; None where it would have to be computed."""
    try:
        found = [slot.__get__(obj, entry.type) for slot in entry.parts]
    except AttributeError:
        return None
    parts = found[-1]
    if type(parts) is not list:
        return None
    if len(found) > 1:
        if any(type(text) is not str for text in found[:2]) or (found[0] and found[1]):
            return None
        if found[0] or found[1]:
            parts = [found[0] or found[1], *parts]
    if len(parts) > MAX_ARITY or any(
        type(part) is not str or len(part) >= LONG_TEXT for part in parts
    ):
        return None
    return parts


def newobj_function() -> Any:
    """copyreg.__newobj__, where it is the original one."""
    found = copyreg.__dict__.get("__newobj__")
    return found if _is_function_of(found, copyreg, "__newobj__") else None


def _is_generated(function: Any) -> bool:
    """Whether it is the __getnewargs__ that namedtuple() makes: tuple(self)."""
    module = sys.modules.get("collections")
    return (
        isinstance(function, types.FunctionType)
        and isinstance(module, types.ModuleType)
        and function.__globals__ is module.__dict__
        and function.__code__.co_qualname == "namedtuple.<locals>.__getnewargs__"
        and function.__closure__ == (types.CellType(tuple),)
    )


def _is_named_tuple(cls: type) -> bool:
    return (
        issubclass(cls, tuple)
        and bool(cls.__flags__ & _HEAPTYPE)
        and type(cls) is type
        and cls.__basicsize__ == tuple.__basicsize__
        and cls.__itemsize__ == tuple.__itemsize__
        and not cls.__dictoffset__
        and not cls.__weakrefoffset__
        and not cls.__flags__ & _MANAGED_DICT
        and _is_generated(look_up(cls, "__getnewargs__"))
        and _has_objects_own(cls, "__reduce_ex__", "__reduce__", "__getstate__", "__class__")
        and all(
            look_up(cls, name) is look_up(tuple, name)
            for name in ("__getattribute__", "__iter__", "__len__")
        )
        and all(
            look_up(cls, name) is _ABSENT
            for name in ("__getnewargs_ex__", "__getattr__", "__length_hint__")
        )
        and type(names := cls.__dict__.get("__slotnames__", [])) is list
        and not names
    )


_DATES = {
    datetime.date: DATE,
    datetime.datetime: DATETIME,
    datetime.time: TIME,
    datetime.timedelta: TIMEDELTA,
}


def _value_form(cls: type) -> int:
    form = _DATES.get(cls) if not cls.__flags__ & _HEAPTYPE else None
    if form is not None:
        return form
    for test, form in (
        (_is_decimal, DECIMAL),
        (_is_uuid, UUID),
        (_is_enum, ENUM),
        (_is_fraction, FRACTION),
        (_find_parts, PATH),
        (_is_zone, ZONE),
        (_is_named_tuple, NAMED),
    ):
        if test(cls):
            return form
    return PENDING


def make_entry(obj: Any, hooks: bool) -> TypeEntry:
    """What a chunk knows about obj's type. `hooks`: something is asked for every instance."""
    cls = type(obj)
    entry = TypeEntry(cls)
    if hooks:
        return entry
    form = _value_form(cls)
    if form != PENDING:
        if cls in copyreg.dispatch_table:
            return entry
        if form in (UUID, FRACTION) and (not _find_slots(entry) or len(entry.slots) != 2):
            entry.slots.clear()
            return entry
        if form == NAMED and (
            newobj_function() is None or not _find_slots(entry) or entry.slots
        ):
            entry.slots.clear()
            return entry
        entry.has_dict = form == ENUM
        entry.arguments = 3 if form == TIMEDELTA else 2 if form in (UUID, FRACTION) else 1
        entry.parts = _find_parts(cls) if form == PATH else []
        entry.form = form
        return entry
    has_dict = cls.__dictoffset__ != 0
    if (
        cls.__flags__ & _HEAPTYPE
        and is_default_instance(obj, has_dict)
        and look_up(cls, "__setstate__") is _ABSENT
    ):
        entry.has_dict = has_dict
        if _find_slots(entry):
            entry.form = INSTANCE
    return entry


def variant_of(obj: Any, entry: TypeEntry) -> TypeEntry:
    """The entry for obj, a known value, and those like it."""
    if entry.form in (DATETIME, TIME):
        return entry.variant(1 if obj.tzinfo is None else 2)
    if entry.form == PATH:
        return entry.variant(len(path_parts(obj, entry) or ()))
    if entry.form == NAMED:
        return entry.variant(1 + tuple.__len__(obj))
    return entry


def enum_value(obj: Any) -> Any:
    """The member's value as it is in its __dict__; _ABSENT."""
    return attributes_of(obj).get("_value_", _ABSENT)


def uuid_bytes(obj: Any, entry: TypeEntry) -> bytes | None:
    number = entry.slot(obj, "int")
    if type(number) is not int or not 0 <= number < 1 << 128:
        return None
    return number.to_bytes(16, "big")


def is_known_value(obj: Any, entry: TypeEntry, is_plain: Any, is_zone: Any) -> bool:
    """Whether obj, of a value's type, can be made again from that type's columns."""
    form = entry.form
    if form in (DATE, TIMEDELTA, DECIMAL):
        return True
    if form in (DATETIME, TIME):
        return obj.tzinfo is None or is_zone(obj.tzinfo)
    if form == PATH:
        return path_parts(obj, entry) is not None
    if form == NAMED:
        return tuple.__len__(obj) < MAX_ARITY and all(map(is_plain, tuple.__iter__(obj)))
    if form == UUID:
        safety = sys.modules["uuid"].SafeUUID.__dict__["_member_map_"].get("unknown", _ABSENT)
        return entry.slot(obj, "is_safe") is safety and uuid_bytes(obj, entry) is not None
    if form == ENUM:
        value = enum_value(obj)
        return value is not _ABSENT and is_plain(value)
    if form == FRACTION:
        return (
            type(entry.slot(obj, "_numerator")) is int
            and type(entry.slot(obj, "_denominator")) is int
        )
    return False
