"""What a server or plugin repeats of a credential is hidden, in whatever form."""

import base64
import random
import string

import pytest

from kplan.live.credentials import Secrets

TOKEN = "".join(random.Random(3).choices(string.ascii_letters + string.digits, k=60))


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz", "Bearer: "])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_hidden_wherever_the_token_begins_in_it(before: str, encode: object) -> None:
    sent = encode(f"{before}{TOKEN} and more".encode()).decode()
    told = Secrets([TOKEN]).hide(f"no such token {sent}")
    assert "(hidden)" in told
    assert sent[8:-24] not in told
    assert told.startswith("no such token ")


@pytest.mark.parametrize("cut", [15, 30, 45])
def test_pieces_of_a_token_are_hidden(cut: int) -> None:
    told = Secrets([TOKEN]).hide(f"begins with {TOKEN[:cut]}, ends with {TOKEN[cut:]}!")
    assert told == "begins with (hidden), ends with (hidden)!"


def test_words_that_look_like_no_token_are_hidden_whole_only() -> None:
    secrets = Secrets(["my-production-cluster-in-europe"])
    assert secrets.hide("namespace production-cluster") == "namespace production-cluster"
    assert secrets.hide("in my-production-cluster-in-europe") == "in (hidden)"


def test_nothing_else_is_hidden() -> None:
    assert Secrets([TOKEN]).hide("pods is forbidden: User x cannot list") == "pods is forbidden: User x cannot list"
