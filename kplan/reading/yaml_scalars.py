"""The values of scalars in YAML, as go-yaml resolves them and Go then writes them as JSON.

Upstream: go.yaml.in/yaml/v2 resolve.go, sigs.k8s.io/yaml convertToJSONableObject.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from decimal import Decimal
from functools import lru_cache
from typing import Any

import yaml

STANDARD_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*|0[0-7]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+)")
_MAX_DIGITS = 2 + 64
"""Length of a 64-bit number in binary, with its prefix."""
_MOST_FLOAT32_DIGITS = 9
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((f"{sign}{word}" for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
#: Tags that a scalar must match; any other tag than these and ``!!str`` makes it a text, or is passed over.
_TAGGED: dict[str, Any] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9:.]+([Zz]|[-+][0-9]{2}:[0-9]{2})?)?")
#: Go writes a float64 from here on with an exponent.
_LEAST_WITH_EXPONENT = 1e21


def start_of(event: yaml.Event) -> yaml.Mark:
    """Return where an event begins."""
    mark: yaml.Mark = event.start_mark  # type: ignore[assignment] # every event of the parser has one
    return mark


class Refused(Exception):  # noqa: N818 - says what happened, not that it is an error
    """What Kubernetes' YAML reader refuses, with the line of it."""

    def __init__(self, message: str, event: yaml.Event, *, hint: str) -> None:
        super().__init__(message)
        self.line: int = start_of(event).line + 1
        self.hint = hint


def key_text(value: Any, event: yaml.Event) -> str:
    """Return the text of a key that is no text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value < 1 << 63:
        return str(value)
    if isinstance(value, float):
        return _float_key(value)
    raise Refused(
        "a key must be a string", event, hint="render templates first; values that start with { or [ need quotes"
    )


def _float_key(value: float) -> str:
    """Return the text of a number as key: the shortest of a float32, as sigs.k8s.io/yaml writes it."""
    try:
        (single,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:  # upstream rounds it to infinity
        return "-.inf" if value < 0 else ".inf"
    texts = (f"{value:.{digits}e}" for digits in range(_MOST_FLOAT32_DIGITS))
    shortest = next((text for text in texts if struct.pack("f", float(text)) == struct.pack("f", single)), f"{value:e}")
    exponent = int(shortest.partition("e")[2])
    return shortest if not -4 <= exponent < 21 else f"{float(shortest):f}".rstrip("0").rstrip(".")


def scalar_value(event: yaml.ScalarEvent) -> Any:
    """Return the value of a scalar, with or without a tag, as go-yaml resolves it and Go then writes it as JSON."""
    if event.tag and event.tag != "!":
        value = _tagged(event)
    elif event.implicit[0]:
        value = _plain(event.value)
    else:
        return event.value
    if value.__class__ is float and not math.isfinite(value):
        raise Refused(
            f"JSON has no number {event.value}",
            event,
            hint="put quotes around it, or write a number",
        )
    return value


def _tagged(event: yaml.ScalarEvent) -> Any:
    tag = event.tag or ""
    name = tag.removeprefix(STANDARD_TAG) if tag.startswith(STANDARD_TAG) else ""
    if name == "binary":
        try:
            return base64.b64decode(event.value.replace("\r", "").replace("\n", ""), validate=True).decode(
                errors="replace"
            )
        except ValueError:
            raise Refused("!!binary value contains invalid base64 data", event, hint="encode it again") from None
    if name == "timestamp" and _DATE.fullmatch(event.value):
        return event.value
    if name not in _TAGGED and name != "timestamp":
        return event.value
    value = _plain(event.value)
    matches = name != "timestamp" and isinstance(value, _TAGGED[name])
    matches = matches and not (name == "int" and _INTEGER.fullmatch(event.value.replace("_", "")) is None)
    if not matches or (name in ("int", "float") and isinstance(value, bool)):
        raise Refused(f"{event.value[:40]!r} does not match its tag !!{name}", event, hint="remove the tag")
    return value


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> Any:
    """Return the value of a plain scalar as go-yaml does for JSON."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    number = text.replace("_", "") if text[0] != "." else text
    if _INTEGER.fullmatch(number) and (whole := _integer(number)) is not None:
        return whole
    if not _FLOAT.fullmatch(number):
        return text
    real = float(number)
    if not math.isfinite(real):
        return text
    return int(Decimal(repr(real))) if real.is_integer() and abs(real) < _LEAST_WITH_EXPONENT else real


def _integer(text: str) -> int | None:
    """Parse a 64-bit integer; None for a larger number, which becomes a float."""
    digits = text.lstrip("+-")
    if len(digits) > _MAX_DIGITS:
        return None
    is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    try:
        number = int(digits, 8) if is_octal else int(digits, 0)
    except ValueError:
        return None  # a prefix without digits
    number = -number if text[0] == "-" else number
    return number if -(1 << 63) <= number < 1 << 64 else None
