"""Controllers take over what matches their selector and has no controller: pods, and replica sets.

Upstream: pkg/controller/controller_ref_manager.go ClaimObject, ClaimPods, ClaimReplicaSets. Every controller does so at
the start of every sync; here each looks once at each orphan, as neither labels nor selectors change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.deployments import DeploymentState, ReplicaSetState
from kplan.course.simulation.life_cycle import LifeCycle
from kplan.course.simulation.observing import claimed_by, ordinal_of, target_of
from kplan.course.simulation.owners import DaemonSetState, Owner, StatefulSetState, compiled
from kplan.course.simulation.updates import POD_FORBIDDEN
from kplan.documents.change import StepEvent
from kplan.facts import InputWarning
from kplan.rules.pod_info import PodInfo

MOST_NAMED = 3


def claim_pods(life: LifeCycle, owner: Owner) -> None:
    """Have a workload take over the orphans that match its selector."""
    adopted: list[ObservedPod] = []
    for pod, info in _matching(life, owner):
        _take(life, owner, pod, info)
        adopted.append(pod)
    if adopted:
        names = ", ".join(pod.name for pod in adopted[:MOST_NAMED])
        more = f" and {len(adopted) - MOST_NAMED} more" if len(adopted) > MOST_NAMED else ""
        message = f"takes over pods that match its selector and have no controller: {names}{more}"
        life.motion.warn(InputWarning("Adopted", owner.ref.key, message))


def _matching(life: LifeCycle, owner: Owner) -> Iterator[tuple[ObservedPod, PodInfo]]:
    """Yield the orphans that a workload has not looked at yet and that it may have."""
    rows = life.motion.orphans.get(owner.ref.namespace, ())
    selector = owner.selector
    fresh, owner.n_looked_at = rows[owner.n_looked_at :], len(rows)
    for row in fresh if selector is not None else ():
        pod = life.motion.pods.get(row)
        if pod is None or pod.is_terminating or life.motion.owner(row) is not None:
            continue
        info = life.motion.session.cluster.pods.infos[row]
        if selector is not None and selector.matches(info.labels) and _is_member(owner, pod):
            yield pod, info


def _is_member(owner: Owner, pod: ObservedPod) -> bool:
    """Tell whether a pod has the name of one of a stateful set's; other workloads have no such condition."""
    if not isinstance(owner, StatefulSetState):
        return True
    return pod.name.rpartition("-")[0] == owner.ref.name and ordinal_of(pod.name) is not None


def _take(life: LifeCycle, owner: Owner, pod: ObservedPod, info: PodInfo) -> None:
    is_current = isinstance(owner, DaemonSetState) and life.motion.maker.is_made_by(owner, info, target_of(info.pod))
    observed = claimed_by(owner, pod, info, is_current=is_current, has_claims=life.motion.maker.has_claims(owner, info))
    life.take_over(owner, pod, observed)
    if observed.is_misfit:
        owner.refusal = f'Pod "{pod.name}" is invalid: {POD_FORBIDDEN}'
        life.motion.log.add(StepEvent.REFUSED, pod=pod.key, owner=owner, because=owner.refusal)


def offer_pod(life: LifeCycle, row: int) -> None:
    """Wake the workloads that may take over a new pod without a controller."""
    pod, info = life.motion.pods[row], life.motion.session.cluster.pods.infos[row]
    for owner in life.motion.workloads.all(pod.namespace):
        if isinstance(owner, Owner) and owner.selector is not None and owner.selector.matches(info.labels):
            life.motion.enqueue(owner)


def claim_sets(life: LifeCycle, deployment: DeploymentState) -> None:
    """Have a deployment take over the replica sets that match its selector and have no controller."""
    keys = life.motion.workloads.orphan_sets.get(deployment.ref.namespace, ())
    if not keys or deployment.n_looked_at == len(keys):
        return
    fresh, deployment.n_looked_at = keys[deployment.n_looked_at :], len(keys)
    selector = compiled(deployment.selector)
    adopted: list[str] = []
    for key in fresh if selector is not None else ():
        state = life.motion.workloads.owner(key)
        if not isinstance(state, ReplicaSetState) or state.is_controlled or selector is None:
            continue
        if not selector.matches(state.labels):
            continue
        if state.template == life.motion.workloads.templates.completed_identity(deployment.ref.key, deployment.spec):
            state.template = deployment.template
        for row in state.pods:
            life.motion.former_workload.setdefault(row, state.ref.key)
        deployment.adopt(state)
        life.motion.enqueue(state)  # it is changed, so its own controller looks for pods
        adopted.append(state.ref.name)
    if adopted:
        message = f"takes over replica sets that match its selector and have no controller: {', '.join(adopted)}"
        life.motion.warn(InputWarning("Adopted", deployment.ref.key, message))


def offer_set(life: LifeCycle, state: ReplicaSetState) -> None:
    """Wake the deployments that may take over a new replica set without a controller."""
    for deployment in life.motion.workloads.all(state.ref.namespace):
        selector = compiled(deployment.selector) if isinstance(deployment, DeploymentState) else None
        if selector is not None and selector.matches(state.labels):
            life.motion.enqueue(deployment)
