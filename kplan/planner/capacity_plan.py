"""The answer of `kplan capacity`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kplan.errors import NotFoundError
from kplan.framework.session import Session
from kplan.planner.capacity import Fit, Template, fill
from kplan.planner.document import header, warnings_of
from kplan.planner.node_shapes import NodeShape, added_nodes, node_shapes
from kplan.planner.placement import Placement
from kplan.planner.utilisation import ZONE
from kplan.planner.verdict import DEFAULT_FAIL_ON, PREEMPTION, UNSCHEDULABLE, WARNING, Verdict
from kplan.snapshot.model import Snapshot

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

MAX_ADDED_NODES = 4096
"""More nodes of a shape than this are not tried."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Addition:
    """Nodes that would make the wanted replicas fit.

    Attributes
    ----------
    nodes : how many of the shape; None when no number of them helps
    """

    shape: NodeShape
    nodes: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"nodes": self.nodes, "shape": self.shape.to_dict()}


@dataclass(frozen=True)
class Capacity:
    """How many replicas fit.

    Attributes
    ----------
    wanted : number asked for, or None for as many as fit
    limit : number at which the count stopped in any case, or None
    stop : the decision about the first replica that did not fit, or None
    additions : what to add to fit all that is wanted; empty when they fit or none was wanted
    """

    planner: Planner = field(repr=False)
    templates: tuple[Template, ...]
    fit: Fit = field(repr=False)
    wanted: int | None
    limit: int | None
    stop: Placement | None
    session: Session = field(repr=False)
    additions: tuple[Addition, ...] = ()

    @property
    def is_enough(self) -> bool:
        """Whether all that was wanted fits."""
        return self.wanted is None or self.fit.total >= self.wanted

    def per_node(self) -> dict[str, dict[str, int]]:
        """Return replicas of each template on each node that has any, nodes by name."""
        names = self.session.cluster.nodes.names
        found: dict[str, dict[str, int]] = {}
        for (template, row), count in sorted(self.fit.placed.items(), key=lambda item: (item[0][1], item[0][0])):
            found.setdefault(names[row], {})[self.templates[template].name] = count
        return found

    def per_zone(self) -> dict[str, int]:
        """Return replicas in each zone, those on nodes without one under an empty name."""
        zones = self.session.cluster.nodes.label(ZONE)
        found: Counter[str] = Counter()
        for (_, row), count in self.fit.placed.items():
            code = int(zones.codes[row])
            found[zones.values[code] if code >= 0 else ""] += count
        return dict(sorted(found.items()))

    def verdict(self, fail_on: Sequence[str] | None = None) -> Verdict:
        """Hold the count against what was wanted."""
        wanted = tuple(DEFAULT_FAIL_ON["capacity"] if fail_on is None else fail_on)
        because: list[str] = []
        if not self.is_enough and UNSCHEDULABLE in wanted:
            because.append(f"{self.fit.total} of {self.wanted} replicas fit")
        if self.fit.evicted and PREEMPTION in wanted:
            because.append(f"{len(self.fit.evicted)} pods would be evicted")
        if WARNING in wanted:
            because += [f"{warning.object}: {warning.code}" for warning in self.planner.warnings]
        return Verdict(wanted, tuple(because))

    def to_dict(self, *, fail_on: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the CapacityReport document."""
        infos = self.session.cluster.pods.infos
        return {
            **header(self.planner, "CapacityReport"),
            "verdict": self.verdict(fail_on).to_dict(),
            "summary": {
                "fits": self.fit.total,
                "wanted": self.wanted,
                "limit": self.limit,
                "nodes": len({row for _, row in self.fit.placed}),
                "victims": len(self.fit.evicted),
            },
            "warnings": warnings_of(self.planner.warnings),
            "templates": [
                {"name": template.name, "share": template.share, "fits": count}
                for template, count in zip(self.templates, self.fit.counts, strict=True)
            ],
            "nodes": self.per_node(),
            "zones": self.per_zone(),
            "victims": [infos[pod].key for pod in self.fit.evicted],
            "stop": None if self.stop is None else self.stop.to_dict(),
            "toAdd": [addition.to_dict() for addition in self.additions],
        }


def measure(
    planner: Planner,
    templates: Sequence[Template],
    *,
    wanted: int | None = None,
    limit: int | None = None,
    preempt: bool = False,
    progress: Progress | None = None,
) -> Capacity:
    """Count how many replicas fit, and what to add when fewer fit than are wanted."""
    stop_at = limit if wanted is None else wanted if limit is None else min(wanted, limit)
    session = planner.session.fork()
    fit = fill(session, templates, limit=stop_at, preempt=preempt, progress=progress)
    stop = None if fit.stop is None else planner.placement_of(session, fit.stop)
    answer = Capacity(planner, tuple(templates), fit, wanted, limit, stop, session)
    if answer.is_enough or stop is None or wanted is None:
        return answer
    return dataclasses.replace(answer, additions=tuple(_additions(planner, templates, wanted, preempt=preempt)))


def _additions(planner: Planner, templates: Sequence[Template], wanted: int, *, preempt: bool) -> Iterable[Addition]:
    """Try each shape of node: the least number of them with which all replicas fit."""
    for shape in node_shapes(planner.world):

        def fits(n: int, shape: NodeShape = shape) -> int:
            session = planner.with_world(_grown(planner.world, shape, n)).session
            return fill(session, templates, limit=wanted, preempt=preempt).total

        yield Addition(shape, _least(fits, wanted))


def _least(fits: Callable[[int], int], wanted: int) -> int | None:
    """Search for the least number of nodes that is enough: doubling first, then halving the gap."""
    before, enough = fits(0), 1
    low = 0
    while (now := fits(enough)) < wanted:
        if now <= before or enough >= MAX_ADDED_NODES:
            return None
        low, before, enough = enough, now, min(enough * 2, MAX_ADDED_NODES)
    while enough - low > 1:
        middle = (low + enough) // 2
        low, enough = (low, middle) if fits(middle) >= wanted else (middle, enough)
    return enough


def _grown(world: Snapshot, shape: NodeShape, n: int) -> Snapshot:
    nodes, pods = added_nodes(shape, n, world)
    return dataclasses.replace(world, nodes=(*world.nodes, *nodes), pods=(*world.pods, *pods))


def without_nodes(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """Return the snapshot without some nodes and without what runs there.

    Raises
    ------
    NotFoundError
        When one of them is not in the snapshot.
    """
    unknown = sorted(set(names) - set(snapshot.node_by_name))
    if unknown:
        raise NotFoundError(f"the snapshot has no node {', '.join(unknown)}", hint="kplan snapshot show lists nodes")
    gone = set(names)
    return dataclasses.replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.metadata.name not in gone),
        pods=tuple(pod for pod in snapshot.pods if pod.spec.node_name not in gone),
    )
