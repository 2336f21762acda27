"""Checked reading of an extender's answers, field by field: an extender may send anything.

As in Go, field names are case-insensitive, and null means absent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.framework.extenders import ExtenderError

_INT64 = range(-(2**63), 2**63)


class Value:
    """A value of an answer, with its path and the extender for messages."""

    def __init__(self, value: Any, extender: str, path: str) -> None:
        self._value = value
        self._extender = extender
        self._path = path

    @property
    def is_present(self) -> bool:
        """Whether the value is present and not null."""
        return self._value is not None

    def text(self) -> str:
        """Return a string; raises ExtenderError for anything else."""
        return str(self._as(str, "a string", ""))

    def integer(self) -> int:
        """Return a 64-bit integer."""
        number = self._as(int, "an integer", 0)
        if isinstance(number, bool) or number not in _INT64:
            raise self._wrong("an integer of 64 bits")
        return int(number)

    def items(self) -> list[Value]:
        """Return the values of a list."""
        items = self._as(list, "a list", [])
        return [Value(item, self._extender, f"{self._path}[{index}]") for index, item in enumerate(items)]

    def entries(self) -> dict[str, Value]:
        """Return the values of an object by name."""
        fields = self._as(dict, "an object", {})
        return {name: Value(item, self._extender, f"{self._path}.{name}") for name, item in fields.items()}

    def fields(self) -> Fields:
        """Return the values of an object, by name in lower case."""
        return Fields(self.entries(), self._extender, self._path)

    def texts(self) -> dict[str, str]:
        """Return the strings of an object by name."""
        return {name: value.text() for name, value in self.entries().items()}

    def _as(self, kind: type, name: str, zero: Any) -> Any:
        if self._value is None:
            return zero
        if not isinstance(self._value, kind):
            raise self._wrong(name)
        return self._value

    def _wrong(self, expected: str) -> ExtenderError:
        return ExtenderError(
            f'extender "{self._extender}" did not answer as it must: {self._path}: expected {expected}'
        )


class Fields:
    """The fields of an object, whatever the case of their names; an absent field is null."""

    def __init__(self, entries: dict[str, Value], extender: str, path: str) -> None:
        self._entries = {name.lower(): value for name, value in entries.items()}
        self._extender = extender
        self._path = path

    def __getitem__(self, name: str) -> Value:
        return self._entries.get(name) or Value(None, self._extender, f"{self._path}.{name}")


def read_answer(body: bytes, extender: str) -> Value:
    """Return the answer; raises ExtenderError when it is not JSON."""
    try:
        return Value(msgspec.json.decode(body), extender, "$")
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ExtenderError(f'extender "{extender}" did not answer with JSON') from None
