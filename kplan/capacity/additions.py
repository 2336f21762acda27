"""The nodes to add so that all wanted replicas fit, of the shapes that the cluster has already.

The nodes to add, from a list of shapes with prices, so that all wanted replicas fit, the cheapest mix first.

If no rule looks beyond a single node, a new node takes as many replicas as it takes alone, and the cheapest mix is the
least sum of prices that covers the missing replicas. Otherwise mixes are tried in the order of their prices until one
is enough, which is then the cheapest. If there are too many mixes, single shapes and all shapes together are tried, and
nodes that are not needed are left out of them. Every offer has been tried with all replicas.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod, PodSpec, PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.labels import HOSTNAME
from kplan.api.pod import PodMeta
from kplan.capacity.counting import Fit, Template, fill, fill_from, is_local
from kplan.capacity.shape_list import PricedShape
from kplan.cluster.base import Base
from kplan.course.simulation.owners import DaemonSetState, ForeignState
from kplan.course.watching import at_rest
from kplan.documents.capacity import Addition, ListedShape, Offer, Offers
from kplan.framework.cycle import schedule_pod
from kplan.framework.session import Session
from kplan.remedies.node_shapes import NodeShape, added_nodes, copies, node_shapes
from kplan.workloads.expansion import runs_on

MAX_ADDED_NODES = 4096
"""The largest number of nodes of a shape to try."""

MAX_NODES_FOR_GROUPS = 512
"""The largest number of nodes of a shape to try for whole groups, which may need several nodes each."""

MAX_SHAPES = 6
"""The number of shapes to try, the most common ones first."""

MAX_GROUPS = 2
"""The number of groups of shapes to try."""

_FEW_NODES = 4
"""A shape is tried with at least this many nodes: some rules, such as topology spread, need several."""

_OWN_AFFAIRS = frozenset({"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit"})
"""Plugins whose rejection of an empty node depends on nothing else in the cluster."""


def additions(
    base: Base, templates: Sequence[Template], fit: Fit, wanted: int, *, preempt: bool
) -> tuple[tuple[Addition, ...], int]:
    """Try each shape that may help; if none does, try shapes together that differ in labels only.

    Parameters
    ----------
    fit : the replicas that fit now, fewer than `wanted`

    Returns
    -------
    additions : for each tried shape the least number of nodes with which all replicas fit
    not_tried : the number of further shapes that may help
    """
    missing = wanted - fit.total
    rooms = [
        (shape, room)
        for shape in node_shapes(base.objects)
        if (room := _fit_alone(base, templates, fit, shape, missing)) is not None
    ]

    def search(shapes: tuple[NodeShape, ...], room: int) -> Addition:
        def fits(n: int) -> int:
            grown = base.objects
            for shape in shapes:
                nodes, pods = added_nodes(shape, n, grown)
                grown = dataclasses.replace(grown, nodes=(*grown.nodes, *nodes), pods=(*grown.pods, *pods))
            session = base.for_cluster(grown).session
            return fill_from(session, templates, limit=wanted, preempt=preempt)[1].total

        if any(template.group is not None for template in templates):
            least = least_for_groups(fits, wanted)
        else:
            least = least_number(fits, fit.total, wanted, -(-missing // max(room, 1)))
        return Addition(nodes=least, shapes=tuple(shape.to_document() for shape in shapes))

    tried = [search((shape,), room) for shape, room in rooms[:MAX_SHAPES]]
    if all(addition.nodes is None for addition in tried):
        tried += [search(shapes, room) for shapes, room in _alike(rooms)]
    return tuple(tried), max(len(rooms) - MAX_SHAPES, 0)


def _alike(rooms: Sequence[tuple[NodeShape, int]]) -> list[tuple[tuple[NodeShape, ...], int]]:
    """Return groups of shapes that differ in labels only, such as one pool in several zones, with their room."""
    groups: dict[bytes, list[tuple[NodeShape, int]]] = {}
    for shape, room in rooms:
        key = msgspec.json.encode((shape.like.status.allocatable, shape.like.spec.taints), order="deterministic")
        groups.setdefault(key, []).append((shape, room))
    several = [group for group in groups.values() if len(group) > 1]
    return [(tuple(shape for shape, _ in group), sum(room for _, room in group)) for group in several[:MAX_GROUPS]]


def _fit_alone(base: Base, templates: Sequence[Template], fit: Fit, shape: NodeShape, limit: int) -> int | None:
    """Return how many replicas fit on one such node alone; None if it rejects the replica that does not fit now."""
    nodes, pods = added_nodes(shape, 1, base.objects)
    alone = dataclasses.replace(base.objects, nodes=tuple(nodes), pods=tuple(pods))
    return fit_alone(base.for_cluster(alone).session, templates, fit, limit)


def fit_alone(session: Session, templates: Sequence[Template], fit: Fit, limit: int) -> int | None:
    """Return how many replicas fit on a single node; None if it always rejects the replica that does not fit now."""
    stopped = templates[fit.stopped_template or 0]
    if stopped.group is not None:
        return 1 if _takes_any(session, stopped) else None
    first = fill(session.fork(), [stopped], limit=1)
    if first.stop is not None and first.stop.filter is not None:
        status = first.stop.filter.status(0)
        if status is not None and status.plugin in _OWN_AFFAIRS:
            return None
    return fill_from(session, templates, limit=limit)[1].total


def _takes_any(session: Session, template: Template) -> bool:
    """Tell whether a node takes any pod of a group on its own; else no number of such nodes helps the group."""
    return any(
        schedule_pod(session, session.cluster.add_pod(info), is_member=True, looks_for_victims=False).row is not None
        for info in {info.shape: info for info in template.replicas}.values()
    )


def least_for_groups(fits: Callable[[int], int], wanted: int) -> int | None:
    """Return the least number of nodes with which so many whole groups fit; one more node may be no help by itself."""
    low, high = 0, 1
    while fits(high) < wanted:
        if high >= MAX_NODES_FOR_GROUPS:
            return None
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) >= wanted else (middle, high)
    return high


def least_number(fits: Callable[[int], int], fit_now: int, wanted: int, guess: int) -> int | None:
    """Return the least number of nodes that is enough, on the assumption that more nodes never fit fewer replicas.

    Most nodes of a shape take as many replicas as one alone, so the guess is often right. Otherwise it is corrected by
    the replicas that the nodes took, and then by bisection.
    """
    low, fit_low = 0, fit_now
    guess = min(guess, MAX_ADDED_NODES)
    while (now := fits(guess)) < wanted:
        if guess >= MAX_ADDED_NODES or (now <= fit_low and guess >= _FEW_NODES):
            return None
        if now <= fit_low:
            guess = _FEW_NODES
            continue
        per_node = max((now - fit_now) // guess, 1)
        low, fit_low = guess, now
        guess = min(guess + -(-(wanted - now) // per_node), MAX_ADDED_NODES)
    enough, middle = guess, guess - 1
    while enough - low > 1:
        low, enough = (low, middle) if fits(middle) >= wanted else (middle, enough)
        middle = (low + enough) // 2
    return enough


class NewNodes:
    """Creates nodes of a shape.

    Their daemon pods are those of the daemon sets whose selectors and tolerations match such a node. For a daemon set
    that the snapshot does not hold, a pod of it stands for the template, without the node affinity that pins it.
    """

    def __init__(self, base: Base, shape: PricedShape) -> None:
        own = shape.like or "\0"
        metadata = shape.node.metadata
        labels = {**metadata.labels, HOSTNAME: own}
        self.daemons = [pod for template, pod in _daemons_of(base) if runs_on(template, shape.node)]
        model = replace(shape.node, metadata=replace(metadata, labels=labels))
        self.make = partial(
            copies, model, f"{shape.name}-new", used_names=base.objects.node_by_name, daemons=self.daemons, own=own
        )


def _daemons_of(base: Base) -> Iterator[tuple[PodTemplateSpec, Pod]]:
    """Yield for each daemon set a template that selects its nodes, and a pod as it runs there."""
    infos = base.session.cluster.pods.infos
    workloads = at_rest(base).workloads
    for key in workloads.keys():  # noqa: SIM118 - not a mapping
        state = workloads.find(key)
        if not isinstance(state, DaemonSetState | ForeignState) or state.ref.kind != DAEMON_SET:
            continue
        # A running pod has been through admission, and the template has not.
        example = next((infos[row].pod for row in state.pods), None)
        if isinstance(state, DaemonSetState):
            template = state.templates[state.wanted.revision]
            metadata = replace(
                PodMeta(), name=state.ref.name, namespace=state.ref.namespace, labels=template.metadata.labels
            )
            if example is not None or template.spec.containers:
                yield template, example or Pod(metadata=metadata, spec=template.spec)
        elif example is not None:
            yield PodTemplateSpec(metadata=example.metadata, spec=_not_pinned(example)), example


def _not_pinned(pod: Pod) -> PodSpec:
    """Return the spec of a pod without its node and without the node affinity with which its controller pins it."""
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        required = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
        affinity = replace(affinity, node_affinity=required)
    return replace(pod.spec, node_name="", affinity=affinity)


MAX_MIXES = 150
"""The number of mixes to try in the search for the cheapest, where rules look beyond single nodes."""

MAX_PLACED = 200_000
"""The number of replicas to place in these tries, summed."""

MAX_STEPS = 2_000_000
"""The number of steps in the search for the least sum of prices."""

MAX_OFFERS = 8
"""The number of offers in a report."""

MAX_NODES = 4096
"""The largest number of nodes in an offer."""

Mix = tuple[int, ...]
"""The number of nodes of each shape."""


def offers(base: Base, templates: Sequence[Template], fit: Fit, wanted: int, shapes: Sequence[PricedShape]) -> Offers:
    """Return mixes of shapes with which all replicas fit.

    Parameters
    ----------
    fit : the replicas that fit now, fewer than `wanted`
    shapes : at least one
    """
    search = _Search(base, templates, fit, wanted, shapes)
    mixes, is_cheapest = search.mixes()
    ordered = sorted(mixes, key=search.order)[:MAX_OFFERS]
    return Offers(
        is_cheapest=is_cheapest,
        tried=search.n_tried,
        offers=tuple(
            Offer(
                mix={shape.name: n for shape, n in zip(shapes, mix, strict=True) if n},
                nodes=sum(mix),
                price=float(search.price(mix)),
            )
            for mix in ordered
        ),
        shapes=tuple(map(search.listed, range(len(shapes)))),
    )


class _Search:
    """Tries mixes of shapes, each once."""

    def __init__(
        self, base: Base, templates: Sequence[Template], fit: Fit, wanted: int, shapes: Sequence[PricedShape]
    ) -> None:
        self._base, self._templates, self._wanted, self._shapes = base, templates, wanted, shapes
        self._fit_now, self._missing = fit.total, wanted - fit.total
        self._new = [NewNodes(base, shape) for shape in shapes]
        self._known: dict[Mix, int] = {}
        stopped = templates[fit.stopped_template or 0]
        alone = [self._takes_alone(new, fit) for new in self._new]
        self._alone = [takes or 0 for takes in alone]
        self._is_out = [takes is None for takes in alone]
        self._is_local = len(templates) == 1 and not stopped.are_distinct and not stopped.refused
        self._is_local &= is_local(base.fork(), stopped.replicas[0])
        self.n_tried = 0  #: number of mixes that were tried
        self._n_placed = 0

    def listed(self, index: int) -> ListedShape:
        shape, status = self._shapes[index], self._shapes[index].node.status
        return ListedShape(
            name=shape.name,
            price=float(shape.price),
            like=shape.like,
            allocatable={name: str(status.allocatable[name]) for name in sorted(status.allocatable)},
            labels=dict(sorted(shape.node.metadata.labels.items())),
            taints=tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in shape.node.spec.taints),
            alone=self._alone[index],
            helps=not self._is_out[index],
            daemons=len(self._new[index].daemons),
        )

    def price(self, mix: Mix) -> Decimal:
        return sum((n * shape.price for n, shape in zip(mix, self._shapes, strict=True)), Decimal(0))

    def order(self, mix: Mix) -> tuple[Decimal, int, Mix]:
        """Return the sort key of a mix: price, then number of nodes, then shapes in the order of the list."""
        return self.price(mix), sum(mix), tuple(-n for n in mix)

    def mixes(self) -> tuple[list[Mix], bool]:
        """Return mixes that are enough, and whether the cheapest of all is among them."""
        useful = [index for index, is_out in enumerate(self._is_out) if not is_out]
        if self._is_local:
            useful = [index for index in useful if self._alone[index]]
            best = self._least_sum(useful)
            singles = [self._single(index) for index in useful]
            enough = [mix for mix in (best, *singles) if mix is not None and self._is_enough(mix)]
            return list(dict.fromkeys(enough)), best in enough or not useful
        if not useful:
            return [], True
        first = self._in_order(useful)
        if first is not None:
            return list(dict.fromkeys((first, *filter(None, (self._least_of([index]) for index in useful))))), True
        return self._greedily(useful), False

    # Where no rule looks beyond a single node.

    def _least_sum(self, useful: Sequence[int]) -> Mix | None:
        """Return the cheapest mix whose nodes take all missing replicas, if each takes as many as alone.

        Of mixes with equal prices it is the one with fewer nodes; None if no shape helps, or the search is too long.
        """
        if not useful or self._missing * len(useful) > MAX_STEPS:
            return None
        best: list[tuple[Decimal, int, int]] = [(Decimal(0), 0, -1)]
        for missing in range(1, self._missing + 1):
            options = []
            for index in useful:
                price, nodes, _ = best[max(missing - self._alone[index], 0)]
                options.append((price + self._shapes[index].price, nodes + 1, index))
            best.append(min(options))
        counts = [0] * len(self._shapes)
        missing = self._missing
        while missing > 0:
            index = best[missing][2]
            counts[index] += 1
            missing -= self._alone[index]
        return tuple(counts)

    def _single(self, index: int) -> Mix | None:
        nodes = -(-self._missing // self._alone[index])
        return self._of([index], nodes) if nodes <= MAX_NODES else None

    # Where rules look beyond single nodes.

    def _in_order(self, useful: Sequence[int]) -> Mix | None:
        """Try mixes by price and return the first that is enough; None if the limits end the search."""
        for mix in _by_price(len(self._shapes), useful, self.order):
            if self.n_tried >= MAX_MIXES or self._n_placed >= MAX_PLACED:
                return None
            if self._is_enough(mix):
                return mix
        return None

    def _least_of(self, indices: Sequence[int]) -> Mix | None:
        """Return the least mix that is enough, with the same number of nodes of each of some shapes."""
        takes = sum(self._alone[index] for index in indices)
        guess = -(-self._missing // max(takes, 1))
        nodes = least_number(lambda n: self._fits(self._of(indices, n)), self._fit_now, self._wanted, guess)
        return None if nodes is None else self._of(indices, nodes)

    def _greedily(self, useful: Sequence[int]) -> list[Mix]:
        """Try single shapes and all shapes together; leave out of each mix the nodes that are not needed."""
        mixes = [mix for index in useful if (mix := self._least_of([index])) is not None]
        together = self._least_of(useful) if len(useful) > 1 else None
        if together is not None:
            mixes.append(together)
        return list(dict.fromkeys(map(self._trimmed, mixes)))

    def _trimmed(self, mix: Mix) -> Mix:
        by_price = sorted(range(len(mix)), key=lambda index: -self._shapes[index].price)
        for index in by_price:
            while mix[index] and sum(mix) > 1:
                less = tuple(n - (at == index) for at, n in enumerate(mix))
                if not self._is_enough(less):
                    break
                mix = less
        return mix

    # Tries.

    def _of(self, indices: Sequence[int], nodes: int) -> Mix:
        return tuple(nodes if index in indices else 0 for index in range(len(self._shapes)))

    def _is_enough(self, mix: Mix) -> bool:
        return sum(mix) <= MAX_NODES and self._fits(mix) >= self._wanted

    def _fits(self, mix: Mix) -> int:
        if mix not in self._known:
            self.n_tried += 1
            nodes, pods = [], []
            for new, n in zip(self._new, mix, strict=True):
                added, daemons = new.make(n=n)
                nodes += added
                pods += daemons
            snapshot = self._base.snapshot
            grown = dataclasses.replace(snapshot, nodes=(*snapshot.nodes, *nodes), pods=(*snapshot.pods, *pods))
            session = self._base.with_snapshot(grown).session
            self._known[mix] = fill_from(session, self._templates, limit=self._wanted)[1].total
            self._n_placed += self._known[mix]
        return self._known[mix]

    def _takes_alone(self, new: NewNodes, fit: Fit) -> int | None:
        nodes, pods = new.make(n=1)
        alone = dataclasses.replace(self._base.snapshot, nodes=tuple(nodes), pods=tuple(pods))
        return fit_alone(self._base.with_snapshot(alone).session, self._templates, fit, self._missing)


def _by_price(n_shapes: int, useful: Sequence[int], order: Callable[[Mix], tuple[Decimal, int, Mix]]) -> Iterator[Mix]:
    """Yield all mixes of useful shapes except the empty one, the cheapest first, without end."""

    def entry(first: int, mix: Mix) -> tuple[tuple[Decimal, int, Mix], int, Mix]:
        more = tuple(n + (at == useful[first]) for at, n in enumerate(mix))
        return order(more), first, more

    heap = [entry(first, (0,) * n_shapes) for first in range(len(useful))]
    heapq.heapify(heap)
    while heap:
        _, last, mix = heapq.heappop(heap)
        yield mix
        # Each mix is reached from one other mix only: the one without a node of its last shape.
        for first in range(last, len(useful)):
            heapq.heappush(heap, entry(first, mix))
