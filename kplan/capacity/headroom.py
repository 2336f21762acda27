"""The answer of `kplan capacity --headroom`: how many more replicas of each workload fit, each alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from kplan.answers.placement import NodesShown, last_placement
from kplan.answers.verdict import DEFAULT_FAIL_ON, NONE, UNSCHEDULABLE, opening
from kplan.api.kinds import DAEMON_SET
from kplan.api.references import WorkloadRef
from kplan.capacity.counting import fill_from
from kplan.capacity.measure import requests_of
from kplan.capacity.own_workloads import next_replicas, own_workloads
from kplan.capacity.replicas import Template
from kplan.capacity.templates import templates_of
from kplan.cluster.asking import AskAll, answers
from kplan.cluster.base import Base
from kplan.cluster.limits import DEFAULT_HEADROOM
from kplan.documents.base import Condition, Counted
from kplan.documents.headroom import HeadroomReport, WorkloadHeadroom
from kplan.errors import UsageError
from kplan.subjects.incoming import with_objects
from kplan.workloads.manifests import Manifests


def count_more(
    base: Base,
    *,
    workload: str,
    running: int,
    limit: int | None,
    nodes: NodesShown = None,
    template: Template | None = None,
) -> WorkloadHeadroom:
    """Place replicas of a workload until one does not fit, and return how many more fit.

    Parameters
    ----------
    workload : KIND/NAMESPACE/NAME
    limit : the count stops here; None for `DEFAULT_HEADROOM` where replicas are placed one by one
    template : the template of its pods; None for that of the workload in the snapshot
    """
    if template is None:
        template, claims = next_replicas(base, workload, DEFAULT_HEADROOM if limit is None else limit)
        if claims:
            base = base.with_snapshot(with_objects(base.snapshot, claims))
    session, fit = fill_from(base.session, [template], limit=limit, sequential_limit=DEFAULT_HEADROOM)
    stop = None if fit.stop is None else last_placement(session, fit.stop, template.origin)
    return WorkloadHeadroom(
        workload=workload,
        running=running,
        fits=fit.total,
        nodes=len(fit.placed),
        priority=template.replicas[0].priority,
        requests=requests_of(template),
        stop=None if stop is None else stop.to_document(nodes),
    )


B = TypeVar("B", bound=Base)


def headroom_report(
    base: Base,
    templates: Sequence[Template] | None = None,
    *,
    among: Sequence[str] = (),
    namespace: str = "",
    wanted: int | None = None,
    limit: int | None = None,
    fail_on: Sequence[Condition] | None = None,
    nodes: NodesShown = None,
    ask_all: AskAll | None = None,
) -> HeadroomReport:
    """Return the HeadroomReport.

    Parameters
    ----------
    templates : None for workloads of the snapshot
    among : the workloads of the snapshot, as KIND/NAMESPACE/NAME; empty for all of them
    namespace : their namespace; empty for all
    wanted : how many more replicas of each workload should fit
    limit : each count stops here; None for `wanted`, or for `DEFAULT_HEADROOM` where replicas are placed one by one
    fail_on : what makes the verdict a failure; None for the defaults, which need `wanted`
    nodes : the nodes to explain for a replica that does not fit; None for all
    ask_all : answers the questions; None answers one after the other
    """
    stop_at = wanted if limit is None else limit
    running = {own_workload.key: own_workload.running for own_workload in own_workloads(base)}
    if templates is None:
        counted_keys = among or [
            key for key in running if not namespace or WorkloadRef.parse(key).namespace == namespace
        ]
        counted: list[tuple[str, Template | None]] = [(key, None) for key in counted_keys]
    else:
        counted = [(_key(template), template) for template in templates]
    questions = [
        partial(count_more, workload=key, running=running.get(key, 0), limit=stop_at, nodes=nodes, template=template)
        for key, template in counted
    ]
    if not questions:
        where = f" in namespace {namespace}" if namespace else ""
        raise UsageError(
            f"the snapshot has no workload{where}", hint="name a manifest: kplan capacity --headroom web.yaml"
        )
    workloads = answers(base, questions, ask_all)
    workloads.sort(key=lambda workload: (workload.fits, workload.stop is None, workload.workload))
    default = (NONE,) if wanted is None else DEFAULT_FAIL_ON["capacity"]
    chosen = default if fail_on is None else fail_on
    short = [workload for workload in workloads if wanted is not None and workload.fits < wanted]
    failures = [Counted(workload.workload, "Unschedulable") for workload in short if UNSCHEDULABLE in chosen]
    return HeadroomReport(
        **opening(base.context(), chosen, failures),
        wanted=wanted,
        limit=DEFAULT_HEADROOM if stop_at is None else stop_at,
        workloads=tuple(workloads),
    )


def base_of_manifests(
    base: B, manifests: Manifests, *, wanted: int | None = None, limit: int | None = None
) -> tuple[B, list[Template]]:
    """Return a planner whose cluster holds the objects of manifests, and their workloads, each admitted alone.

    Parameters
    ----------
    manifests : one replica of each workload; daemon sets are left out, because they have no replicas
    wanted, limit : as for `headroom_report`

    Raises
    ------
    ManifestError, UsageError
        As `kplan.capacity.templates.templates_of`.
    """
    most = DEFAULT_HEADROOM if limit is None and wanted is None else limit
    counted = [pod for pod in manifests.pods if pod.kind != DAEMON_SET]
    alone = [replace(manifests, pods=(pod,)) for pod in counted] or [manifests]
    minor = base.release.number
    counts = [templates_of(workload, base.snapshot, wanted=wanted, limit=most, minor=minor) for workload in alone]
    objects = [obj for count in counts for obj in count.objects]
    warnings = dict.fromkeys(warning for count in counts for warning in count.warnings)
    return base.for_cluster(base.snapshot, objects, warnings), [
        template for count in counts for template in count.templates
    ]


def _key(template: Template) -> str:
    """Return the workload of a template as KIND/NAMESPACE/NAME."""
    origin = template.origin
    return template.name if origin is None else origin.key_in(template.replicas[0].namespace)
