"""Escapes text from outside before it is printed; everything that does so uses this module.

Names, labels, messages, paths and versions come from people and programs that kplan does not know. On a terminal and in
a log, control characters, escape sequences, direction marks and invisible characters in them could say something else
than what stands there, or add lines; to a CI system, a line that begins like one of its commands is a command.

Texts for people, and for programs that read lines, pass through :func:`visible` or, a document at a time, through
:func:`shown`. JSON and YAML keep every character, each in its own way of writing it (:func:`as_json`, :func:`as_yaml`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

#: Printable by their Unicode category, and yet nothing to see: fillers, empty signs, and selectors of variants, a row
#: of which can hold a hidden text.
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159" + "".join(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)

#: What CI systems obey: ``::error::`` at the beginning of a line (GitHub), ``##[error]``, ``##vso[`` (Azure) and
#: ``##teamcity[`` anywhere in one. Long lines are wrapped, so that any word may come to stand first.
_COMMAND = r"(?i)(?:(?<=\s)|\A)::|##(?=(?:vso|teamcity)?\[)"
_COMMAND_IN_JSON = r"(?i)##(?=(?:vso|teamcity)?\[)"

_UNUSUAL = "[^\n -~]+"  #: characters beyond plain ASCII; most of them are letters, and stay
_HALVES = "[\ud800-\udfff]"
_ESCAPE_IN_JSON = rb"\\[^\"\\/]"
_MARK_IN_JSON = rb"(?i)##\[|##vso|##team"

#: Plain ASCII. What is left of a text without it shows at once that a long one holds nothing else: a pattern would look
#: at every character, a hundred times as slowly.
_PRINTABLE = bytes(range(0x20, 0x7F))


def visible(text: str) -> str:
    r"""Return the text as one line that shows every character: ``\x1b``, ``\n``, ``\u202e``.

    What a CI system would obey is broken by writing its first character so, too.
    """
    if not text.isprintable() or not text.isascii():
        text = "".join(character if _is_plain(character) else _escaped(character) for character in text)
    if "::" not in text and "##" not in text:
        return text
    return re.sub(_COMMAND, lambda command: f"\\x{ord(command[0][0]):02x}{command[0][1:]}", text)


def _is_plain(character: str) -> bool:
    return character.isprintable() and character not in _FILLERS


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shown(document: T, encoded: bytes = b"") -> T:
    """Return a document (builtins, structs, dataclasses) with every text :func:`visible`; itself if all are so.

    `encoded`: what `encode` returns of it, where somebody has that.
    """
    if not _needs_a_look(encoded or encode(document)):
        return document
    visible_document: T = _shown(document)
    return visible_document


def _needs_a_look(data: bytes) -> bool:
    """Whether a document in JSON holds what does not show, or could be a command."""
    if data.translate(None, _PRINTABLE) or b"::" in data:
        return True
    if b"\\" in data and re.search(_ESCAPE_IN_JSON, data) is not None:
        return True
    return b"##" in data and re.search(_MARK_IN_JSON, data) is not None


def encode(document: object) -> bytes:
    """Return a document in JSON; a zero byte where JSON cannot hold it.

    Half of a pair, as in the name of a file that is not in UTF-8, is no character: where there is one, each text is
    :func:`visible`.
    """
    import msgspec

    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return encode(_shown(document))
    except (TypeError, ValueError, RecursionError):
        return b"\0"


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        # Words of an enumeration are kplan's own.
        return visible(value) if type(value) is str else value
    if isinstance(value, Mapping):
        return {visible(key) if isinstance(key, str) else key: _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_shown(item) for item in value]
        return items if isinstance(value, list) else value._make(items) if hasattr(value, "_make") else tuple(items)
    if hasattr(value, "__struct_fields__"):
        from msgspec import structs

        return structs.replace(value, **{name: _shown(getattr(value, name)) for name in value.__struct_fields__})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: _shown(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        return dataclasses.replace(value, **changes)
    return value


def as_json(document: Any) -> str:
    """Return a document of builtins as JSON that any terminal and log can hold; reading it gives the same texts."""
    import msgspec

    try:
        return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    except (TypeError, ValueError, OverflowError):  # halves of pairs, and huge numbers
        import json

        return escape_json(json.dumps(document, indent=2, ensure_ascii=False))


def json_bytes(data: bytes) -> bytes:
    """Return JSON in UTF-8 with what does not show written as escapes."""
    if data.isascii() and b"\x7f" not in data and b"##" not in data:
        return data
    return escape_json(data.decode()).encode()


def escape_json(text: str) -> str:
    """Return JSON with what does not show, or could be a command, written as escapes; it says the same.

    Only the strings of JSON hold anything to escape, and JSON has the control characters below a blank as escapes.
    """
    if not text.isascii() or "\x7f" in text:
        text = re.sub(_UNUSUAL, _escape_run, text)
    return re.sub(_COMMAND_IN_JSON, r"\\u0023#", text) if "##" in text else text


def _escape_run(run: re.Match[str]) -> str:
    import json

    return "".join(character if _is_plain(character) else json.dumps(character)[1:-1] for character in run[0])


def as_yaml(document: Any) -> str:
    """Return a document of builtins as YAML; reading it gives the same texts.

    A text is never broken into lines: a line that begins in the middle of one could be a command to somebody.
    """
    import yaml

    dumper = _dumper()
    document = _once(document)
    options: dict[str, Any] = {"Dumper": dumper, "sort_keys": False, "width": 1 << 30}
    text: str = yaml.dump(document, allow_unicode=True, **options)
    if not all(map(_is_plain, set(text) - {"\n"})):
        text = yaml.dump(document, allow_unicode=False, **options)
    return re.sub(_COMMAND_IN_JSON, r"\\x23#", text)


def _once(value: Any) -> Any:
    """Copy a document so that no part of it occurs twice, which YAML would write as an alias."""
    if isinstance(value, str):
        # Half of a pair is no character, and YAML cannot write it.
        return value if value.isascii() else re.sub(_HALVES, lambda half: _escaped(half[0]), value)
    if isinstance(value, Mapping):
        return {_once(key): _once(item) for key, item in value.items()}
    return [_once(item) for item in value] if isinstance(value, list | tuple) else value


def _dumper() -> Any:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # chosen when it runs
        """Quotes texts that hold more than one line, or what a CI system would obey."""

        def represent_text(self, text: str) -> Any:
            is_odd = not text.isprintable() or re.search(_COMMAND, text) is not None
            return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_odd else None)

    Dumper.add_representer(str, Dumper.represent_text)
    return Dumper


def without_account(url: str) -> str:
    """Return a URL as it is, but for a user and password in it."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url
