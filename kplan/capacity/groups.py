"""Whole pod groups, which are placed as copies of one group until one is not whole."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kplan.answers.placement import Placement
from kplan.answers.pod_groups import group_plan, member_placement, share_of
from kplan.api.scheduling import PodGroup
from kplan.capacity.replicas import Fit, StoppedGroup, Template
from kplan.diagnosis.replicas import ALONE
from kplan.documents.placement import Origin
from kplan.documents.pod_groups import GroupPlan
from kplan.framework.cycle import schedule_pod
from kplan.framework.group_cycle import GroupResult, GroupTry, reserve_again, schedule_group, try_group
from kplan.framework.listers import Key
from kplan.framework.outcome import Outcome
from kplan.framework.session import Session
from kplan.framework.status import Status
from kplan.rules.pod_info import PodInfo

FIRST_COPY = "-copy-0"
"""Ends the name of the first group that is counted, where the cluster has pods of the manifest's own."""


def copy_of(template: Template, number: int) -> tuple[PodGroup, list[PodInfo]] | None:
    """Return a group like that of a template, with its pods; None when there are no more that have their own claims.

    The first is the group of the manifest itself. The pods of further ones have the same labels, as those of one
    workload have.
    """
    group, size = template.group, template.group_size
    assert group is not None  # noqa: S101 - the template is that of a group
    number += template.first
    start = number * size if template.are_distinct else 0
    pods = template.replicas[start : start + size]
    if len(pods) < size:
        return None
    if number == 0:
        return group, list(pods)
    name = f"{group.metadata.name.removesuffix(FIRST_COPY)}-copy-{number}"
    metadata = replace(group.metadata, name=name, uid=f"{group.metadata.namespace}/{name}")
    return replace(group, metadata=metadata), [_member(info, name, number, template) for info in pods]


def _member(info: PodInfo, group: str, number: int, template: Template) -> PodInfo:
    pod = info.pod
    own = pod.spec.scheduling_group
    assert own is not None  # noqa: S101 - all pods of the template name a group
    name = pod.metadata.name if template.are_distinct else f"{pod.metadata.name}-copy-{number}"
    metadata = replace(pod.metadata, name=name, uid=f"{pod.metadata.namespace}/{name}")
    return PodInfo(
        replace(pod, metadata=metadata, spec=replace(pod.spec, scheduling_group=replace(own, pod_group_name=group)))
    )


def place_group(session: Session, template: Template, index: int, refused: str, fit: Fit, *, preempt: bool) -> bool:
    """Place the next group of a template as a whole; tell whether it is whole, and note in `fit` what came of it.

    Parameters
    ----------
    index : of the template
    refused : why the API server refuses one of its pods; empty if it accepts all
    """
    copied = copy_of(template, fit.counts[index])
    if copied is None:
        fit.exhausted_template = index
        return False
    group, infos = copied
    key = (group.metadata.namespace, group.metadata.name)
    session.pod_groups.groups[key] = group
    session.pod_groups.remove(session.pod_groups.unscheduled(key))  # of a try on fewer nodes
    rows = [session.add_pod(info) for info in infos]
    for row in rows if refused else ():
        session.refused[row] = refused
    tried = None if refused else _tried(session, key, rows, fit, preempt=preempt)
    fits = tried is not None and tried.status.is_success and all(member.fits for member in tried.members)
    if tried is None or not fits or len(tried.members) < len(rows) or template.n_more:
        fit.stopped_group = StoppedGroup(key, tuple(rows), None if tried is None else GroupTry.of(tried))
        first = rows[0] if fit.stopped_group.tried is None else _first_misfit(fit.stopped_group)
        fit.stop = schedule_pod(session, first, looks_for_victims=False)
        if fit.stop.row is not None:  # it fits where its group may not run
            fit.stop.outcome, fit.stop.row = Outcome.UNSCHEDULABLE, None
        fit.stopped_template = index
        return False
    for member in tried.members:
        if member.row is not None and reserve_again(member).is_success:
            session.bind(member.pod, member.row)
            fit.placed[index, member.row] += 1
    if tried.placement is not None and tried.placement.key:
        fit.domains.append((index, tried.placement.value))
    fit.counts[index] += 1
    return True


def _first_misfit(stopped: StoppedGroup) -> int:
    return stopped.pods[0] if stopped.tried is None or stopped.tried.misfit is None else stopped.tried.misfit


def _tried(session: Session, key: Key, rows: Sequence[int], fit: Fit, *, preempt: bool) -> GroupResult | None:
    """Try a group, after its victims have left where it may evict; None where its pods are kept out of the queue."""
    infos = session.cluster.pods.infos
    for row in rows:
        framework = session.framework_for(infos[row])
        if framework is None or not framework.run_pre_enqueue(infos[row]).is_success:
            return None
    pods = sorted(rows, key=lambda row: -infos[row].priority)
    group = schedule_group(session, key, pods) if preempt else try_group(session, key, pods, looks_for_victims=False)
    if not group.waits:
        return group
    victims = list(dict.fromkeys(group.victims))
    if any(victim >= fit.n_before for victim in victims):
        return group  # it would only take the place of another group that is counted
    for victim in victims:
        session.evict(victim)
    session.pod_groups.remove(victims)
    again = try_group(session, key, pods, looks_for_victims=False)
    if again.status.is_success:
        fit.evicted += victims
    return again


def stopped_placement(session: Session, stopped: StoppedGroup, origin: Origin | None) -> Placement:
    """Return the decision about the first pod of a group that does not fit, after which its session never changes."""
    return member_placement(session, _first_misfit(stopped), stopped.pods, ALONE, origin)


def stopped_plan(session: Session, stopped: StoppedGroup, placement: Placement) -> GroupPlan:
    """Return what becomes of the first group that is not whole."""
    is_gated = stopped.tried is None and placement.outcome is Outcome.GATED
    return group_plan(
        session,
        stopped.key,
        dict.fromkeys(stopped.pods, False),
        stopped.tried or GroupTry(Status.unschedulable(), frozenset(), waits=False),
        messages={_first_misfit(stopped): placement.message},
        is_gated=is_gated,
        victims=(),
        violating=(),
        n_violating=0,
        most_tried=share_of(1),
    )
