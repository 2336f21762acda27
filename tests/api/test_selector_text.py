"""Label selectors as people type them."""

import pytest

from kplan.api.labels import InvalidSelector
from kplan.api.selector_text import parse_selector

LABELS = {"app": "web", "tier": "front", "env": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "app=web",
        "app==web",
        "app = web , tier=front",
        "app!=db",
        "zone!=a",
        "env=",
        "app",
        "!canary",
        "! canary",
        "app in (web, db)",
        "app in (db,web),tier notin (back)",
        "zone notin (a)",
        "env in ()",
    ],
)
def test_a_selector_takes_labels_that_meet_all_its_parts(text: str) -> None:
    assert parse_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text", ["app=db", "app!=web", "canary", "!app", "app in (db)", "app notin (web,db)", "app=web,tier=back", "env=x"]
)
def test_a_selector_turns_down_labels_that_fail_one_of_its_parts(text: str) -> None:
    assert not parse_selector(text).matches(LABELS)


@pytest.mark.parametrize("text", ["app web", "app=web,", ",", "=web", "app in web", "app in (web", "-app=web", "a(b"])
def test_what_kubectl_refuses_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        parse_selector(text)
