"""Success policies of indexed jobs (batch validateSuccessPolicy, validateIndexesFormat)."""

from __future__ import annotations

import re

from kplan.admission.validation.checks import Object, at_most_bytes, at_most_items, not_negative
from kplan.admission.validation.errors import Errors, GoStruct, invalid, required

_MOST_RULES = 20
_MOST_TEXT = 64 * 1024


class _Unreadable(ValueError):  # noqa: N818 - becomes a field error
    """Indexes that do not parse."""


def success_policy_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the success policy in the spec of a job."""
    if "successPolicy" not in spec:
        return
    rules, path = spec["successPolicy"].get("rules", []), f"{path}.successPolicy"
    if spec.get("completionMode") != "Indexed":
        keys = ("SucceededIndexes", "SucceededCount")
        shown = {"Rules": [GoStruct({key: rule.get(key[0].lower() + key[1:]) for key in keys}) for rule in rules]}
        yield invalid(path, shown, "requires indexed completion mode")
        return
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    yield from at_most_items(_MOST_RULES)(rules, f"{path}.rules")
    for index, rule in enumerate(rules):
        yield from _rule_errors(rule, spec.get("completions", 0), f"{path}.rules[{index}]")


def _rule_errors(rule: Object, completions: int, path: str) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    total = 0
    if count is None and indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        at = f"{path}.succeededIndexes"
        yield from at_most_bytes(_MOST_TEXT)(indexes, at)
        try:
            total = _count(indexes, completions)
        except _Unreadable as error:
            yield invalid(at, indexes, f"error parsing succeededIndexes: {error}")
    if count is not None:
        at, bound = f"{path}.succeededCount", "must be less than or equal to"
        yield from not_negative(count, at)
        if count > completions:
            yield invalid(at, count, f"{bound} {completions} (the number of specified completions)")
        if indexes is not None and count > total:
            what = "the number of indexes in the specified succeededIndexes field"
            yield invalid(at, count, f"{bound} {total} ({what})")


def _count(text: str, completions: int) -> int:
    """Count the indexes of ``1,3-5``, which must be in ascending order."""
    if not text:
        return 0
    last: int | None = None
    total = 0
    for part in text[:_MOST_TEXT].split(","):
        bounds = part.split("-")
        if len(bounds) > 2:
            words = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise _Unreadable(f'the fragment "{part}" {words}')
        numbers = [_index(bound, completions) for bound in bounds]
        if last is not None and last >= numbers[0]:
            raise _Unreadable(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise _Unreadable(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total


def _index(text: str, completions: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise _Unreadable(f'cannot convert string to integer for index: "{text}"')
    number = int(text)
    if number >= completions:
        raise _Unreadable(f'too large index: "{text}"')
    return number
