"""SchedulerConfigReport and SchedulerConfigCheck: a scheduler configuration as it takes effect, and what is wrong."""

from __future__ import annotations

from typing import Any, Literal

from kplan.config.effective import Difference
from kplan.documents.base import Head
from kplan.facts import Document, InputWarning


class GateState(Document, frozen=True, kw_only=True):
    """A feature gate.

    Attributes
    ----------
    stage : Alpha, Beta or GA
    locked : it cannot be changed
    """

    on: bool
    default: bool
    stage: str
    locked: bool


class SchedulerConfigReport(Head, frozen=True, kw_only=True):
    """The answer of kplan config show.

    Attributes
    ----------
    kubernetes_version : the release whose defaults hold
    feature_gates : those that scheduling depends on, as they are set
    configuration : a KubeSchedulerConfiguration, every default filled in
    """

    kind: Literal["SchedulerConfigReport"] = "SchedulerConfigReport"
    source: str
    kubernetes_version: str
    feature_gates: dict[str, GateState]
    configuration: dict[str, Any]
    differences: tuple[Difference, ...]
    warnings: tuple[InputWarning, ...]


class ConfigProblem(Document, frozen=True, kw_only=True):
    """A problem for which kube-scheduler refuses the configuration.

    Attributes
    ----------
    path : JSON path; empty where none is known
    line : line of the file; null where none is known
    hint : what to do about it; empty for none
    """

    path: str
    line: int | None
    message: str
    hint: str


class SchedulerConfigCheck(Head, frozen=True, kw_only=True):
    """The answer of kplan config check."""

    kind: Literal["SchedulerConfigCheck"] = "SchedulerConfigCheck"
    source: str
    valid: bool
    problems: tuple[ConfigProblem, ...]
    warnings: tuple[InputWarning, ...]
