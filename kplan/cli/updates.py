"""Manifests of workloads that run already, which are changes of them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kplan.cli.answer import Question, formats_of, shown_nodes, wants_map
from kplan.cli.flags import OutputFlags
from kplan.cli.help import MORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.cluster.base import PodLike
    from kplan.documents.base import Condition
    from kplan.documents.placement import Origin
    from kplan.documents.plan import PlanReport
    from kplan.effects.decisions import Decisions
    from kplan.effects.updating import Update
    from kplan.workloads import Manifests
    from kplan.workloads.manifests import ManifestWorkload


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
    update = update_of(question, replicas, even_new=to_rest)
    if update is None:
        return None
    base, written = update
    base.on_progress = question.planner.on_progress
    from kplan.effects.change import carry_out
    from kplan.effects.report import change_report

    decisions = decisions_for(question, output)
    change = carry_out(base, written, rollout=rollout.value, decisions=decisions, to_rest=to_rest)
    with_map = wants_map(output, formats_of(output))
    return change_report(
        base,
        change,
        command,
        fail_on=fail_on,
        nodes=shown_nodes(output),
        decisions=decisions,
        with_map=with_map,
        max_listed=output.max_listed,
    )


def decisions_for(question: Question, output: OutputFlags) -> Decisions:
    """Return what collects the decisions that the formats show."""
    from kplan.effects.decisions import Decisions

    formats = formats_of(output)
    return Decisions(
        nodes=shown_nodes(output),
        others=shown_nodes(output, with_score_details=False),
        explains_others=not _OUTLINE_FORMATS.issuperset(formats),
        covers_updates=output.explain,
        covers_all=has_documents(formats),
        origins=origins_of(question.manifests),
    )


def update_of(question: Question, replicas: int | None, *, even_new: bool = False) -> Update | None:
    """Return what the manifests of a question change; None where all of their workloads are new."""
    if question.manifests is None or question.names_pods:
        return None
    from kplan.effects.updating import requested_update

    return requested_update(
        question.planner, question.manifests, replicas, run_cronjobs=question.run_cronjobs, even_new=even_new
    )


def has_documents(formats: Sequence[str]) -> bool:
    """Return whether any format holds the whole report, with the decision about each pod."""
    return any(name.startswith(_DOCUMENT_FORMATS) for name in formats)


def origins_of(manifests: Manifests | None) -> dict[str, Origin]:
    """Return the position of each workload in the files, by KIND/NAMESPACE/NAME."""
    from kplan.subjects.incoming import origin_of

    if manifests is None:
        return {}
    return {workload.key: origin_of(workload) for workload in manifests.workloads}


def has_updates(question: Question) -> bool:
    """Tell whether the cluster has any of the workloads of the manifests; single pods do not count."""
    if question.manifests is None:
        return False
    from kplan.effects.updating import has_updates

    return has_updates(question.manifests, question.planner.snapshot)


def without_workload(manifests: Manifests, key: str, earlier: Manifests | None) -> Manifests:
    """Return manifests without a workload, or with it as it was in earlier ones.

    Parameters
    ----------
    key : KIND/NAMESPACE/NAME
    """
    from msgspec.structs import replace

    def is_it(workload: ManifestWorkload) -> bool:
        return workload.key == key

    gone = {id(workload.item) for workload in manifests.workloads if is_it(workload)}
    was = () if earlier is None else tuple(filter(is_it, earlier.workloads))
    return replace(
        manifests,
        workloads=(*(workload for workload in manifests.workloads if not is_it(workload)), *was),
        items=(*(item for item in manifests.items if id(item) not in gone), *(workload.item for workload in was)),
    )


def pods_without(pods: Sequence[PodLike], key: str) -> list[PodLike]:
    """Return the pods of a question without those of a workload of its manifests, KIND/NAMESPACE/NAME."""
    from kplan.subjects.incoming import IncomingPod

    return [
        pod for pod in pods if not isinstance(pod, IncomingPod) or pod.origin.key_in(pod.pod.metadata.namespace) != key
    ]
