"""Replicas counted in a cluster whose autoscaler adds nodes for those that fit nowhere."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from kplan.api.core import Pod, PodCondition
from kplan.capacity.counting import Fit, Template, copy_of, fill_from, has_quotas
from kplan.cluster.base import Base
from kplan.cluster.growth import Growth, as_waiting
from kplan.cluster.in_order import join_nodes
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.pod_groups import group_of
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.subjects.incoming import with_objects

MOST_NODES = 1_000
"""So many nodes are added at most where no number of replicas is wanted, since a pool may have no limit."""

_FIRST_WAITING = 64
"""So many replicas wait for nodes at first, and twice as many each time after that."""


def fill_growing(
    base: Base,
    templates: Sequence[Template],
    growth: Growth,
    *,
    limit: int | None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Session, Fit]:
    """Place replicas until one fits nowhere, and no node comes for it.

    Parameters
    ----------
    growth : receives what is added
    """
    session, fit = fill_from(base.session, templates, limit=limit, progress=progress)
    if has_quotas(session, templates):
        message = "quotas limit its replicas, which are counted on the present nodes only"
        growth.warnings[InputWarning("NotFollowed", templates[0].name, message)] = None
        return session, fit
    n_waiting = _FIRST_WAITING
    while _waits(fit) and len(growth.adds) < MOST_NODES and not growth.is_stopped:
        left = None if limit is None else limit - fit.total
        there = [obj for new in growth.adds for obj in (*new.daemons, *new.objects)]
        names = session.cluster.nodes.names
        running = [*_running(templates, fit, names), *_running_in_groups(session, len(base.session.cluster.pods.infos))]
        waiting = list(_waiting(templates, fit, n_waiting, left))
        growth.note_groups(session, () if fit.stopped_group is None else fit.stopped_group.pods)
        n_waiting *= 2
        pods = [*running, *waiting]
        present = tuple(pod for pod in base.objects.pods if pod.spec.node_name)
        snapshot = with_objects(dataclasses.replace(base.objects, pods=(*present, *pods)), there)
        adds = growth.look(as_waiting(snapshot, session.cluster.nodes.nodes), session, base.now)
        if not adds:
            break
        join_nodes(session, adds)
        rest = [_without(template, n) for template, n in zip(templates, fit.counts, strict=True)]
        session, more = fill_from(session, rest, limit=left, progress=progress)
        if not more.total and more.stopped_group is None:
            break
        more.placed += fit.placed
        more.counts = [before + n for before, n in zip(fit.counts, more.counts, strict=True)]
        more.domains = [*fit.domains, *more.domains]
        fit = more
    if len(growth.adds) >= MOST_NODES:
        message = f"more nodes may come; the count ends after {len(growth.adds):,} of them"
        growth.warnings[InputWarning("AutoscalerStopped", growth.autoscaler.name, message)] = None
    return session, fit


def _waits(fit: Fit) -> bool:
    return fit.stop is not None and fit.stop.outcome is Outcome.UNSCHEDULABLE


def _without(template: Template, n: int) -> Template:
    """Return a template without its first replicas, where these differ from the others, or its first groups."""
    if template.group is not None:
        return structs.replace(template, first=template.first + n)
    return structs.replace(template, replicas=template.replicas[n:]) if template.are_distinct else template


def _replica(template: Template, number: int) -> Pod | None:
    info = template.replica(number)
    if info is None:
        return None
    own = info.pod.metadata
    name = own.name if template.are_distinct else f"{own.name.removesuffix('-0')}-{number}"
    return structs.replace(info.pod, metadata=structs.replace(own, name=name, uid=f"{own.namespace}/{name}"))


def _running(templates: Sequence[Template], fit: Fit, names: Sequence[str]) -> Iterator[Pod]:
    numbers: Counter[int] = Counter()
    for (index, row), n in sorted(fit.placed.items()):
        for _ in range(0 if templates[index].group is not None else n):
            pod = _replica(templates[index], numbers[index])
            numbers[index] += 1
            if pod is not None:
                yield _on(names[row], pod)


def _running_in_groups(session: Session, n_before: int) -> Iterator[Pod]:
    cluster = session.cluster
    for row in range(n_before, len(cluster.pods.infos)):
        place, info = cluster.node_of[row], cluster.pods.infos[row]
        if place != NOWHERE and group_of(info) is not None:
            yield _on(cluster.nodes.names[place], info.pod)


def _on(node: str, pod: Pod) -> Pod:
    spec = structs.replace(pod.spec, node_name=node)
    return structs.replace(pod, spec=spec, status=structs.replace(pod.status, phase="Running"))


def _waiting(templates: Sequence[Template], fit: Fit, most_pods: int, left: int | None) -> Iterator[Pod]:
    """Yield further replicas, or pods of groups, in their shares, as pods that the scheduler has found no node for.

    Parameters
    ----------
    most_pods : it ends with the replica, or group, that reaches so many pods
    left : how many replicas and groups are wanted; None for no such bound
    """
    message = "" if fit.stop is None else fit.stop.message
    condition = PodCondition("PodScheduled", "False", "Unschedulable", message)
    numbers, n_pods, n_units = list(fit.counts), 0, 0
    while n_pods < most_pods and (left is None or n_units < left):
        for index, template in enumerate(templates):
            for _ in range(template.share):
                pods = _unit(template, numbers[index])
                if not pods:
                    return
                numbers[index] += 1
                n_units += 1
                n_pods += len(pods)
                for pod in pods:
                    yield structs.replace(pod, status=structs.replace(pod.status, conditions=(condition,)))


def _unit(template: Template, number: int) -> list[Pod]:
    """Return the pods of a replica, or of a group; empty where there are no more."""
    if template.group is None:
        pod = _replica(template, number)
        return [] if pod is None else [pod]
    copied = copy_of(template, number - template.first)
    return [] if copied is None else [info.pod for info in copied[1]]
