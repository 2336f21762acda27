"""The answer of `kplan capacity`."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from msgspec import UNSET, UnsetType, structs

from kplan.api.labels import ZONE
from kplan.api.quantity import count, grouped
from kplan.capacity.additions import additions, offers
from kplan.capacity.counting import Fit, fill_from, fill_growing, stop_of
from kplan.capacity.shapes import PricedShape, read_shapes
from kplan.capacity.templates import Template, most_replicas, next_replicas, templates_of
from kplan.cluster.base import Base
from kplan.cluster.unmodelled import in_whole_groups
from kplan.cluster.workload_pods import no_node
from kplan.course.answers.placement import NodesShown, Placement
from kplan.course.answers.plan import Answer, before_growth
from kplan.course.answers.utilisation import cluster_map
from kplan.course.answers.verdict import conditions, judged, verdict_on
from kplan.course.growth import Growth
from kplan.documents import capacity
from kplan.documents.base import Condition, Context, Counted, Verdict
from kplan.documents.nodes import ClusterMap
from kplan.documents.placement import GroupPlan
from kplan.engine.cluster import Cluster
from kplan.errors import ParameterError, UsageError
from kplan.facts import InputWarning
from kplan.framework.pod_groups import WORKLOAD_GATE
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.snapshot.model import Snapshot
from kplan.workloads import Manifests
from kplan.workloads.manifests import ReadOptions, load_manifests
from kplan.workloads.sources import Source


@dataclass(frozen=True)
class Capacity(Answer):
    """How many replicas fit, where, what stops the next one, and what to add for more."""

    templates: tuple[Template, ...]
    fit: Fit = field(repr=False)
    wanted: int | None  #: the number of replicas that has to fit, or None for as many as fit
    limit: int | None  #: the number at which the count stops in any case, or None
    stop: Placement | None  #: the decision about the first replica that does not fit, or None
    session: Session = field(repr=False)
    #: nodes to add so that all wanted replicas fit; empty when they fit, or when no number is wanted
    additions: tuple[capacity.Addition, ...] = ()
    shapes_not_tried: int = 0  #: number of further node shapes that might help and are not tried
    growth: Growth | None = field(default=None, repr=False)  #: what an autoscaler adds; None where none is followed
    offers: capacity.Offers | None = None  #: what to buy from a list of shapes; None without a list, or when all fit
    stopped_group: GroupPlan | None = None  #: what becomes of the first group that is not whole

    @property
    def is_enough(self) -> bool:
        return self.wanted is None or self.fit.total >= self.wanted

    @property
    def sets(self) -> int | None:
        """Number of complete sets of several templates in their ratio; None for a single template."""
        if len(self.templates) == 1:
            return None
        return min(n // template.share for template, n in zip(self.templates, self.fit.counts, strict=True))

    def per_node(self) -> dict[str, dict[str, int]]:
        """Return node name -> template name -> number of replicas, sorted by node; nodes without any are absent."""
        names = self.session.cluster.nodes.names
        replicas: dict[str, Counter[str]] = {}
        for (template, row), number in sorted(self.fit.placed.items(), key=lambda item: (item[0][1], item[0][0])):
            replicas.setdefault(names[row], Counter())[self.templates[template].name] += number
        return {node: dict(counts) for node, counts in replicas.items()}

    def per_zone(self) -> dict[str, capacity.ZoneFit]:
        """Return zone -> number of replicas and of nodes that have any; nodes without a zone are under ``""``."""
        zones = self.session.cluster.nodes.label(ZONE)
        placed = ((int(zones.codes[row]), row, number) for (_, row), number in self.fit.placed.items())
        by_zone = grouped((zones.values[code] if code >= 0 else "", (row, number)) for code, row, number in placed)
        return {
            zone: capacity.ZoneFit(replicas=sum(number for _, number in own), nodes=len({row for row, _ in own}))
            for zone, own in sorted(by_zone.items())
        }

    @cached_property
    def context(self) -> Context:
        """Cluster, scheduler and warnings; among these whether the count ended because replicas ran out."""
        context = self.make_context()
        warnings = list(context.warnings)
        if self.growth is not None:
            warnings = [*dict.fromkeys((*warnings, *self.growth.all_warnings))]
        if self.fit.exhausted_template is not None:
            template = self.templates[self.fit.exhausted_template]
            message = f"each replica has its own claims, so no more than {template.most} are tried"
            warnings.append(InputWarning("ReplicaBound", template.name, message))
        return structs.replace(context, warnings=tuple(warnings))

    def verdict(self, fail_on: Sequence[Condition] | None = None) -> Verdict:
        """Return whether the answer fails; by default it cannot when no number of replicas is wanted."""
        chosen = conditions(fail_on, None if self.wanted is None else "capacity")
        because: list[str] = []
        if not self.is_enough and "unschedulable" in chosen:
            noun = "groups" if all(template.group is not None for template in self.templates) else "replicas"
            because.append(f"{self.fit.total} of {self.wanted} {noun} fit")
        if self.fit.evicted and "preemption" in chosen:
            because.append(f"{count(len(self.fit.evicted), 'pod')} would be evicted")
        is_gated = self.stop is not None and self.stop.outcome is Outcome.GATED
        events = [Counted(self.stop.pod.key, "Gated")] if self.stop is not None and is_gated else []
        events += [Counted(node.node.metadata.name, "NewNode") for node in (self.growth.adds if self.growth else ())]
        return verdict_on([one for one in events if one.counts(chosen)], self.context.warnings, chosen, because)

    def _map(self, before: Cluster) -> ClusterMap:
        """Return every node without and with the replicas, which get their numbers here: the count has none."""
        after = self.session.cluster
        changed = cluster_map(before_growth(before, after), after)
        numbers = [itertools.count() for _ in self.templates]
        coming: dict[int, list[str]] = {}
        for (template, row), n in sorted(self.fit.placed.items()):
            own = (f"{self.templates[template].name}-{next(numbers[template])}" for _ in range(n))
            coming.setdefault(row, []).extend(own)
        row_of = after.nodes.row_of
        nodes = (structs.replace(node, arriving=tuple(coming.get(row_of[node.name], ()))) for node in changed.nodes)
        return structs.replace(changed, nodes=tuple(nodes))

    def _group_fit(self, index: int) -> capacity.GroupFit | UnsetType:
        template = self.templates[index]
        if template.group is None:
            return UNSET
        constraints, gang = template.group.spec.scheduling_constraints, template.group.spec.scheduling_policy.gang
        topology = constraints.topology[0].key if constraints is not None and constraints.topology else ""
        return capacity.GroupFit(
            pods=template.group_size + template.n_more,
            min_count=UNSET if gang is None else gang.min_count,
            topology_key=topology,
            domains=tuple(value for counted, value in self.fit.domains if counted == index),
        )

    def report(
        self, *, fail_on: Sequence[Condition] | None = None, nodes: NodesShown = None, before: Cluster | None = None
    ) -> capacity.CapacityReport:
        """Return the CapacityReport; `nodes` are described where the next replica does not fit, None for all.

        With the cluster `before` the replicas, every node is listed without and with them.
        """
        infos = self.session.cluster.pods.infos
        stopped = self.fit.stopped_template
        stop: capacity.Stop | None = None
        if self.stop is not None:
            name, group = "" if stopped is None else self.templates[stopped].name, self.stopped_group or UNSET
            stop = capacity.Stop(template=name, placement=self.stop.to_document(nodes), group=group)
        return capacity.CapacityReport(
            **judged(self.context, self.verdict(fail_on)),
            summary=capacity.CapacitySummary(
                fits=self.fit.total,
                wanted=self.wanted,
                limit=self.limit,
                nodes=len({row for _, row in self.fit.placed}),
                victims=len(self.fit.evicted),
            ),
            templates=tuple(
                capacity.TemplateFit(
                    name=template.name,
                    share=template.share,
                    fits=number,
                    priority=template.replicas[0].priority,
                    requests=template.requests,
                    group=self._group_fit(index),
                )
                for index, (template, number) in enumerate(zip(self.templates, self.fit.counts, strict=True))
            ),
            nodes=self.per_node(),
            zones=self.per_zone(),
            cluster=UNSET if before is None else self._map(before),
            victims=tuple(infos[pod].key for pod in self.fit.evicted),
            stop=stop,
            to_add=self.additions,
            shapes_not_tried=self.shapes_not_tried,
            sets=UNSET if self.sets is None else self.sets,
            offers=self.offers or UNSET,
            new_nodes=UNSET if self.growth is None else self.growth.changes({}),
        )


def measure(
    base: Base,
    templates: Sequence[Template],
    *,
    wanted: int | None = None,
    limit: int | None = None,
    preempt: bool = False,
    shapes: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> Capacity:
    """Count how many replicas fit, and what to add when fewer fit than are wanted; `shapes` lists what can be bought.

    Raises UsageError where there is nothing to count, or shapes do not go with the other parameters; InputError with
    all problems of the list of shapes.
    """
    if not templates:
        raise UsageError("nothing to count", hint="name manifests")
    priced = None if shapes is None else _priced(base, templates, shapes, wanted=wanted, preempt=preempt)
    stop_at = min((number for number in (wanted, limit) if number is not None), default=None)
    growth = None if preempt else Growth.of(base)
    if growth is None:
        session, fit = fill_from(base.session, templates, limit=stop_at, preempt=preempt, progress=progress)
    else:
        session, fit = fill_growing(base, templates, growth, stop_at, progress)
    stop, group = stop_of(session, templates, fit)
    has_groups = any(template.group is not None for template in templates)
    answer = Capacity(
        tuple(templates),
        fit,
        wanted,
        limit,
        stop,
        session,
        growth=growth,
        stopped_group=group,
        question=partial(measure, base, tuple(templates), wanted=wanted, limit=limit, preempt=preempt, shapes=shapes),
        make_context=partial(in_whole_groups, base.context) if has_groups else base.context,
    )
    is_short = not answer.is_enough and stop is not None and stop.outcome is Outcome.UNSCHEDULABLE
    if not is_short or wanted is None or growth is not None:
        return answer
    if priced:
        return dataclasses.replace(answer, offers=offers(base, templates, fit, wanted, priced))
    tried, not_tried = additions(base, templates, fit, wanted, preempt=preempt)
    return dataclasses.replace(answer, additions=tried, shapes_not_tried=not_tried)


def _priced(
    base: Base, templates: Sequence[Template], shapes: str | Path, *, wanted: int | None, preempt: bool
) -> Sequence[PricedShape]:
    if wanted is None or preempt:
        hint = "say how many are wanted, and leave out preempt"
        raise UsageError("shapes are for a number of replicas that is wanted", hint=hint)
    priced = read_shapes(shapes, base.objects.node_by_name)
    named = next((template.name for template in templates if template.group is not None), "")
    if named and priced:
        hint = "without shapes, nodes like those of the cluster are tried"
        raise UsageError(f"shapes with prices are not tried for whole groups like {named}", hint=hint)
    return priced


def without_nodes_and_pods(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """Return the snapshot without some nodes and the pods that run there.

    Raises NotFoundError when one of them is not in the snapshot.
    """
    gone = set(names)
    if unknown := sorted(gone - snapshot.node_by_name.keys()):
        raise no_node(unknown, snapshot.node_by_name)
    return structs.replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.metadata.name not in gone),
        pods=tuple(pod for pod in snapshot.pods if pod.spec.node_name not in gone),
    )


B = TypeVar("B", bound=Base)


def with_templates(
    base: B,
    manifests: Manifests | None,
    workloads: Sequence[str],
    *,
    mix: Sequence[int],
    wanted: int | None,
    limit: int | None,
) -> tuple[B, list[Template]]:
    """Return what is counted, that of manifests first, and a cluster with the objects and claims that it needs.

    The manifests have one replica of each workload; workloads of the cluster are KIND/NAMESPACE/NAME.
    """
    templates: list[Template] = []
    if manifests is not None:
        release = base.release
        counted = templates_of(
            manifests,
            base.snapshot,
            wanted=wanted,
            limit=limit,
            minor=release.number,
            keeps_groups=release.is_on(WORKLOAD_GATE),
        )
        base = base.for_cluster(base.snapshot, counted.objects, counted.warnings)
        templates += counted.templates
    most = most_replicas(base.snapshot, wanted=wanted, limit=limit)
    for key in workloads:
        template, claims = next_replicas(base, key, most)
        name = key.partition("/")[2]
        is_unique = [other.endswith(f"/{name}") for other in workloads].count(True) == 1
        templates.append(structs.replace(template, name=name if is_unique else key))
        base = base.with_additions(claims) if claims else base
    if mix and len(mix) != len(templates):
        numbers, hint = ":".join(map(str, mix)), "give one number for each workload, those of manifests first"
        wrong = f"{count(len(mix), 'number')} for {count(len(templates), 'workload')}"
        raise ParameterError(f"{{mix}} {numbers} has {wrong}", hint=hint)
    shared = zip(templates, mix or [1] * len(templates), strict=True)
    return base, [structs.replace(template, share=share) for template, share in shared]


def single_replicas(base: Base, sources: Sequence[Source], namespace: str | None, *, keeps_groups: bool) -> Manifests:
    """Read manifests with one replica of each workload, numbered as if no pod of that name existed.

    With `keeps_groups` all pods are read of workloads whose pods belong to pod groups.
    """
    snapshot, minor = structs.replace(base.snapshot, pods=()), base.release.number
    keeps_groups = keeps_groups and base.release.is_on(WORKLOAD_GATE)
    options = ReadOptions(snapshot=snapshot, minor=minor, namespace=namespace, replicas=1, keeps_groups=keeps_groups)
    return load_manifests(sources, options)
