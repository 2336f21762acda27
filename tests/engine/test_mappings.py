"""An overlay is a dictionary whose copies know nothing of each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.engine.mappings import Overlay

KEYS = "abcd"
CHANGES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 2))))


@given(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 2)), CHANGES)
def test_overlays_and_their_copies_are_as_dictionaries_and_their_copies(below, changes):
    pairs = [(Overlay(dict(below)), dict(below))]
    for number, key, value in changes:
        overlay, plain = pairs[number % len(pairs)]
        if value is None:
            assert overlay.pop(key) == plain.pop(key, None)
        else:
            overlay[key] = plain[key] = value
        pairs.append((overlay.copy(), plain.copy()))

    for overlay, plain in pairs:
        assert [(overlay.get(key), key in overlay) for key in KEYS] == [(plain.get(key), key in plain) for key in KEYS]


def test_a_key_that_is_gone_is_missing():
    overlay = Overlay({"a": 1})
    overlay.pop("a")
    with pytest.raises(KeyError):
        overlay["a"]
