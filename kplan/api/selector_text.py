"""Label selectors as text: ``app=web,tier in (a, b),!canary``.

Upstream: k8s.io/apimachinery pkg/labels Parse.
"""

from __future__ import annotations

import re

from kplan.api.labels import InvalidSelector, Requirement, Selector, new_requirement, selector_of

_COMMA = re.compile(r",(?![^(]*\))")
_KEY = r"[^\s=!,()]+"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s+\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([^\s=!,()]*)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")


def parse_selector(text: str) -> Selector:
    """Parse a selector; an empty text matches everything.

    Raises InvalidSelector for a text that ``kubectl -l`` refuses.
    """
    if not text.strip():
        return Selector()
    return selector_of(_requirement(part.strip()) for part in _COMMA.split(text))


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        key, operator, values = match.groups()
        chosen = [value.strip() for value in values.split(",")]
        return new_requirement(key, "In" if operator == "in" else "NotIn", chosen)
    if match := _EQUAL.fullmatch(part):
        key, operator, value = match.groups()
        return new_requirement(key, "NotIn" if operator == "!=" else "In", [value])
    if match := _EXISTS.fullmatch(part):
        return new_requirement(match[2], "DoesNotExist" if match[1] else "Exists", [])
    raise InvalidSelector(f"cannot read {part!r} as a part of a label selector")
