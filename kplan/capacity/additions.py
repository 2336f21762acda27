"""The nodes to add so that all wanted replicas fit: of the cluster's own shapes, or the cheapest of a file with prices.

If no rule looks beyond a single node, a new node takes as many replicas as it takes alone, and the cheapest mix is the
least sum of prices that covers the missing replicas. Otherwise mixes are tried in the order of their prices until one
is enough, which is then the cheapest. If there are too many mixes, single shapes and all shapes together are tried, and
nodes that are not needed are left out of them. Every offer has been tried with all replicas.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod, PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.labels import HOSTNAME
from kplan.api.pod import PodMeta
from kplan.api.quantity import grouped
from kplan.capacity.counting import Fit, fill, fill_from, is_local
from kplan.capacity.shapes import PricedShape
from kplan.capacity.templates import Template
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.course.beginning import unmoved
from kplan.course.simulation.owners import DaemonSetState, ForeignState
from kplan.documents.capacity import Addition, ListedShape, Offer, Offers
from kplan.framework.cycle import schedule_pod
from kplan.remedies.node_shapes import AddedNodes, NodeShape, added_nodes, copies, node_shapes
from kplan.remedies.trials import least
from kplan.workloads.new_pods import runs_on

MAX_NODES = 4096  #: the largest number of nodes to try, and in an offer

MAX_NODES_FOR_GROUPS = 512
"""The largest number of nodes of a shape to try for whole groups, which may need several nodes each."""

MAX_SHAPES = 6  #: the number of shapes to try, the most common ones first
MAX_GROUPS = 2  #: the number of groups of shapes to try
_FEW_NODES = 4  #: a shape is tried with at least this many nodes: some rules, such as topology spread, need several

_OWN_AFFAIRS = frozenset({"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeResourcesFit"})
"""Plugins whose rejection of an empty node depends on nothing else in the cluster."""

Mix = tuple[int, ...]  #: the number of nodes of each shape

Maker = Callable[[int], AddedNodes]
"""Makes so many nodes of a shape, with what is there."""


def additions(
    base: Base, templates: Sequence[Template], fit: Fit, wanted: int, *, preempt: bool
) -> tuple[tuple[Addition, ...], int]:
    """Return the nodes of each shape with which all replicas fit; if none helps, of shapes that differ in labels only.

    Returns also how many further shapes may help. `fit` are the replicas that fit now, fewer than wanted.
    """
    shapes = node_shapes(base.objects)
    makers = [partial(added_nodes, shape, snapshot=base.objects) for shape in shapes]
    tries = _Tries(base, templates, fit, wanted, makers, preempt=preempt)

    def addition(indices: Sequence[int]) -> Addition:
        mix = tries.least_of(indices)
        nodes = None if mix is None else mix[indices[0]]
        return Addition(nodes=nodes, shapes=tuple(shapes[index].to_document() for index in indices))

    tried = [addition([index]) for index in tries.useful[:MAX_SHAPES]]
    if all(one.nodes is None for one in tried):
        tried += map(addition, _alike(shapes, tries.useful))
    return tuple(tried), max(len(tries.useful) - MAX_SHAPES, 0)


def _alike(shapes: Sequence[NodeShape], useful: Sequence[int]) -> list[list[int]]:
    """Return groups of useful shapes that differ in labels only, such as one pool in several zones."""
    nodes = ((index, shapes[index].like) for index in useful)
    keys = ((index, (node.status.allocatable, node.spec.taints)) for index, node in nodes)
    groups = grouped((msgspec.json.encode(key, order="deterministic"), index) for index, key in keys)
    return [group for group in groups.values() if len(group) > 1][:MAX_GROUPS]


class _Tries:
    """Tries mixes of new nodes, each once; a mix has a number for each of some makers of nodes."""

    def __init__(
        self,
        base: Base,
        templates: Sequence[Template],
        fit: Fit,
        wanted: int,
        makers: Sequence[Maker],
        *,
        preempt: bool = False,
    ) -> None:
        # What manifests add is in its snapshot, where nodes and pods among it can be left out.
        self._base = base.for_cluster(base.objects)
        self._base.shares_with = base
        self._templates, self._wanted, self._preempt = templates, wanted, preempt
        self._makers, self._known = makers, dict[Mix, int]()
        self._fit_now, self.missing = fit.total, wanted - fit.total
        #: how many replicas fit on a single node; None if it always rejects the replica that does not fit now
        self.alone = [self._fit_alone(maker, fit) for maker in makers]
        self.useful = [index for index, takes in enumerate(self.alone) if takes is not None]
        self.n_tried = self.n_placed = 0  #: numbers of mixes that were tried, and of replicas that were placed there

    def _fit_alone(self, maker: Maker, fit: Fit) -> int | None:
        empty = replace(self._base.snapshot, nodes=(), pods=(), csi_nodes=())
        snapshot = with_objects(empty, maker(1).objects)
        session, stopped = self._base.with_snapshot(snapshot).session, self._templates[fit.stopped_template or 0]
        if stopped.group is not None:
            # A node that takes no pod of a group on its own is no help to the group, whatever the number of such nodes.
            session = session.fork()
            rows = (session.cluster.add_pod(info) for info in {info.shape: info for info in stopped.replicas}.values())
            tries = (schedule_pod(session, row, is_member=True, looks_for_victims=False) for row in rows)
            return 1 if any(result.row is not None for result in tries) else None
        first = fill(session.fork(), [stopped], limit=1)
        if first.stop is not None and first.stop.filter is not None:
            status = first.stop.filter.status(0)
            if status is not None and status.plugin in _OWN_AFFAIRS:
                return None
        return fill_from(session, self._templates, limit=self.missing, tells_where=False)[1].total

    def of(self, indices: Sequence[int], nodes: int) -> Mix:
        return tuple(nodes if index in indices else 0 for index in range(len(self._makers)))

    def fits(self, mix: Mix) -> int:
        if mix not in self._known:
            self.n_tried += 1
            kinds = (maker(n).objects for maker, n in zip(self._makers, mix, strict=True))
            grown = with_objects(self._base.snapshot, chain.from_iterable(kinds))
            start, limit = self._base.with_snapshot(grown).session, self._wanted
            fit = fill_from(start, self._templates, limit=limit, preempt=self._preempt, tells_where=False)[1]
            self._known[mix] = fit.total
            self.n_placed += fit.total
        return self._known[mix]

    def is_enough(self, mix: Mix) -> bool:
        return sum(mix) <= MAX_NODES and self.fits(mix) >= self._wanted

    def least_of(self, indices: Sequence[int]) -> Mix | None:
        """Return the least mix that is enough, with the same number of nodes of each of some shapes."""

        def fits(nodes: int) -> int:
            return self.fits(self.of(indices, nodes))

        if any(template.group is not None for template in self._templates):
            # One more node may be no help by itself, so that what fits on few nodes tells nothing of more.
            number = least(MAX_NODES_FOR_GROUPS, lambda nodes: fits(nodes) >= self._wanted) or None
        else:
            takes = sum(self.alone[index] or 0 for index in indices)
            number = least_number(fits, self._fit_now, self._wanted, -(-self.missing // max(takes, 1)))
        return None if number is None else self.of(indices, number)


def least_number(fits: Callable[[int], int], fit_now: int, wanted: int, guess: int) -> int | None:
    """Return the least number of nodes that is enough, on the assumption that more nodes never fit fewer replicas.

    Most nodes of a shape take as many replicas as one alone, so the guess is often right. Otherwise it is corrected by
    the replicas that the nodes took, and then by bisection.
    """
    low, fit_low = 0, fit_now
    guess = min(guess, MAX_NODES)
    while (now := fits(guess)) < wanted:
        if guess >= MAX_NODES or (now <= fit_low and guess >= _FEW_NODES):
            return None
        if now <= fit_low:
            guess = _FEW_NODES
            continue
        per_node = max((now - fit_now) // guess, 1)
        low, fit_low = guess, now
        guess = min(guess + -(-(wanted - now) // per_node), MAX_NODES)
    enough, middle = guess, guess - 1
    while enough - low > 1:
        low, enough = (low, middle) if fits(middle) >= wanted else (middle, enough)
        middle = (low + enough) // 2
    return enough


def _daemons_of(base: Base) -> Iterator[tuple[PodTemplateSpec, Pod]]:
    """Yield for each daemon set a template that selects its nodes, and a pod as it runs there."""
    infos = base.session.cluster.pods.infos
    for state in unmoved(base).workloads.all():
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
            # Without its node, and the node affinity with which its controller pins it.
            affinity = example.spec.affinity
            if affinity is not None and affinity.node_affinity is not None:
                unpinned = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
                affinity = replace(affinity, node_affinity=unpinned)
            spec = replace(example.spec, node_name="", affinity=affinity)
            yield PodTemplateSpec(metadata=example.metadata, spec=spec), example


MAX_MIXES = 150  #: the number of mixes to try in the search for the cheapest, where rules look beyond single nodes
MAX_PLACED = 200_000  #: the number of replicas to place in these tries, summed
MAX_STEPS = 2_000_000  #: the number of steps in the search for the least sum of prices
MAX_OFFERS = 8  #: the number of offers in a report


def offers(base: Base, templates: Sequence[Template], fit: Fit, wanted: int, shapes: Sequence[PricedShape]) -> Offers:
    """Return mixes of shapes with which all replicas fit; `fit` are those that fit now, fewer than wanted."""
    search = _Search(base, templates, fit, wanted, shapes)
    mixes, is_cheapest = search.mixes()
    return Offers(
        is_cheapest=is_cheapest,
        tried=search.tries.n_tried,
        offers=tuple(
            Offer(
                mix={shape.name: n for shape, n in zip(shapes, mix, strict=True) if n},
                nodes=sum(mix),
                price=float(search.price(mix)),
            )
            for mix in sorted(mixes, key=search.order)[:MAX_OFFERS]
        ),
        shapes=tuple(map(search.listed, range(len(shapes)))),
    )


class _Search:
    """Searches the cheapest mix of shapes.

    The daemon pods of a new node are those of the daemon sets whose selectors and tolerations match it. For a daemon
    set that the snapshot does not hold, a pod of it stands for the template, without the node affinity that pins it.
    """

    def __init__(
        self, base: Base, templates: Sequence[Template], fit: Fit, wanted: int, shapes: Sequence[PricedShape]
    ) -> None:
        self._shapes = shapes
        known = [*_daemons_of(base)]
        self._daemons = [[pod for template, pod in known if runs_on(template, shape.node)] for shape in shapes]
        self.tries = _Tries(base, templates, fit, wanted, [*map(partial(_maker, base), shapes, self._daemons)])
        self._alone = [takes or 0 for takes in self.tries.alone]
        stopped = templates[fit.stopped_template or 0]
        self._is_local = len(templates) == 1 and not stopped.are_distinct and not stopped.refused
        self._is_local &= is_local(base.fork(), stopped.replicas[0])

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
            helps=index in self.tries.useful,
            daemons=len(self._daemons[index]),
        )

    def price(self, mix: Mix) -> Decimal:
        return sum((n * shape.price for n, shape in zip(mix, self._shapes, strict=True)), Decimal(0))

    def order(self, mix: Mix) -> tuple[Decimal, int, Mix]:
        """Return the sort key of a mix: price, then number of nodes, then shapes in the order of the list."""
        return self.price(mix), sum(mix), tuple(-n for n in mix)

    def mixes(self) -> tuple[list[Mix], bool]:
        """Return mixes that are enough, and whether the cheapest of all is among them."""
        useful = self.tries.useful
        if self._is_local:
            useful = [index for index in useful if self._alone[index]]
            best = self._least_sum(useful)
            singles = [self.tries.of([index], -(-self.tries.missing // self._alone[index])) for index in useful]
            enough = [mix for mix in (best, *singles) if mix is not None and self.tries.is_enough(mix)]
            return list(dict.fromkeys(enough)), best in enough or not useful
        if not useful:
            return [], True
        first = self._in_order(useful)
        if first is not None:
            return list(dict.fromkeys((first, *self._singles(useful)))), True
        # Single shapes and all shapes together, without the nodes that are not needed.
        together = self.tries.least_of(useful) if len(useful) > 1 else None
        mixes = [*self._singles(useful), *(() if together is None else (together,))]
        return list(dict.fromkeys(map(self._trimmed, mixes))), False

    def _least_sum(self, useful: Sequence[int]) -> Mix | None:
        """Return the cheapest mix whose nodes take all missing replicas, if each takes as many as alone.

        Of mixes with equal prices it is the one with fewer nodes; None if no shape helps, or the search is too long.
        """
        missing = self.tries.missing
        if not useful or missing * len(useful) > MAX_STEPS:
            return None
        best: list[tuple[Decimal, int, int]] = [(Decimal(0), 0, -1)]
        for number in range(1, missing + 1):
            options = []
            for index in useful:
                price, nodes, _ = best[max(number - self._alone[index], 0)]
                options.append((price + self._shapes[index].price, nodes + 1, index))
            best.append(min(options))
        counts = [0] * len(self._shapes)
        while missing > 0:
            index = best[missing][2]
            counts[index] += 1
            missing -= self._alone[index]
        return tuple(counts)

    def _in_order(self, useful: Sequence[int]) -> Mix | None:
        """Try mixes by price and return the first that is enough; None if the limits end the search."""
        for mix in _by_price(len(self._shapes), useful, self.order):
            if self.tries.n_tried >= MAX_MIXES or self.tries.n_placed >= MAX_PLACED:
                return None
            if self.tries.is_enough(mix):
                return mix
        return None

    def _singles(self, useful: Sequence[int]) -> Iterator[Mix]:
        return (mix for index in useful if (mix := self.tries.least_of([index])) is not None)

    def _trimmed(self, mix: Mix) -> Mix:
        by_price = sorted(range(len(mix)), key=lambda index: -self._shapes[index].price)
        for index in by_price:
            while mix[index] and sum(mix) > 1:
                less = tuple(n - (at == index) for at, n in enumerate(mix))
                if not self.tries.is_enough(less):
                    break
                mix = less
        return mix


def _maker(base: Base, shape: PricedShape, daemons: Sequence[Pod]) -> Maker:
    own, metadata = shape.like or "\0", shape.node.metadata
    model = replace(shape.node, metadata=replace(metadata, labels={**metadata.labels, HOSTNAME: own}))
    prefix, used_names = f"{shape.name}-new", base.objects.node_by_name
    return lambda n: copies(model, prefix, n, used_names, daemons, own=own)


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
