"""Sets of changes: what kinds they are of, how much they disturb, and in which order they are carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, get_args

from msgspec.structs import replace

from kplan.changes import remedy as r
from kplan.changes.values import AddNodes, Change, LoosenBudget, Move, Patch, Pool, Scale, Uncordon
from kplan.errors import UsageError

Kind = Literal[
    "uncordon", "moves", "budgets", "pools", "nodes", "scale", "requests", "selectors", "tolerations", "rules", "names"
]
"""What may be done: uncordon nodes, move running pods, let disruption budgets allow more for that, let an autoscaler
add more, add nodes by hand, scale workloads down, and change what pods say: requests, conditions on node labels,
tolerations, rules about other pods, and names that are misspelt."""

KINDS: tuple[Kind, ...] = get_args(Kind)
CHANGES = "changes"

Changes = tuple[Change, ...]

_KIND_OF_CHANGE: Mapping[type, Kind] = {
    Uncordon: "uncordon",
    AddNodes: "nodes",
    Pool: "pools",
    LoosenBudget: "budgets",
    Move: "moves",
    Scale: "scale",
}
_KIND_OF_REMEDY: Mapping[type[r.RemedyBase], Kind] = {
    r.LowerRequest: "requests",
    r.CorrectSelector: "selectors",
    r.TolerateTaint: "tolerations",
    r.RelaxRule: "rules",
    r.HonorPolicy: "rules",
    r.SearchNamespace: "rules",
    r.CorrectName: "names",
}

# What pods say changes before nodes come, so that no pod takes a new node that it does not need then.
_RANKS: Mapping[type, int] = {Pool: 0, LoosenBudget: 0, Patch: 1, Scale: 2, Uncordon: 3, AddNodes: 4, Move: 5}


def kind_of(change: Change) -> Kind:
    """Return the kind of a change that remedies are made of."""
    return _KIND_OF_REMEDY[type(change.remedy)] if isinstance(change, Patch) else _KIND_OF_CHANGE[type(change)]


def is_patched(remedy: r.RemedyBase) -> bool:
    """Tell whether a remedy changes what pods say."""
    return type(remedy) in _KIND_OF_REMEDY


def disturbance(changes: Iterable[Change]) -> int:
    """Return how much changes disturb, summed; only the order of these numbers matters.

    A node that is uncordoned counts 1, a pod that is moved 2, a misspelt name 3, another change of what pods say 4,
    each with 1 more for every running pod that is replaced, a new node 5, a pool or group that may grow 5, a budget
    that allows more 6, and a workload that runs fewer replicas 8, with 2 more for each of them that runs and 6 for each
    that waits: to give up a pod is never less than to add a node for it.
    """
    return sum(change.weight for change in changes)


def new_nodes(changes: Iterable[Change]) -> int:
    """Return how many nodes changes add."""
    return sum(change.nodes for change in changes if isinstance(change, AddNodes))


def in_order(changes: Iterable[Change]) -> Changes:
    """Return changes in the order in which they are carried out; moves in their own order."""
    return tuple(sorted(changes, key=lambda change: _RANKS[type(change)]))


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
    return in_order(joined)


def with_joined_moves(changes: Iterable[Change]) -> Changes:
    """Return changes of which moves from one node that follow each other are one."""
    joined: list[Change] = []
    for change in changes:
        last = joined[-1] if joined else None
        if isinstance(change, Move) and isinstance(last, Move) and change.node == last.node:
            joined[-1] = replace(last, pods=(*last.pods, *change.pods))
        else:
            joined.append(change)
    return tuple(joined)


def allowed_kinds(only: Collection[str], without: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds of changes that may be made; raises UsageError for an unknown one, and where none is left.

    ``changes`` stands for all changes of what pods say.
    """
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
    return frozenset((*kinds, *(_KIND_OF_REMEDY.values() if CHANGES in kinds else ())))
