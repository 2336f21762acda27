"""Options as they stand on the command line: in which order, and which have no effect beside others.

Changes of a cluster follow each other, whichever options ask for them; Typer collects the values of each option.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from kplan.cli.messages import say
from kplan.cli.options import SNAPSHOT
from kplan.errors import UsageError

_ORDER: ContextVar[tuple[str, ...]] = ContextVar("order of options", default=())
_SNAPSHOT = "snapshot"


def remember_order(context: Any, parameters: Iterable[Any]) -> None:
    """Remember the options of the command line; raises UsageError for more than one cluster if it can be but one."""
    order = [(parameter.name or "", parameter) for parameter in parameters]
    clusters = [parameter for name, parameter in order if name == _SNAPSHOT]
    if len(clusters) > 1 and not clusters[0].multiple and not context.resilient_parsing:
        message = f"--snapshot is there {len(clusters)} times, but {context.command_path} is about one cluster"
        raise UsageError(message, hint="name one; kplan place tells which of several clusters has room")
    _ORDER.set(tuple(name for name, _ in order))


def in_order(options: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the values of options in the order of the command line, each with the name of its option."""
    left = {name: iter(values) for name, values in options.items()}
    for name in _ORDER.get():
        if name in left:
            yield from ((name, value) for value in (next(left[name], None),) if value is not None)
    for name, values in left.items():
        yield from ((name, value) for value in values)


Values = Mapping[str, Any]  #: parameter -> its value, for all parameters of a command

_WHICH_CLUSTER = ("kubeconfig", "context", "cluster")
_SWEEPS = {"runs": "--runs", "separately": "--each", "by": "--by", "headroom": "--headroom"}
"""Parameter -> option that asks many questions."""


def _source(options: Values) -> str:
    """Return the files of the cluster: of an option, the environment or an argument; empty for a live cluster."""
    named = options.get("snapshot") or (os.environ.get(SNAPSHOT) if "snapshot" in options else options.get("file"))
    return ", ".join(named) if isinstance(named, list) else str(named or "")


_OF_LIVE = (
    *_WHICH_CLUSTER,
    *("user", "as_user", "as_group", "request_timeout", "insecure_skip_tls_verify", "namespaces"),
)
_OF_AUTOSCALER = ("autoscaler", "node_groups", "instance_types", "karpenter_version")


def without_effect(options: Values) -> Iterator[tuple[Sequence[str], str]]:
    """Yield parameters that have no effect beside the values of others, and why."""
    if source := _source(options):
        yield _OF_LIVE, f"the cluster is read from {source}"
    many = [option for name, option in _SWEEPS.items() if name in options]
    if many and not any(options.get(name) for name in _SWEEPS):
        yield ("workers", "dask"), f"there is only one question, {' or '.join(many)} would make many of it"
    if options.get("ties") in ("name", "scheduler") and options.get("runs") is None:
        yield ("seed",), f"--ties {options['ties']} draws nothing"
    if options.get("sampling") == "all":
        yield ("start_index",), "every node is evaluated without --sampling as-configured"
    if options.get("what") and "all_namespaces" in options and "queue" not in options:
        yield ("all_namespaces", "selector"), "the arguments name the pods"
    if options.get("all_nodes"):
        yield ("top",), "--all-nodes shows all"
    if options.get("queue"):
        yield ("max_rounds", "recreate", "rollout"), "--queue tries no pod"
    counts = [name for name in ("headroom", "preempt") if "headroom" in options and options.get(name)]
    if counts and options.get("autoscaler") != "none":
        yield _OF_AUTOSCALER, f"--{counts[0]} counts on the present nodes"


def pass_over(context: Any) -> None:
    """Warn of options without effect, unless ``--quiet``, and set them to their defaults.

    Raises UsageError where the command line names a live cluster but the environment a file: an answer about the file
    would look like one about the cluster.
    """
    present = _ORDER.get()
    named = next((name for name in _WHICH_CLUSTER if name in present), "")
    if named and "snapshot" not in present and _source(context.params):
        option = f"--{named}"
        raise UsageError(
            f"{option} names a live cluster, and {SNAPSHOT} a file: {_source(context.params)}",
            hint=f"unset {SNAPSHOT} to ask the cluster, or leave {option} out to ask the file",
        )
    parameters = {parameter.name: parameter for parameter in context.command.params}
    for names, because in list(without_effect(context.params)):
        for name in (name for name in names if name in present):
            parameter = parameters[name]
            if not context.params.get("quiet"):
                tell_no_effect(max(parameter.opts, key=len), because)
            context.params[name] = parameter.get_default(context)


def tell_no_effect(option: str, because: str) -> None:
    say(f"warning: {option} has no effect: {because}")
