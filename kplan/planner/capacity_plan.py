"""The answer of `kplan capacity`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kplan.engine.resources import quantity_text, resource_order
from kplan.errors import NotFoundError
from kplan.framework.cycle import Outcome, schedule_pod
from kplan.framework.session import Session
from kplan.planner.capacity import Fit, Template, fill
from kplan.planner.document import header, warnings_of
from kplan.planner.explanation import Shown
from kplan.planner.node_shapes import NodeShape, added_nodes, node_shapes
from kplan.planner.placement import Placement
from kplan.planner.utilisation import ZONE
from kplan.planner.verdict import DEFAULT_FAIL_ON, GATED, PREEMPTION, UNSCHEDULABLE, WARNING, Verdict
from kplan.snapshot.model import Snapshot

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

MAX_ADDED_NODES = 4096
"""More nodes of a shape than this are not tried."""

MAX_SHAPES = 6
"""Of the shapes that may help, so many are tried, the most common first."""

_OWN_AFFAIRS = frozenset({"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit"})
"""Plugins whose rejection of an empty node stands, whatever else there is in the cluster."""

_FEW_NODES = 4
"""When one more node does not help, so many are tried before a shape is given up: some rules need several."""

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
    shapes_not_tried : so many shapes of nodes might help too, and were not tried
    """

    planner: Planner = field(repr=False)
    templates: tuple[Template, ...]
    fit: Fit = field(repr=False)
    wanted: int | None
    limit: int | None
    stop: Placement | None
    session: Session = field(repr=False)
    additions: tuple[Addition, ...] = ()
    shapes_not_tried: int = 0

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

    def per_zone(self) -> dict[str, dict[str, int]]:
        """Return replicas and nodes that have any in each zone; those without a zone under an empty name."""
        zones = self.session.cluster.nodes.label(ZONE)
        replicas: Counter[str] = Counter()
        rows: dict[str, set[int]] = {}
        for (_, row), count in self.fit.placed.items():
            code = int(zones.codes[row])
            zone = zones.values[code] if code >= 0 else ""
            replicas[zone] += count
            rows.setdefault(zone, set()).add(row)
        return {zone: {"replicas": replicas[zone], "nodes": len(rows[zone])} for zone in sorted(replicas)}

    def verdict(self, fail_on: Sequence[str] | None = None) -> Verdict:
        """Hold the count against what was wanted."""
        wanted = tuple(DEFAULT_FAIL_ON["capacity"] if fail_on is None else fail_on)
        because: list[str] = []
        if not self.is_enough and UNSCHEDULABLE in wanted:
            because.append(f"{self.fit.total} of {self.wanted} replicas fit")
        if self.fit.evicted and PREEMPTION in wanted:
            because.append(f"{len(self.fit.evicted)} pods would be evicted")
        if self.stop is not None and self.stop.outcome is Outcome.GATED and GATED in wanted:
            because.append(f"{self.stop.pod.key}: Gated")
        if WARNING in wanted:
            because += [f"{warning.object}: {warning.code}" for warning in self.planner.warnings]
        return Verdict(wanted, tuple(because))

    def to_dict(
        self,
        *,
        fail_on: Sequence[str] | None = None,
        nodes: Iterable[str] | Shown | None = None,
        exit_zero: bool = False,
    ) -> dict[str, Any]:
        """Return the CapacityReport document.

        Parameters
        ----------
        fail_on : what makes the verdict a failure; None for the defaults of `capacity`
        nodes : the nodes to tell about where the next replica does not fit; None for all
        exit_zero : the verdict is told, and does not count
        """
        infos = self.session.cluster.pods.infos
        stopped = self.fit.stopped_template
        return {
            **header(self.planner, "CapacityReport"),
            "verdict": self.verdict(fail_on).to_dict(exit_zero=exit_zero),
            "summary": {
                "fits": self.fit.total,
                "wanted": self.wanted,
                "limit": self.limit,
                "nodes": len({row for _, row in self.fit.placed}),
                "victims": len(self.fit.evicted),
            },
            "warnings": warnings_of(self.planner.warnings),
            "templates": [
                {
                    "name": template.name,
                    "share": template.share,
                    "fits": count,
                    "priority": template.replicas[0].priority,
                    "requests": _requests(template),
                }
                for template, count in zip(self.templates, self.fit.counts, strict=True)
            ],
            "nodes": self.per_node(),
            "zones": self.per_zone(),
            "victims": [infos[pod].key for pod in self.fit.evicted],
            "stop": None
            if self.stop is None or stopped is None
            else {"template": self.templates[stopped].name, "placement": self.stop.to_dict(nodes)},
            "toAdd": [addition.to_dict() for addition in self.additions],
            "shapesNotTried": self.shapes_not_tried,
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
    if answer.is_enough or wanted is None or stop is None or stop.outcome is not Outcome.UNSCHEDULABLE:
        return answer
    stopped = templates[fit.stopped_template or 0]
    shapes = [shape for shape in node_shapes(planner.world) if _can_help(planner, stopped, shape)]
    tried = tuple(_additions(planner, templates, shapes[:MAX_SHAPES], fit.total, wanted, preempt=preempt))
    return dataclasses.replace(answer, additions=tried, shapes_not_tried=max(len(shapes) - MAX_SHAPES, 0))


def _requests(template: Template) -> dict[str, str]:
    requests = template.replicas[0].resources.requests
    return {name: quantity_text(name, requests[name]) for name in resource_order(requests) if requests[name]}


def _can_help(planner: Planner, template: Template, shape: NodeShape) -> bool:
    """Tell whether a node of the shape may take a replica: one that turns it down even when empty never does."""
    nodes, pods = added_nodes(shape, 1, planner.world)
    alone = dataclasses.replace(planner.world, nodes=tuple(nodes), pods=tuple(pods))
    session = planner.with_world(alone).session
    result = schedule_pod(session, session.cluster.add_pod(template.replicas[0]))
    status = None if result.filter is None or result.filter.feasible[0] else result.filter.status(0)
    return status is None or status.plugin not in _OWN_AFFAIRS


def _additions(
    planner: Planner,
    templates: Sequence[Template],
    shapes: Iterable[NodeShape],
    fit_now: int,
    wanted: int,
    *,
    preempt: bool,
) -> Iterable[Addition]:
    """Try each shape of node: the least number of them with which all replicas fit."""
    for shape in shapes:

        def fits(n: int, shape: NodeShape = shape) -> int:
            session = planner.with_world(_grown(planner.world, shape, n)).session
            return fill(session, templates, limit=wanted, preempt=preempt).total

        yield Addition(shape, _least(fits, fit_now, wanted))


def _least(fits: Callable[[int], int], fit_now: int, wanted: int) -> int | None:
    """Search for the least number of nodes that is enough, assuming that more nodes never fit fewer replicas.

    Most nodes of a shape take as many replicas as the first, which gives a good guess; it is corrected by halving what
    is left between too few and enough.
    """
    low, fit_low = 0, fit_now
    enough: int | None = None
    guess = 1
    while enough is None:
        now = fits(guess)
        if now >= wanted:
            enough = guess
        elif now <= fit_low:
            if low or guess >= _FEW_NODES:
                return None
            guess = _FEW_NODES
        elif guess >= MAX_ADDED_NODES:
            return None
        else:
            per_node = max((now - fit_now) // guess, 1)
            low, fit_low = guess, now
            guess = min(guess + -(-(wanted - now) // per_node), MAX_ADDED_NODES)
    middle = enough - 1
    while enough - low > 1:
        low, enough = (low, middle) if fits(middle) >= wanted else (middle, enough)
        middle = (low + enough) // 2
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
