"""How many more replicas of each workload fit, each alone: of all, or of those for which a cluster should keep room.

That is for surges, for autoscalers at their maximum, and for the largest pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod, PodSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.names import WorkloadRef, object_name
from kplan.api.quantity import grouped
from kplan.capacity.counting import fill_from, stop_of
from kplan.capacity.templates import Template, next_replicas, own_workloads, templates_of
from kplan.cluster.base import Base
from kplan.cluster.incoming import IncomingPod, with_objects
from kplan.course.answers.placement import NodesShown
from kplan.course.answers.utilisation import pool_label
from kplan.course.answers.verdict import conditions, head_of
from kplan.course.asking import Showing, answers
from kplan.course.beginning import fit_anyhow, unmoved
from kplan.course.in_order import place_in_order
from kplan.course.simulation.controllers.deployment import WantedDeployment
from kplan.course.simulation.pod_creation import PodMaker
from kplan.documents.base import Condition, Counted
from kplan.documents.capacity import HeadroomReport, WorkloadHeadroom
from kplan.documents.placement import Origin
from kplan.errors import NotFoundError, UsageError
from kplan.framework.results import Outcome
from kplan.reading.arguments import DEFAULT_HEADROOM
from kplan.rules.pod_info import PodInfo, daemon_set_of
from kplan.workloads import Manifests
from kplan.workloads.autoscalers import live_replicas


def count_more(
    base: Base,
    *,
    workload: str,
    running: int,
    limit: int | None,
    nodes: NodesShown = None,
    template: Template | None = None,
    only_outcomes: bool = False,
) -> WorkloadHeadroom:
    """Place replicas of a workload, KIND/NAMESPACE/NAME, until one does not fit, and return how many more fit.

    Where they are placed one by one without a limit, the count stops at `DEFAULT_HEADROOM`. With `only_outcomes` it may
    stay open how many nodes take them where all fit on any. Without a template it is that of the snapshot.
    """
    if template is None:
        template, claims = next_replicas(base, workload, DEFAULT_HEADROOM if limit is None else limit)
        if claims:
            base = base.with_snapshot(with_objects(base.snapshot, claims))
    first, is_one = template.replicas[0], not template.are_distinct and not template.refused
    if only_outcomes and limit is not None and is_one and fit_anyhow(base, [(first, limit)]):
        n_fit, n_nodes, stop = limit, 0, None
    else:
        session, fit = fill_from(base.session, [template], limit=limit, sequential_limit=DEFAULT_HEADROOM)
        n_fit, n_nodes = fit.total, len(fit.placed)
        stop, _ = stop_of(session, [template], fit)
    return WorkloadHeadroom(
        workload=workload,
        running=running,
        fits=n_fit,
        nodes=n_nodes,
        priority=first.priority,
        requests=template.requests,
        stop=None if stop is None else stop.to_document(nodes),
    )


B = TypeVar("B", bound=Base)


def headroom_report(
    base: Base,
    templates: Sequence[Template] | None,
    showing: Showing,
    *,
    among: Sequence[str],
    namespace: str,
    wanted: int | None,
    limit: int | None,
) -> HeadroomReport:
    """Return the HeadroomReport about templates, or else among workloads of the snapshot, KIND/NAMESPACE/NAME.

    Each count stops at the limit: by default at the number `wanted`, or at `DEFAULT_HEADROOM` where replicas are placed
    one by one. By default only a number that is wanted makes it fail.
    """
    stop_at = wanted if limit is None else limit
    running, nodes = own_workloads(base), showing.explained
    if templates is None:
        keys = among or [key for key in running if namespace in ("", WorkloadRef.parse(key).namespace)]
        counted: list[tuple[str, Template | None]] = [(key, None) for key in keys]
    else:
        counted = [(_key(template), template) for template in templates]
    questions = [
        partial(count_more, workload=key, running=running.get(key, 0), limit=stop_at, nodes=nodes, template=template)
        for key, template in counted
    ]
    if not questions:
        where = f" in namespace {namespace}" if namespace else ""
        hint = "name a manifest: kplan capacity --headroom web.yaml"
        raise UsageError(f"the snapshot has no workload{where}", hint=hint)
    workloads = answers(base, questions, showing.ask_all)
    workloads.sort(key=lambda workload: (workload.fits, workload.stop is None, workload.workload))
    chosen = conditions(showing.fail_on, None if wanted is None else "capacity")
    return _report(base, workloads, chosen, wanted, DEFAULT_HEADROOM if stop_at is None else stop_at)


def _report(
    base: Base, workloads: Sequence[WorkloadHeadroom], fail_on: Sequence[Condition], wanted: int | None, limit: int
) -> HeadroomReport:
    """Return the report about workloads; `wanted`: how many more replicas of each, unless it says so itself."""
    short = [one.workload for one in workloads if one.fits < (one.wanted or wanted or 0)]
    lacking = (Counted(name, "Unschedulable") for name in short)
    return HeadroomReport(
        **head_of(base.context(), fail_on, lacking), wanted=wanted, limit=limit, workloads=tuple(workloads)
    )


def base_of_manifests(
    base: B, manifests: Manifests, *, wanted: int | None, limit: int | None
) -> tuple[B, list[Template]]:
    """Return a cluster that holds the objects of manifests, and their workloads, each admitted alone.

    The manifests have one replica of each; daemon sets are left out, because they have no replicas. Raises
    ManifestError and UsageError as `kplan.capacity.templates.templates_of`.
    """
    most = DEFAULT_HEADROOM if limit is None and wanted is None else limit
    counted = [pod for pod in manifests.pods if pod.kind != DAEMON_SET]
    alone = [replace(manifests, pods=(pod,)) for pod in counted] or [manifests]
    minor = base.release.number
    counts = [templates_of(workload, base.snapshot, wanted=wanted, limit=most, minor=minor) for workload in alone]
    objects = [obj for count in counts for obj in count.objects]
    warnings = dict.fromkeys(warning for count in counts for warning in count.warnings)
    templates = [template for count in counts for template in count.templates]
    return base.for_cluster(base.snapshot, objects, warnings), templates


def _key(template: Template) -> str:
    origin = template.origin
    return template.name if origin is None else origin.key_in(template.replicas[0].namespace)


Wanted = tuple[str, int]  #: KIND/NAMESPACE/NAME of a workload, and how many more replicas of it should fit


def surges(base: Base) -> list[Wanted]:
    """Return the Deployments with the number of pods that they create above their replicas in a rollout."""
    rolled = (one for one in base.objects.deployments if not one.spec.paused)
    wanted = ((f"Deployment/{one.metadata.key}", WantedDeployment.of(one).fenceposts[0]) for one in rolled)
    return [(key, surge) for key, surge in wanted if surge > 0]


def maxima(base: Base) -> list[Wanted]:
    """Return the workloads of autoscalers, with the number of running replicas that they lack to their maximum.

    An autoscaler does nothing where its workload has 0 replicas (upstream: horizontal.go reconcileAutoscaler).
    """
    running = own_workloads(base)
    wanted: dict[str, int] = {}
    for scaler in base.objects.horizontal_pod_autoscalers:
        target, namespace = scaler.spec.scale_target_ref, scaler.metadata.namespace
        live = live_replicas(base.objects, target.kind, namespace, target.name)
        if live:
            key = object_name(target.kind, namespace, target.name)
            missing = scaler.spec.max_replicas - running.get(key, live)
            wanted[key] = max(wanted.get(key, 0), missing)
    return sorted((key, missing) for key, missing in wanted.items() if missing > 0)


def alone(base: Base, wanted: Sequence[Wanted], *, fail_on: Sequence[Condition], showing: Showing) -> HeadroomReport:
    """Count for each workload alone whether so many more of its replicas fit, also on nodes that an autoscaler adds."""
    running = own_workloads(base)
    known = [(key, number) for key, number in wanted if key in running]
    count_here = partial(count_more, nodes=(), only_outcomes=showing.only_outcomes)
    questions = [partial(count_here, workload=key, running=running[key], limit=number) for key, number in known]
    counted = answers(base, questions, showing.ask_all)
    rooms = (replace(answer, wanted=number) for answer, (_, number) in zip(counted, known, strict=True))
    return _of_rooms(base, [_with_new_nodes(base, room) for room in rooms], fail_on)


def _with_new_nodes(base: Base, room: WorkloadHeadroom) -> WorkloadHeadroom:
    number = room.wanted or 0
    is_full = room.stop is not None and room.stop.outcome is Outcome.UNSCHEDULABLE
    if base.followed is None or room.fits >= number or not is_full:
        return room
    plan = place_in_order(*next_pods(base, [(room.workload, number)]))
    n_placed = sum(placement.node is not None for placement in plan.placements)
    fits = max(room.fits, n_placed)
    return replace(room, fits=fits, stop=None if fits >= number else room.stop)


def _of_rooms(base: Base, rooms: Iterable[WorkloadHeadroom], fail_on: Sequence[Condition]) -> HeadroomReport:
    ordered = sorted(rooms, key=lambda room: (room.fits >= (room.wanted or 0), room.workload))
    return _report(base, ordered, fail_on, None, max((room.wanted or 0 for room in ordered), default=0))


def next_pods(base: Base, wanted: Iterable[Wanted]) -> tuple[Base, list[Pod | IncomingPod]]:
    """Return the next pods of workloads, with what quotas say to all of them together, and a base with their claims."""
    maker = PodMaker(base.objects, unmoved(base).session.listers.fork(), base.release.number)
    with_quota = {quota.metadata.namespace for quota in base.objects.resource_quotas}
    pods: list[Pod | IncomingPod] = []
    claims: list[msgspec.Struct] = []
    for key, number, template, own_claims in _next_of(base, wanted):
        claims += own_claims
        replicas = [info.pod for info in template.replicas]
        ref = WorkloadRef.parse(key)
        origin = Origin(base.snapshot.source, kind=ref.kind, name=ref.name)
        for index in range(number if replicas else 0):
            pod = _numbered(replicas[index % len(replicas)], index, number)
            refused = template.refused or (maker.make_bare(pod)[1] if ref.namespace in with_quota else "")
            pods.append(IncomingPod(pod, origin, refused) if refused else pod)
    return base.with_snapshot(with_objects(base.snapshot, claims)) if claims else base, pods


def _next_of(base: Base, wanted: Iterable[Wanted]) -> Iterator[tuple[str, int, Template, list[msgspec.Struct]]]:
    """Yield workloads with their next pods and the claims of these, where the snapshot says what pods they make."""
    for key, number in wanted:
        with suppress(NotFoundError):
            yield key, number, *next_replicas(base, key, number)


def fit_together(base: Base, wanted: Iterable[Wanted]) -> int | None:
    """Return how many `next_pods` there are if they certainly fit together, whichever nodes are chosen; else None."""
    with_quota = {quota.metadata.namespace for quota in base.objects.resource_quotas}
    pods: list[tuple[PodInfo, int]] = []
    for key, number, template, claims in _next_of(base, wanted):
        if claims or template.refused or template.are_distinct or WorkloadRef.parse(key).namespace in with_quota:
            return None
        pods.append((template.replicas[0], number))
    return sum(number for _, number in pods) if fit_anyhow(base, pods) else None


def _numbered(pod: Pod, index: int, of: int) -> Pod:
    name = pod.metadata.name if of == 1 else f"{pod.metadata.name}-more-{index + 1}"
    return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}-{index + 1}"))


def room_for_largest(base: Base, *, fail_on: Sequence[Condition]) -> HeadroomReport:
    """Count for each pool whether one more pod as large as its largest one fits there.

    Each row of the report is a pool, with the pod that is its largest as the workload. Raises NotFoundError when no
    node says to which pool it belongs.
    """
    label = pool_label(base.session.cluster.nodes)
    if label is None:
        raise NotFoundError("no node says to which pool it belongs", hint="nodes of clouds have a label for it")
    rooms = []
    for pool, pod in sorted(_largest(base, label)):
        # A pending pod with its requests and tolerations, for the nodes of the pool.
        spec = PodSpec(
            containers=pod.spec.containers,
            init_containers=pod.spec.init_containers,
            overhead=pod.spec.overhead,
            resources=pod.spec.resources,
            tolerations=pod.spec.tolerations,
            scheduler_name=pod.spec.scheduler_name,
            node_selector={label: pool},
        )
        name, uid = f"{pod.metadata.name}-more", f"{pod.metadata.uid}-more"
        large = Pod(metadata=replace(pod.metadata, name=name, uid=uid, labels={}), spec=spec)
        template = Template(pool, (PodInfo(large),))
        key = object_name("Pod", pod.metadata.namespace, pod.metadata.name)
        room = count_more(base, workload=key, running=1, limit=1, nodes=(), template=template)
        rooms.append(replace(room, wanted=1, pool=pool))
    return _of_rooms(base, rooms, fail_on)


def _largest(base: Base, label: str) -> Iterator[tuple[str, Pod]]:
    """Yield each pool with its pod whose requests are the largest share of what its node has; of equal ones by name."""
    nodes = base.session.cluster.nodes
    pools = {node.metadata.name: node.metadata.labels.get(label) for node in base.objects.nodes}
    running = ((pools.get(info.pod.spec.node_name), info) for info in base.session.cluster.pods.infos)
    by_pool = grouped((pool, info) for pool, info in running if pool is not None and not daemon_set_of(info.pod))

    def share(info: PodInfo) -> float:
        row = nodes.row_of[info.pod.spec.node_name]
        offered = {name: int(nodes.allocatable(name)[row]) for name in info.requests}
        return max((amount / offered[name] for name, amount in info.requests.items() if offered[name]), default=0.0)

    for pool, infos in by_pool.items():
        yield pool, min(infos, key=lambda info: (-share(info), info.key)).pod
