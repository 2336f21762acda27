"""Manifests of workloads that run already, which are changes of them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kplan.cli.answer import Question, formats_of, shown_nodes, wants_map
from kplan.cli.flags import OutputFlags
from kplan.cli.help import MORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.documents.base import Condition
    from kplan.documents.placement import Origin
    from kplan.documents.plan import PlanReport
    from kplan.planner.planner import Planner
    from kplan.workloads import Manifests
    from kplan.workloads.changes import WrittenWorkload


class RolloutMode(StrEnum):
    """When a workload that runs already rolls out."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


RolloutOption = Annotated[
    RolloutMode,
    typer.Option(
        "--rollout",
        help="Replace the pods of a workload that runs already: if its template changes, always, or never.",
        rich_help_panel=MORE,
    ),
]

_OUTLINE_FORMATS = frozenset({"table", "wide", "markdown", "name"})
"""Formats that show reasons for the first pod of a new workload, and only the nodes of the others."""

_DOCUMENT_FORMATS = ("json", "yaml")
"""Formats that hold the whole report; jsonpath is one of them."""

_REPLICAS_FIELD = {"Job": "parallelism"}
_WITHOUT_REPLICAS = frozenset({"Pod", "DaemonSet", "CronJob", "PodTemplate"})
_REPORTED_AS_CHANGES = frozenset({"AlreadyExists", "AutoscaledReplicas"})
"""Warnings about existing objects and autoscalers, which the report of a change covers itself."""


def change_document(
    question: Question,
    command: str,
    *,
    rollout: RolloutMode,
    output: OutputFlags,
    fail_on: Sequence[Condition],
    replicas: int | None,
    to_rest: bool = False,
) -> PlanReport | None:
    """Return the report about manifests if any of them are in the cluster already; None where all are new.

    Parameters
    ----------
    to_rest : return the report also where all are new, and work off the queue even where the manifests change nothing,
        as for two answers that are compared
    """
    update = requested_update(question, replicas, even_new=to_rest)
    if update is None:
        return None
    base, written = update
    base.on_progress = question.planner.on_progress
    from kplan.planner.change import carry_out
    from kplan.planner.change_report import change_report
    from kplan.planner.decisions import Decisions

    formats = formats_of(output)
    shown = shown_nodes(output)
    decisions = Decisions(
        nodes=shown,
        others=shown_nodes(output, with_score_details=False),
        explains_others=not _OUTLINE_FORMATS.issuperset(formats),
        covers_updates=output.explain,
        covers_all=has_documents(formats),
        origins=_origins(question.manifests),
    )
    change = carry_out(base, written, rollout=rollout.value, decisions=decisions, to_rest=to_rest)
    with_map = wants_map(output, formats)
    return change_report(
        base,
        change,
        command,
        fail_on=fail_on,
        nodes=shown,
        decisions=decisions,
        with_map=with_map,
        max_listed=output.max_listed,
    )


def requested_update(
    question: Question, replicas: int | None, *, even_new: bool = False
) -> tuple[Planner, list[WrittenWorkload]] | None:
    """Return the workloads to apply, and a planner with the other objects applied; None where all are new."""
    planner, manifests = question.planner, question.manifests
    if manifests is None or question.names_pods or not (even_new or has_updates(question)):
        return None
    from kplan.planner.incoming import accepted_objects
    from kplan.simulation.updates import CHANGED_IN_PLACE
    from kplan.workloads.started import with_runs

    others = [obj for obj in manifests.objects if type(obj) not in CHANGED_IN_PLACE]
    admitting, objects = accepted_objects(others, planner.snapshot, planner.release.number)
    warnings = [
        warning for warning in (*manifests.warnings, *admitting.warnings) if warning.code not in _REPORTED_AS_CHANGES
    ]
    written = _written(manifests, replicas)
    return planner.with_world(planner.snapshot, objects, warnings), with_runs(
        written
    ) if question.run_cronjobs else written


def has_documents(formats: Sequence[str]) -> bool:
    """Return whether any format holds the whole report, with the decision about each pod."""
    return any(name.startswith(_DOCUMENT_FORMATS) for name in formats)


def _origins(manifests: Manifests | None) -> dict[str, Origin]:
    """Return the position of each workload in the files, by KIND/NAMESPACE/NAME."""
    from kplan.planner.incoming import origin_of

    if manifests is None:
        return {}
    return {
        f"{workload.kind}/{workload.namespace}/{workload.name}": origin_of(workload) for workload in manifests.workloads
    }


def has_updates(question: Question) -> bool:
    """Tell whether the cluster has any of the workloads of the manifests; single pods do not count."""
    manifests, snapshot = question.manifests, question.planner.snapshot
    if manifests is None:
        return False
    workloads = [workload for workload in manifests.workloads if workload.kind != "Pod"]
    if not workloads:
        return False
    from kplan.simulation.updates import CHANGED_IN_PLACE
    from kplan.workloads.manifests import workload_type

    for workload in workloads:
        target = workload_type(workload.item.api_version, workload.kind)
        if target is None or target not in CHANGED_IN_PLACE:
            continue
        live = getattr(snapshot, CHANGED_IN_PLACE[target].attribute)
        if any((obj.metadata.namespace, obj.metadata.name) == (workload.namespace, workload.name) for obj in live):
            return True
    return False


def _written(manifests: Manifests, replicas: int | None) -> list[WrittenWorkload]:
    """Return the workloads as in the manifests, with their namespaces, names and numbers of replicas."""
    from kplan.workloads.changes import WrittenWorkload
    from kplan.workloads.manifests import workload_type

    workloads: list[WrittenWorkload] = []
    for workload in manifests.workloads:
        target = workload_type(workload.item.api_version, workload.kind)
        if target is None:
            continue
        content: dict[str, Any] = workload.item.value()
        content["metadata"] = {**content.get("metadata", {}), "namespace": workload.namespace, "name": workload.name}
        if replicas is not None and workload.kind not in _WITHOUT_REPLICAS:
            field = _REPLICAS_FIELD.get(workload.kind, "replicas")
            content["spec"] = {**content.get("spec", {}), field: replicas}
        workloads.append(WrittenWorkload(target, content))
    return workloads
