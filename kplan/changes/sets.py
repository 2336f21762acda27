"""Sets of changes: what kinds they are of, how much they disturb, and in which order they are carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, get_args

from msgspec.structs import replace

from kplan.changes import remedy as r
from kplan.changes import values as c
from kplan.changes.limits import LoosenBudget, Pool, RaiseQuota
from kplan.errors import UsageError

Kind = Literal[
    "wait",
    "uncordon",
    "moves",
    "budgets",
    "quotas",
    "pools",
    "nodes",
    "scale",
    "requests",
    "selectors",
    "tolerations",
    "rules",
    "names",
    "priority",
]
"""What may be done: wait for nodes that are being set up, uncordon nodes, move running pods, let disruption budgets
allow more for that, raise quotas that keep replicas away, let an autoscaler add more, add nodes by hand, scale
workloads down, and change what pods say: requests, conditions on node labels, tolerations, rules about other pods,
names that are misspelt, and their priority class."""

KINDS: tuple[Kind, ...] = get_args(Kind)
CHANGES = "changes"
Changes = tuple[c.Change, ...]

_OF_CHANGE: Mapping[type, tuple[Kind, int]] = {
    c.AwaitNodes: ("wait", 0),
    Pool: ("pools", 0),
    LoosenBudget: ("budgets", 0),
    RaiseQuota: ("quotas", 0),
    c.Patch: ("requests", 1),
    c.Scale: ("scale", 2),
    c.Uncordon: ("uncordon", 3),
    c.AddNodes: ("nodes", 4),
    c.Move: ("moves", 5),
}
"""What kind each is of, but for patches, and in which order they are made: what pods say changes before nodes come, so
that no pod takes a new node that it does not need then."""

_KIND_OF_REMEDY: Mapping[type[r.RemedyBase], Kind] = {
    r.LowerRequest: "requests",
    r.CorrectSelector: "selectors",
    r.TolerateTaint: "tolerations",
    r.RelaxRule: "rules",
    r.DropHostPorts: "rules",
    r.HonorPolicy: "rules",
    r.SearchNamespace: "rules",
    r.CorrectName: "names",
    r.RaisePriority: "priority",
}


PATCHES: tuple[Kind, ...] = tuple(dict.fromkeys(_KIND_OF_REMEDY.values()))  #: kinds of changes of what pods say


def kinds_of(changes: Iterable[c.Change]) -> tuple[Kind, ...]:
    """Return the kinds of changes that remedies are made of: of what one changes of pods there may be several."""
    kinds: dict[Kind, None] = {}
    for change in changes:
        if isinstance(change, c.Patch):
            kinds |= dict.fromkeys(_KIND_OF_REMEDY[type(remedy)] for remedy in r.parts_of(change.remedy))
        else:
            kinds[_OF_CHANGE[type(change)][0]] = None
    return tuple(kinds)


def may_be(remedy: r.RemedyBase, kinds: Collection[Kind]) -> bool:
    """Tell whether a remedy changes nothing that pods say, or only what is of these kinds."""
    return not is_patched(remedy) or _KIND_OF_REMEDY[type(remedy)] in kinds


def is_patched(remedy: r.RemedyBase) -> bool:
    """Tell whether a remedy changes what pods say."""
    return type(remedy) in _KIND_OF_REMEDY


def is_relaxed(change: c.Change) -> bool:
    """Tell whether a change drops a condition on node labels."""
    remedy = change.remedy if isinstance(change, c.Patch) else None
    return isinstance(remedy, r.CorrectSelector) and remedy.change.to is None


def disturbance(changes: Iterable[c.Change]) -> int:
    """Return how much changes disturb, summed; only the order of these numbers matters.

    The numbers are in the order in which an expert tries things, `kplan.changes.remedy.WEIGHTS`: to wait for a node
    that is being set up counts nothing, a misspelt name or label 1, a node that is uncordoned 1, a pod that is
    moved 2, a quota that allows more 4, a pool or group that may grow 4, a new node 5, a budget that allows more 6,
    a condition on where pods run that is relaxed 6, a higher priority class 8, a lower request 9: what changes
    pods, with 1 more for every running pod that is replaced. A workload that runs fewer replicas counts 8, with 2
    more for each of them that runs and 6 for each that waits: to give up a pod is never less than to add a node for
    it.
    """
    return sum(change.weight for change in changes)


LEAST: Mapping[Kind, int] = {
    "wait": 0,
    "names": 1,
    "selectors": 1,
    "uncordon": 1,
    "moves": 2,
    "quotas": 4,
    "pools": 4,
    "nodes": 5,
    "budgets": 6,
    "tolerations": 6,
    "rules": 1,
    "scale": 8,
    "priority": 8,
    "requests": 9,
}
"""How much a change of a kind disturbs at least."""


def new_nodes(changes: Iterable[c.Change]) -> int:
    return sum(change.nodes for change in changes if isinstance(change, c.AddNodes))


def by_rank(changes: Iterable[c.Change]) -> Changes:
    """Return changes in the order in which they are carried out; moves in their own order."""
    return tuple(sorted(changes, key=lambda change: _OF_CHANGE[type(change)][1]))


def extended(changes: Changes, more: Changes) -> Changes:
    """Return changes with further ones in their order; of one part of a pool or group the changes become one."""
    joined = list(changes)
    for change in more:
        if change in joined:
            continue
        if isinstance(change, Pool):
            before = next((one for one in joined if isinstance(one, Pool) and one.part == change.part), None)
            if before is not None:
                joined.remove(before)
                joined.append(before.joined(change))
                continue
        joined.append(change)
    return by_rank(joined)


def with_joined_moves(changes: Iterable[c.Change]) -> Changes:
    """Return changes of which moves from one node that follow each other are one."""
    joined: list[c.Change] = []
    for change in changes:
        last = joined[-1] if joined else None
        if isinstance(change, c.Move) and isinstance(last, c.Move) and change.node == last.node:
            joined[-1] = replace(last, pods=(*last.pods, *change.pods))
        else:
            joined.append(change)
    return tuple(joined)


def allowed_kinds(only: Collection[str], without: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds of changes that may be made, ``changes`` for all of what pods say; raises UsageError."""
    known = ", ".join((*KINDS, CHANGES))
    unknown = [kind for kind in (*only, *without) if kind not in (*KINDS, CHANGES)]
    if unknown:
        raise UsageError(f"no kind of action: {', '.join(unknown)}", hint=f"choose from {known}")
    chosen, left_out = _expanded(only), _expanded(without)
    kinds = tuple(kind for kind in KINDS if (not only or kind in chosen) and kind not in left_out)
    if not kinds:
        raise UsageError("no kind of action is left", hint=f"choose from {known}")
    return kinds


def _expanded(kinds: Collection[str]) -> frozenset[str]:
    return frozenset((*kinds, *(PATCHES if CHANGES in kinds else ())))
