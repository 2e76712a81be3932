"""The golden files as text: ok() and bad() each add one; for tools/golden.py."""

from __future__ import annotations

files: dict[str, str] = {}


def emit(name: str, about: str, fields: dict[str, str | None], data: bytes) -> None:
    assert name not in files, name
    lines = [f"# {about}"] + [
        f"{key}: {value}" for key, value in fields.items() if value is not None
    ]
    text = data.hex(" ")
    lines += ["hex:"] + ["  " + text[i : i + 96].strip() for i in range(0, len(text), 96)]
    files[name + ".txt"] = "\n".join(lines) + "\n"


def ok(
    name: str,
    about: str,
    data: bytes,
    value: str,
    target: str = "list",
    roll: str | None = None,
    externals: str | None = None,
) -> None:
    """roll: type names of what follows the target on the roll; "" for an empty one."""
    fields = {"target": target, "roll": roll, "externals": externals, "value": value}
    emit("ok/" + name, about, fields, data)


def bad(
    name: str,
    about: str,
    status: str,
    before: bytes,
    wrong: bytes = b"",
    target: str = "list",
    roll: str | None = "",
    externals: str | None = None,
    walker: str | None = None,
) -> None:
    """The first wrong byte is the first of `wrong`."""
    fields = {
        "target": target,
        "roll": roll,
        "externals": externals,
        "walker": walker,
        "status": status,
        "offset": str(len(before)),
    }
    emit("bad/" + name, about, fields, before + wrong)
