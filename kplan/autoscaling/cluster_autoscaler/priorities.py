"""The priorities of groups that the priority expander reads from a ConfigMap.

The patterns are Go's regular expressions, which the CEL library evaluates in the same way, in linear time.

Upstream: cluster-autoscaler expander/priority/priority.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from kplan.documents.base import InputWarning
from kplan.reading.yaml_text import YamlProblem, read_yaml
from kplan.snapshot.model import Snapshot

CONFIG_MAP = "cluster-autoscaler-priority-expander"

Priorities = Mapping[int, tuple[str, ...]]
"""Priority -> patterns of the names of groups."""


def priorities_of(snapshot: Snapshot, warnings: list[InputWarning]) -> Priorities | None:
    """Return the priorities; None where there are none that can be read, with the reason in `warnings`."""
    from kplan.cel import CelError

    for config_map in snapshot.config_maps:
        if config_map.metadata.name == CONFIG_MAP:
            try:
                return _parsed(config_map.data.priorities)
            except (ValueError, TypeError, CelError) as error:
                name = f"ConfigMap/{config_map.metadata.key}"
                message = f"its priorities cannot be read, so the expander filters nothing: {error}"
                warnings.append(InputWarning("PriorityConfigMapInvalid", name, message[:500]))
                return None
    return None


def matches(name: str, pattern: str) -> bool:
    """Return whether a pattern is in a name; raises CelError for a pattern that is none."""
    from kplan.cel.library import evaluate

    return evaluate("name.matches(pattern)", name=name, pattern=pattern) is True


def _parsed(text: str) -> dict[int, tuple[str, ...]]:
    try:
        documents = list(read_yaml(text.encode(), CONFIG_MAP))
    except YamlProblem as error:
        raise ValueError(str(error)) from None
    content = documents[0].value() if documents else None
    if not isinstance(content, Mapping):
        raise TypeError("no priorities")
    priorities: dict[int, tuple[str, ...]] = {}
    for priority, patterns in content.items():
        if not isinstance(patterns, list) or any(not isinstance(pattern, str) for pattern in patterns):
            raise TypeError(f"priority {priority} has no list of patterns")
        for pattern in patterns:
            matches("", pattern)
        priorities[int(priority)] = tuple(patterns)
    return priorities
