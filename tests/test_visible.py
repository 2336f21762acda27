"""Texts of others on their way out: laws of the escaping, and that nothing that is printed goes past it."""

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kplan.visible import as_json, as_yaml, encode, escape_json, json_bytes, shown, visible

CONTROLS = ["\n", "\r", "\t", "\x00", "\x1b[31m", "\x7f", "\x85", "\x9b31m"]
INVISIBLE = [*"\u200b\u200e\u202e\u2028\u2029\u2066\ufeff\u00ad\u3164\U000e0041\U000e0100\ufe0e\u180b\U0001d159"]
COMMANDS = ["::", "::error::x", "##vso[x]", "##[error]", "##teamcity[x", "##TeamCity["]
WORDS = [" ", "a", "é", "漢", "😀", '"', "\\", "'", ": ", "- ", "#", "{"]
ODD = [*CONTROLS, *INVISIBLE, *COMMANDS, *WORDS]
TEXTS = st.one_of(st.lists(st.sampled_from(ODD), max_size=6).map("".join), st.text(max_size=20))
DOCUMENTS = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers(-(2**53), 2**53),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=20,
)
#: What a terminal could obey, or nobody could see.
UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u3164\ufe00-\ufe0f\u180b\U000e0000-\U000e0fff]"
)
COMMAND = re.compile(r"^\s*::|##(vso|teamcity)?\[", re.IGNORECASE | re.MULTILINE)


def is_harmless(text: str) -> bool:
    return not UNSEEN.search(text) and not COMMAND.search(text)


@pytest.mark.parametrize(
    ("text", "shown_text"),
    [
        ("web-0", "web-0"),
        ("Köln 漢字 😀 a::b", "Köln 漢字 😀 a::b"),
        ("a\r\nerror: forged", r"a\r\nerror: forged"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("ze\u200bro", r"ze\u200bro"),
        ("::error::forged", r"\x3a:error::forged"),
        ("so ::set-output", r"so \x3a:set-output"),
        ("a##vso[task.setvariable]", r"a\x23#vso[task.setvariable]"),
        ("##[error]x ##teamcity[x", r"\x23#[error]x \x23#teamcity[x"),
    ],
)
def test_what_does_not_show_is_written_out(text: str, shown_text: str) -> None:
    assert visible(text) == shown_text


@given(TEXTS)
def test_a_visible_text_is_one_harmless_line_and_stays_as_it_is(text: str) -> None:
    shown_text = visible(text)
    assert is_harmless(shown_text)
    assert "\n" not in shown_text
    assert visible(shown_text) == shown_text


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd"]), max_size=30))
def test_letters_and_digits_of_any_language_stay(text: str) -> None:
    assert visible(text) == text


@given(TEXTS)
def test_a_word_that_wrapping_puts_first_is_no_command(text: str) -> None:
    for word in visible(text).split():
        assert not word.startswith("::")


@given(DOCUMENTS)
def test_json_and_yaml_say_the_same_and_are_harmless(document: Any) -> None:
    for text, read in ((as_json(document), json.loads), (as_yaml(document), yaml.safe_load)):
        assert read(text) == document
        assert is_harmless(text)


@given(DOCUMENTS)
def test_compact_json_is_escaped_without_being_read(document: Any) -> None:
    data = json_bytes(msgspec.json.encode(document))
    assert json.loads(data) == document
    assert is_harmless(data.decode())


def test_halves_of_characters_survive_as_escapes() -> None:
    assert json.loads(as_json(["\udcff"])) == ["\udcff"]
    assert yaml.safe_load(as_yaml(["\udcff"])) == [r"\udcff"]
    assert visible("\udcff") == r"\udcff"
    assert json.loads(encode({"file": "\udcff.yaml"})) == {"file": r"\udcff.yaml"}


def test_escaping_json_leaves_plain_json_alone() -> None:
    text = '{\n  "a": ["b # c", "d::e"]\n}'
    assert escape_json(text) == text


class Inner(msgspec.Struct, frozen=True):
    text: str
    number: int = 1


@dataclass(frozen=True)
class Outer:
    inner: Inner
    texts: tuple[str, ...]
    by_name: dict[str, str]


def test_a_document_of_any_make_is_shown_throughout() -> None:
    outer = Outer(Inner("a\nb"), ("::x", "y"), {"\x1b": "\u202e"})
    assert shown(outer) == Outer(Inner(r"a\nb"), (r"\x3a:x", "y"), {r"\x1b": r"\u202e"})


def test_a_harmless_document_is_not_copied() -> None:
    document = {"a": ["b", {"c": 1}], "path": "x/y", "time": "10:00:00"}
    assert shown(document) is document


@given(DOCUMENTS)
def test_no_text_of_a_shown_document_is_harmful(document: Any) -> None:
    def texts(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        below = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
        return [text for item in below for text in texts(item)]

    assert all(is_harmless(text) and "\n" not in text for text in texts(shown(document)))
