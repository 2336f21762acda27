"""From a file to plain values: YAML or JSON, repeated fields found, bombs defused.

The general YAML loaders keep the last of two equal keys in silence; kube-scheduler refuses the file. So the tree is
built here, node by node, with the path of everything in hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from kplan.config.problems import Problems, child, go_value, index
from kplan.errors import ConfigError, Problem

__all__ = ["Document", "parse_text", "read_file"]

#: A configuration has a few kilobytes; what is larger than this is something else.
_MAX_BYTES: Final = 4 << 20
_MAX_VALUES: Final = 200_000
_MAX_DEPTH: Final = 100
_YAML: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a file, as plain values."""

    value: object
    problems: Problems
    others: int = 0  # documents of the file that follow it


@dataclass(slots=True)
class _Pairs:
    """A JSON object before its keys are known to be distinct."""

    pairs: list[tuple[str, Any]]


@dataclass(slots=True)
class _Budget:
    """What the tree may still grow by: aliases can turn a page of YAML into billions of values."""

    problems: Problems
    left: int = field(default=_MAX_VALUES)

    def spend(self, depth: int) -> None:
        self.left -= 1
        if self.left < 0 or depth > _MAX_DEPTH:
            message = "nested too deeply" if depth > _MAX_DEPTH else f"expands to more than {_MAX_VALUES} values"
            raise _refusal(self.problems.file, message, "remove the anchors and aliases (& and *)")


def read_file(path: str) -> Document:
    """Read the first document of a file, or of standard input for `-`.

    Raises
    ------
    ConfigError
        When the file is missing, is no text, or neither YAML nor JSON.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise _refusal(path, "is a directory", "name the file in it that holds the configuration") from error
    except FileNotFoundError as error:
        raise _refusal(path, "no such file", "give the path that kube-scheduler's --config names") from error
    except OSError as error:
        raise _refusal(path, error.strerror or "cannot be read", "check the path and its permissions") from error
    if len(data) > _MAX_BYTES:
        raise _refusal(path, f"has more than {_MAX_BYTES >> 20} MiB", "give a KubeSchedulerConfiguration")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refusal(path, "is not text in UTF-8", "give a KubeSchedulerConfiguration as YAML or JSON") from error
    return parse_text(text, "standard input" if path == "-" else path)


def parse_text(text: str, file: str) -> Document:
    """Read the first document of a text.

    Raises
    ------
    ConfigError
        When the text is empty, or neither YAML nor JSON.
    """
    if not text.strip():
        raise _refusal(file, "is empty", "begin with: apiVersion: kubescheduler.config.k8s.io/v1")
    problems = Problems(file)
    if text.lstrip().startswith("{"):
        try:
            loaded = json.loads(text, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError):
            pass  # YAML in braces looks alike; its parser also names the place of the mistake
        else:
            return Document(_from_json(loaded, "", 0, _Budget(problems)), problems)
    return _parse_yaml(text, problems)


def _parse_yaml(text: str, problems: Problems) -> Document:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_depth(yaml.parse(text, Loader=loader), problems.file)
        documents = list(yaml.compose_all(text, Loader=loader))
    except yaml.YAMLError as error:
        raise _yaml_refusal(text, problems.file, error) from error
    filled = [node for node in documents if not node.tag.endswith(":null")]
    if not filled:
        raise _refusal(problems.file, "holds comments only", "begin with: apiVersion: kubescheduler.config.k8s.io/v1")
    value = _from_yaml(filled[0], "", 0, _Budget(problems))
    return Document(value, problems, others=len(filled) - 1)


def _check_depth(events: Iterable[yaml.Event], file: str) -> None:
    """Refuse what is nested so deeply that composing it, which recurses in C, would end the process."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise _refusal(file, "nested too deeply", "give a KubeSchedulerConfiguration")


def _yaml_refusal(text: str, file: str, error: yaml.YAMLError) -> ConfigError:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return _refusal(file, f"is not YAML: {what}", "give a KubeSchedulerConfiguration as YAML or JSON")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    hint = "YAML indents with spaces: replace the tabs" if "\t" in line else "check the indentation and quotes there"
    return _refusal(file, f"line {mark.line + 1}, column {mark.column + 1}: {what}", hint)


def _from_json(value: object, path: str, depth: int, budget: _Budget) -> object:
    budget.spend(depth)
    if isinstance(value, _Pairs):
        built: dict[str, object] = {}
        for key, item in value.pairs:
            _keep(built, key, _from_json(item, child(path, key), depth + 1, budget), path, budget.problems)
        return built
    if isinstance(value, list):
        return [_from_json(item, index(path, i), depth + 1, budget) for i, item in enumerate(value)]
    return value


def _from_yaml(node: yaml.Node, path: str, depth: int, budget: _Budget) -> object:
    budget.spend(depth)
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, path, budget.problems)
    if isinstance(node, yaml.SequenceNode):
        return [_from_yaml(item, index(path, i), depth + 1, budget) for i, item in enumerate(node.value)]
    built: dict[str, object] = {}
    merged: dict[str, object] = {}
    for key_node, value_node in node.value:
        if key_node.tag == f"{_YAML}merge":
            sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for source in sources:
                fields = _from_yaml(source, path, depth + 1, budget)
                merged = {**fields, **merged} if isinstance(fields, dict) else merged
            continue
        scalar = isinstance(key_node, yaml.ScalarNode)
        key = key_node.value if scalar else str(_from_yaml(key_node, path, depth + 1, budget))
        _keep(built, key, _from_yaml(value_node, child(path, key), depth + 1, budget), path, budget.problems)
    return {**merged, **built}


def _keep(built: dict[str, object], key: str, value: object, path: str, problems: Problems) -> None:
    if key in built:
        place = child(path, key)
        problems.add(place, f"duplicate field {go_value(place)}", "keep one of the two")
    built[key] = value


def _scalar(node: yaml.ScalarNode, path: str, problems: Problems) -> object:
    """Give a YAML scalar the value that its tag says; dates and the like stay text, as they have no place here."""
    constructor = SafeConstructor()
    makers = {
        f"{_YAML}null": constructor.construct_yaml_null,
        f"{_YAML}bool": constructor.construct_yaml_bool,
        f"{_YAML}int": constructor.construct_yaml_int,
        f"{_YAML}float": constructor.construct_yaml_float,
    }
    if not node.tag.startswith(_YAML):
        problems.unreadable(path, f"unknown YAML tag {node.tag}", "remove the tag")
        return None
    maker = makers.get(node.tag)
    try:
        return maker(node) if maker else node.value
    except (ConstructorError, ValueError):
        problems.unreadable(path, f"{go_value(node.value)} is not a {node.tag.removeprefix(_YAML)}", "remove the tag")
        return None


def _refusal(file: str, message: str, hint: str) -> ConfigError:
    return ConfigError([Problem(message=message, path=file, hint=hint)])
