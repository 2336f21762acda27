"""Options without effect beside others: kplan warns of each, and ignores it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kplan.cli.faults import say
from kplan.cli.options import SNAPSHOT
from kplan.errors import UsageError

Options = Mapping[str, Any]
"""Parameter -> its value, for all parameters of a command."""

_WHICH_CLUSTER = ("kubeconfig", "context", "cluster")
_SWEEPS = {"runs": "--runs", "separately": "--each", "by": "--by", "headroom": "--headroom"}
"""Parameter -> option that asks many questions."""


class Rule(NamedTuple):
    """Options that have no effect under a condition, and why."""

    options: tuple[str, ...]  #: names of parameters
    holds: Callable[[Options], bool]
    because: Callable[[Options], str]


def _source(options: Options) -> str:
    """Return the files of the cluster: of an option, the environment or an argument; empty for a live cluster."""
    named = options.get("snapshot") or (os.environ.get(SNAPSHOT) if "snapshot" in options else options.get("file"))
    return ", ".join(named) if isinstance(named, list) else str(named or "")


def _on_present_nodes(options: Options) -> str:
    """Return the option of capacity with which no node comes; empty for none."""
    counts = ("headroom", "preempt") if "headroom" in options else ()
    return next((f"--{name}" for name in counts if options.get(name)), "")


RULES = (
    Rule(
        (
            "kubeconfig",
            "context",
            "cluster",
            "user",
            "as_user",
            "as_group",
            "request_timeout",
            "insecure_skip_tls_verify",
            "namespaces",
        ),
        lambda options: bool(_source(options)),
        lambda options: f"the cluster is read from {_source(options)}",
    ),
    Rule(
        ("workers", "dask"),
        lambda options: not _SWEEPS.keys().isdisjoint(options) and not any(options.get(name) for name in _SWEEPS),
        lambda options: (
            "there is only one question, "
            f"{' or '.join(option for name, option in _SWEEPS.items() if name in options)} would make many of it"
        ),
    ),
    Rule(
        ("seed",),
        lambda options: options.get("ties") in ("name", "scheduler") and options.get("runs") is None,
        lambda options: f"--ties {options['ties']} draws nothing",
    ),
    Rule(
        ("start_index",),
        lambda options: options.get("sampling") == "all",
        lambda _options: "every node is evaluated without --sampling as-configured",
    ),
    Rule(
        ("all_namespaces", "selector"),
        lambda options: bool(options.get("what")) and "all_namespaces" in options and "queue" not in options,
        lambda _options: "the arguments name the pods",
    ),
    Rule(("top",), lambda options: bool(options.get("all_nodes")), lambda _options: "--all-nodes shows all"),
    Rule(
        ("max_rounds", "recreate", "rollout"),
        lambda options: bool(options.get("queue")),
        lambda _options: "--queue tries no pod",
    ),
    Rule(
        ("autoscaler", "node_groups", "instance_types", "karpenter_version"),
        lambda options: bool(_on_present_nodes(options)) and options.get("autoscaler") != "none",
        lambda options: f"{_on_present_nodes(options)} counts on the present nodes",
    ),
)


def without_effect(options: Options, present: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line that have no effect, each with the reason.

    Parameters
    ----------
    present : parameters on the command line
    """
    for rule in RULES:
        names = [name for name in rule.options if name in present]
        if names and rule.holds(options):
            yield from ((name, rule.because(options)) for name in names)


def pass_over(context: Any, present: Collection[str]) -> None:
    """Warn of options without effect, unless ``--quiet``, and set them to their defaults.

    Raises UsageError where the command line names a live cluster but the environment a file: an answer about the file
    would look like one about the cluster.
    """
    named = next((name for name in _WHICH_CLUSTER if name in present), "")
    if named and "snapshot" not in present and _source(context.params):
        option = f"--{named}"
        raise UsageError(
            f"{option} names a live cluster, and {SNAPSHOT} a file: {_source(context.params)}",
            hint=f"unset {SNAPSHOT} to ask the cluster, or leave {option} out to ask the file",
        )
    parameters = {parameter.name: parameter for parameter in context.command.params}
    for name, because in list(without_effect(context.params, present)):
        parameter = parameters[name]
        if not context.params.get("quiet"):
            tell_no_effect(max(parameter.opts, key=len), because)
        context.params[name] = parameter.get_default(context)


def tell_no_effect(option: str, because: str) -> None:
    """Warn that an option has no effect, and why."""
    say(f"warning: {option} has no effect: {because}")
