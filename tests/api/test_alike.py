"""Names are compared with care for the time that it takes."""

import difflib

import pytest

from kplan.api import names


def test_the_most_similar_name_comes_first() -> None:
    assert names.nearest_texts("voucher", ["boucher", "vouchers", "cart"]) == ["vouchers", "boucher"]
    assert names.similarity("abc", "abc") == 1
    assert 0 < names.similarity("abcd", "abce") < 1


def test_long_texts_resemble_nothing_but_themselves() -> None:
    text = "a" * (names.LONGEST + 1)

    assert names.similarity(text, text) == 1
    assert names.similarity(text, text + "a") == 0
    assert names.nearest_texts(text, [text]) == []
    assert names.nearest_texts("a", [text]) == []


def test_of_very_many_names_only_the_first_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def close(_word: str, names: list[str], *_: object) -> list[str]:
        compared.append(len(names))
        return []

    monkeypatch.setattr(difflib, "get_close_matches", close)
    names.nearest_texts("x", ["y" * 100] * 50_000)

    assert compared == [10_000]
