"""Large sets, recorded or drawn: a sample by default, and all of them where KPLAN_ALL_RECORDED is set, as in CI."""

import ast
import gzip
import inspect
import json
import lzma
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from hypothesis import settings

T = TypeVar("T")

IS_WHOLE = bool(os.environ.get("KPLAN_ALL_RECORDED"))


def read_lines(path: Path) -> list[Any]:
    """Return the records of a compressed file, of which every line is a JSON document."""
    with (lzma if path.suffix == ".xz" else gzip).open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def sample(records: Sequence[T], one_of: int, first: int = 0) -> Sequence[T]:
    """Return one of so many records, or all in CI; other tests may take others as their first."""
    return records if IS_WHOLE else records[first % one_of :: one_of]


def examples(most: int) -> settings:
    """Return settings that draw so many examples in CI, and a tenth of them by default."""
    return settings(max_examples=most if IS_WHOLE else -(-most // 10))


@cache
def takers(module: ModuleType) -> set[str]:
    """Return what a module names that takes a sample, draws examples, or uses what does.

    Where its ``pytest_generate_tests`` does, all are.
    """
    uses: dict[str, set[str]] = {}
    for part in ast.parse(inspect.getsource(module)).body:
        # An argument may be a fixture.
        names = {getattr(node, "id", getattr(node, "attr", getattr(node, "arg", ""))) for node in ast.walk(part)}
        for target in getattr(part, "targets", [getattr(part, "target", part)]):
            uses.setdefault(getattr(target, "name", getattr(target, "id", "")), set()).update(names)
    found, taking = set[str](), {"IS_WHOLE", "sample", "tried", "given"}
    while taking > found:
        found |= taking
        taking = found | {name for name, used in uses.items() if used & found}
    return {*uses} if "pytest_generate_tests" in found else found
