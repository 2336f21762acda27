"""Which running pods take the room of a waiting one: those that have to go, or to run elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from kplan.api.kinds import DAEMON_SET
from kplan.api.meta import controller_of
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import NOWHERE
from kplan.engine.details import ForeignAntiAffinity, TakenHostPort
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.remedies.trials import NearMisses
from kplan.rules.resources import PODS

_MOST_LOOKED_AT, _MOST_NODES, _MOST_PODS, _MOST_TOGETHER, _MOST_GROUPS = 400, 40, 10, 4, 24

Rows = tuple[int, ...]
"""Rows of pods."""


def movable(session: Session, pods: Iterable[int]) -> list[int]:
    """Return the running pods that a controller creates again, and that may run on other nodes."""
    infos, node_of = session.cluster.pods.infos, session.cluster.node_of
    rows = []
    for row in pods:
        pod = infos[row].pod
        owner = controller_of(pod.metadata)
        is_fixed = owner is None or owner.kind in (DAEMON_SET, "Node") or pod.metadata.annotations.mirror is not None
        if not is_fixed and node_of[row] != NOWHERE and not infos[row].is_terminating:
            rows.append(row)
    return rows


def making_room(
    session: Session, waiting: Iterable[tuple[int, CycleResult]], may_go: Callable[[Iterable[int]], Iterable[int]]
) -> list[Rows]:
    """Return groups of pods without which a waiting pod has a node, those of the fewest pods and the least room first.

    `waiting`: rows of pods that wait, each with the scheduler's decision, while it is live. `may_go`: returns those of
    some pods that may go.
    """
    cluster = session.cluster
    ranked: list[tuple[int, float, Rows]] = []
    for row, result in waiting:
        if result.filter is None or result.filter.pre_filter_status is not None:
            continue
        misses = NearMisses(result.filter)
        n_nodes = 0
        for node, missing in _closest(session, row, misses.rows[misses.only("NodeResourcesFit")]):
            pods = list(may_go(cluster.pods_on[node]))
            ranked += _enough(session, missing, pods)
            n_nodes += bool(pods)
            if n_nodes == _MOST_NODES:
                break
        ranked += (
            (len(group), 0.0, group) for group in _by_rules(session, misses) if len(group) == len([*may_go(group)])
        )
    infos = cluster.pods.infos
    ranked.sort(key=lambda entry: (entry[0], entry[1], [infos[pod].key for pod in entry[2]]))
    return list(dict.fromkeys(group for _, _, group in ranked if group))[:_MOST_GROUPS]


def _by_rules(session: Session, misses: NearMisses) -> Iterator[Rows]:
    """Yield the pods that alone make a node reject the pod by a port or a rule of theirs."""
    for plugin in ("NodePorts", "InterPodAffinity"):
        for position in misses.only(plugin)[:_MOST_NODES].tolist():
            for detail in misses.details_at(plugin, position):
                if isinstance(detail, TakenHostPort | ForeignAntiAffinity) and not detail.and_more:
                    rows = [session.find(key) for key in detail.pods[:_MOST_TOGETHER]]
                    yield tuple(row for row in rows if row is not None)


def _closest(session: Session, row: int, rows: RowArray) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the nodes that lack least for a pod, each with what is missing there, by resource."""
    cluster = session.cluster
    nodes = cluster.nodes
    missing: dict[str, Int64Array] = {}
    lacks = np.zeros(len(rows))
    for resource, amount in {**cluster.pods.infos[row].requests, PODS: 1}.items():
        if amount:
            total = nodes.allowed_pods if resource == PODS else nodes.allocatable(resource)
            used = cluster.pod_count if resource == PODS else cluster.requested(resource)
            missing[resource] = np.maximum(amount + used[rows] - total[rows], 0)
            lacks = np.maximum(lacks, missing[resource] / amount)
    for position in np.argsort(lacks, kind="stable")[:_MOST_LOOKED_AT].tolist():
        lacking = {name: int(column[position]) for name, column in missing.items() if column[position]}
        if lacking:
            yield int(rows[position]), lacking


def _enough(session: Session, missing: Mapping[str, int], pods: Sequence[int]) -> Iterator[tuple[int, float, Rows]]:
    """Yield the smallest groups of pods of a node without which a pod has enough of every resource there."""
    infos = session.cluster.pods.infos
    frees = {pod: {name: _freed(infos[pod].requests, name) for name in missing} for pod in pods}
    sizes = {pod: sum(freed[name] / missing[name] for name in missing) for pod, freed in frees.items()}
    useful = sorted((pod for pod in pods if sizes[pod]), key=lambda pod: (-min(sizes[pod], 1), sizes[pod]))
    for number in range(1, _MOST_TOGETHER + 1):
        enough = [
            (number, sum(sizes[pod] for pod in group), group)
            for group in combinations(useful[:_MOST_PODS], number)
            if all(sum(frees[pod][name] for pod in group) >= amount for name, amount in missing.items())
        ]
        if enough:
            yield from sorted(enough, key=lambda entry: entry[:2])[:_MOST_TOGETHER]
            return


def _freed(requests: Mapping[str, int], resource: str) -> int:
    return 1 if resource == PODS else requests.get(resource, 0)
