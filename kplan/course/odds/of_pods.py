"""Pods placed in order, as a question that is drawn many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kplan.api.names import object_name
from kplan.cluster.base import Base, PodLike
from kplan.cluster.runs import QuestionPods, nominates
from kplan.course.in_order import OrderedCourse
from kplan.course.odds.runs import BranchRandom, Prepared
from kplan.course.odds.tally import DrawnPod, PodEnd, Rest, RunEnd, group_ends
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.session import Session
from kplan.preemption.default_preemption import DefaultPreemption


def of_pods(
    base: Base, *, pods: Sequence[PodLike], settle_preemption: bool = False, is_single: bool = False
) -> Prepared:
    """Prepare to place pods in order; see `Drawn`, and `kplan.Planner.odds` for the parameters."""
    question = base.resolve(pods)
    drawn = drawn_pods(base, question)

    def carry_out(generator: BranchRandom) -> RunEnd:
        session = base.fork(question, random=generator)
        if not settle_preemption and not is_single and base.followed is None:
            # Which pods would be evicted does not count here, so it must not cost a draw. That a pod gets in by
            # preemption does where there is an autoscaler: it adds no node for it.
            for framework in session.frameworks.values():
                plugins = framework.post_filter_plugins
                framework.post_filter_plugins = [one for one in plugins if one.name != DefaultPreemption.name]
        if base.options.sample and not is_single and len(session.cluster):
            session.sampling.start_index = generator.draw(len(session.cluster))
        violates, messages = False, dict[int, str]()
        for result in OrderedCourse(base, question, settle_preemption=settle_preemption).run(session):
            violates |= settle_preemption and result.pod not in question.pending_before and _violates(result)
            messages[result.pod] = result.message
        return ending_at(session, drawn, question.rows, messages, violates=violates)

    return Prepared(drawn, carry_out, question=question)


def ending_at(
    session: Session, pods: Sequence[DrawnPod], rows: Sequence[int], messages: Mapping[int, str], *, violates: bool
) -> RunEnd:
    """Return how pods end in a session in which everything was carried out; `rows`: theirs, or of those in their place.

    `messages`: what the scheduler said last of pods. `violates`: an eviction has violated a disruption budget.
    """
    infos, node_of, names = session.cluster.pods.infos, session.cluster.node_of, session.cluster.nodes.names
    log = (*session.earlier, *session.cluster.log)
    evicted = frozenset(infos[change.pod].key for change in log if change.sign < 0 and not change.is_trial)
    ends: dict[str, PodEnd] = {}
    unplaced: dict[str, str] = {}
    for pod, row in zip(pods, rows, strict=True):
        if node_of[row] != NOWHERE:
            ends[pod.key] = PodEnd(Rest.PLACED, names[node_of[row]])
            continue
        ends[pod.key] = PodEnd(Rest.GONE if pod.key in evicted else Rest.PENDING)
        unplaced[pod.key] = messages.get(row, "")
    return RunEnd(ends, evicted, violates, unplaced, groups=group_ends(session, rows))


def drawn_pods(base: Base, question: QuestionPods) -> list[DrawnPod]:
    session = base.fork(question)
    drawn = []
    for row in question.rows:
        info, origin = session.cluster.pods.infos[row], question.origins.get(row)
        workload = ""
        if origin is not None and origin.kind != "Pod":
            workload = origin.key_in(info.namespace)
        elif origin is None and info.controller is not None:
            workload = object_name(info.controller[1], info.namespace, info.controller[2])
        framework = session.framework_for(info)
        is_gated = framework is not None and not framework.run_pre_enqueue(info).is_success
        key = group_of(info) if session.config.release.is_on(WORKLOAD_GATE) else None
        group = "" if key is None else object_name("PodGroup", *key)
        drawn.append(DrawnPod(info.key, workload, is_gated, was_pending=row in question.pending_before, group=group))
    return drawn


def _violates(result: CycleResult) -> bool:
    """Return whether a decision evicts a pod that a disruption budget protects."""
    findings = result.post_filter.findings if result.post_filter is not None and nominates(result) else None
    return findings is not None and any(victim.pdb_violation for victim in findings.victims())
