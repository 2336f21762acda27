"""The nodes to add, from a list of shapes with prices, so that all wanted replicas fit, the cheapest mix first.

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

from msgspec.structs import replace

from kplan.api.core import Node, Pod, PodSpec, PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.pod import PodMeta
from kplan.api.wellknown import HOSTNAME
from kplan.autoscaling.seam import Namer
from kplan.capacity.additions import fit_alone, least_number
from kplan.capacity.counting import fill_from, is_local
from kplan.capacity.replicas import Fit, Template
from kplan.capacity.shape_list import PricedShape
from kplan.cluster.base import Base
from kplan.documents.capacity import ListedShape, Offer, Offers
from kplan.simulation.owners import DaemonSetState, ForeignState
from kplan.workloads.daemons import runs_on


class NewNodes:
    """Creates nodes of a shape.

    Their daemon pods are those of the daemon sets whose selectors and tolerations match such a node. For a daemon set
    that the snapshot does not hold, a pod of it stands for the template, without the node affinity that pins it.
    """

    def __init__(self, base: Base, shape: PricedShape) -> None:
        self._shape = shape
        self._existing = base.objects.node_by_name
        self._daemons = [pod for template, pod in _daemons_of(base) if runs_on(template, shape.node)]

    @property
    def n_daemons(self) -> int:
        """The number of daemon pods on each node."""
        return len(self._daemons)

    def make(self, n: int) -> tuple[list[Node], list[Pod]]:
        """Return n nodes with new names, and their daemon pods."""
        name_of = Namer(self._existing)
        names = [name_of.name(self._shape.name) for _ in range(n)]
        return list(map(self._node, names)), [self._pod(daemon, name) for name in names for daemon in self._daemons]

    def _node(self, name: str) -> Node:
        model = self._shape.node
        labels = {key: name if value == self._shape.like else value for key, value in model.metadata.labels.items()}
        metadata = replace(model.metadata, name=name, uid=f"new-{name}", labels={**labels, HOSTNAME: name})
        return replace(model, metadata=metadata)

    def _pod(self, daemon: Pod, node: str) -> Pod:
        name = f"{daemon.metadata.name}-{node}"
        metadata = replace(daemon.metadata, name=name, uid=f"new-{daemon.metadata.namespace}-{name}")
        return replace(daemon, metadata=metadata, spec=replace(daemon.spec, node_name=node))


def _daemons_of(base: Base) -> Iterator[tuple[PodTemplateSpec, Pod]]:
    """Yield for each daemon set a template that selects its nodes, and a pod as it runs there."""
    infos = base.session.cluster.pods.infos
    workloads = base.at_rest.workloads
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
        """Return a shape as a document."""
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
            daemons=self._new[index].n_daemons,
        )

    def price(self, mix: Mix) -> Decimal:
        """Return the price of a mix."""
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
        """Return how many replicas fit in the cluster with the nodes of a mix."""
        if mix not in self._known:
            self.n_tried += 1
            nodes, pods = [], []
            for new, n in zip(self._new, mix, strict=True):
                added, daemons = new.make(n)
                nodes += added
                pods += daemons
            snapshot = self._base.snapshot
            grown = dataclasses.replace(snapshot, nodes=(*snapshot.nodes, *nodes), pods=(*snapshot.pods, *pods))
            session = self._base.with_snapshot(grown).session
            self._known[mix] = fill_from(session, self._templates, limit=self._wanted)[1].total
            self._n_placed += self._known[mix]
        return self._known[mix]

    def _takes_alone(self, new: NewNodes, fit: Fit) -> int | None:
        nodes, pods = new.make(1)
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
