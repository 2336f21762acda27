"""The numbers and switches of the package are those that somebody read and held to be right.

``golden/values.txt`` has, by room, the numbers other than 0 and the switches that are on among constants and defaults,
the structs that may be changed, and the documents that take fields by position. Whoever changes one says with
``--update-golden`` that it was meant.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest

from kplan.facts import Document
from tests.conftest import GOLDEN
from tests.test_patterns import modules


def test_values_are_those_that_were_read(request: pytest.FixtureRequest) -> None:
    named = ((module.__name__.split(".")[1], module) for module in modules())
    lines = sorted(f"{room}: {line}\n" for room, module in named for line in _of_module(module))
    golden = GOLDEN / "values.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text("".join(lines), encoding="utf-8")
    assert lines == golden.read_text(encoding="utf-8").splitlines(keepends=True)


def _of_module(module: ModuleType) -> Iterator[str]:
    for node in ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield from _of_class(vars(module)[node.name])
        elif isinstance(node, ast.Assign | ast.AnnAssign) and any(_is_number(part) for part in ast.walk(node)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)):
                yield from _lines(name, vars(module).get(name))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node) and "__getattr__" not in vars(module):
            names = [alias.name for part in node.body for alias in getattr(part, "names", ())]
            yield from (f"{name} is loaded for more than types" for name in names if name in vars(module))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _of_class(kind: type) -> Iterator[str]:
    given = dict(getattr(kind, "__members__", vars(kind)))
    if issubclass(kind, msgspec.Struct):
        # Fields that have a default are the last.
        given |= zip(kind.__struct_fields__[::-1], kind.__struct_defaults__[::-1], strict=False)
        if not kind.__struct_config__.frozen:
            yield f"{kind.__name__} may be changed"
        if issubclass(kind, Document) and kind.__match_args__:
            yield f"{kind.__name__} takes {', '.join(kind.__match_args__)}"
    for name, value in given.items():
        if not (name.startswith(("__", "_is_")) or isinstance(value, msgspec.Struct)):
            yield from _lines(f"{kind.__name__}.{name}", value)


def _lines(name: str, value: Any) -> Iterator[str]:
    match value:
        case int() | float() if value:
            yield f"{name} = {value}"
        case Mapping():
            for key, part in value.items():
                yield from _lines(f"{name}[{getattr(key, '__name__', key)}]", part)
        case msgspec.Struct():
            yield from _lines(name, msgspec.structs.asdict(value))
        case tuple() if value and all(isinstance(part, int | float) for part in value):
            yield f"{name} = {tuple(value)}"
        case tuple() | list() | np.ndarray():
            yield from _lines(name, dict(enumerate(value)))
