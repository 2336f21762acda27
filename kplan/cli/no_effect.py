"""Options that do nothing beside others: told in a line each, and passed over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kplan.cli.faults import say
from kplan.errors import UsageError

Given = Mapping[str, Any]
"""Parameter -> its value, of all parameters of a command."""

_WHICH_CLUSTER = ("kubeconfig", "context", "cluster")
_SWEEPS = ("runs", "each", "by", "headroom")


@dataclass(frozen=True, slots=True)
class Rule:
    """Options that have no effect where something else holds."""

    options: tuple[str, ...]  #: names of parameters
    holds: Callable[[Given], bool]
    because: Callable[[Given], str]


def _source(given: Given) -> str:
    """Return the file that the cluster is read from; empty for a live one. `snapshot show FILE` names it besides."""
    return str(given.get("snapshot") or given.get("file") or "")


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
        lambda given: bool(_source(given)),
        lambda given: f"the cluster is read from {_source(given)}",
    ),
    Rule(
        ("workers", "dask"),
        lambda given: not any(given.get(name) for name in _SWEEPS),
        lambda given: (
            "there is one question, "
            f"{' or '.join(f'--{name}' for name in _SWEEPS if name in given)} would make many of it"
        ),
    ),
    Rule(
        ("seed",),
        lambda given: given.get("ties") in ("name", "scheduler") and given.get("runs") is None,
        lambda given: f"--ties {given['ties']} draws nothing",
    ),
    Rule(
        ("start_index",),
        lambda given: given.get("sampling") == "all",
        lambda _given: "every node is looked at without --sampling as-configured",
    ),
    Rule(
        ("all_namespaces", "selector"),
        lambda given: bool(given.get("what")) and "all_namespaces" in given and "queue" not in given,
        lambda _given: "what is meant is named",
    ),
    Rule(("top",), lambda given: bool(given.get("all_nodes")), lambda _given: "--all-nodes shows all"),
    Rule(
        ("max_rounds", "recreate", "rollout"),
        lambda given: bool(given.get("queue")),
        lambda _given: "--queue tries no pod",
    ),
)


def without_effect(given: Given, stood: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line that do nothing, each with why.

    Parameters
    ----------
    stood : parameters that stood on the command line
    """
    for rule in RULES:
        names = [name for name in rule.options if name in stood]
        if names and rule.holds(given):
            yield from ((name, rule.because(given)) for name in names)


def pass_over(context: Any, stood: Collection[str]) -> None:
    """Tell of options that do nothing, unless nothing is to be told, and let them have their defaults.

    Raises UsageError where a command line names a live cluster and only the environment a file: nobody sees the
    environment, so an answer about the file would pass for one about the cluster.
    """
    named = next((name for name in _WHICH_CLUSTER if name in stood), "")
    if named and "snapshot" not in stood and context.params.get("snapshot"):
        option = f"--{named}"
        raise UsageError(
            f"{option} names a live cluster, and KPLAN_SNAPSHOT a file: {context.params['snapshot']}",
            hint=f"unset KPLAN_SNAPSHOT to ask the cluster, or leave {option} out to ask the file",
        )
    parameters = {parameter.name: parameter for parameter in context.command.params}
    for name, because in list(without_effect(context.params, stood)):
        parameter = parameters[name]
        if not context.params.get("quiet"):
            tell_no_effect(max(parameter.opts, key=len), because)
        context.params[name] = parameter.get_default(context)


def tell_no_effect(option: str, because: str) -> None:
    """Say that an option does nothing, and why."""
    say(f"warning: {option} has no effect: {because}")
