"""The controllers of a simulation: each compares what its workload wants with the pods that it has, and acts.

A deployment syncs when its replica sets have nothing left to do, for it waits for their status.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

from kplan.admission import Named
from kplan.api.core import target_of
from kplan.course.simulation.controllers.deployment import Scale
from kplan.course.simulation.controllers.observed import Create, ObservedPod
from kplan.course.simulation.jobs import JobState, JobSync, sync
from kplan.course.simulation.kubelets import Kubelets
from kplan.course.simulation.life_cycle import LifeCycle
from kplan.course.simulation.motion import Motion, Signal
from kplan.course.simulation.objects import claimed_by, is_member
from kplan.course.simulation.owners import (
    DaemonSetState,
    DeploymentState,
    Owner,
    ReplicaSetState,
    StatefulSetState,
    Workload,
    compiled,
)
from kplan.course.simulation.updates import POD_FORBIDDEN
from kplan.documents.change import StepEvent
from kplan.facts import InputWarning
from kplan.rules.pod_info import PodInfo

MOST_NAMED = 3


def offer(motion: Motion, namespace: str, labels: Mapping[str, str]) -> None:
    """Wake the workloads that may take over what is new and has no controller: owners a pod, deployments a set."""
    for workload in motion.workloads.all(namespace):
        selector = compiled(workload.selector) if isinstance(workload, DeploymentState) else workload.selector
        if selector is not None and selector.matches(labels):
            motion.enqueue(workload)


MAX_STEPS = 2_000_000  #: no sensible simulation takes more steps; one that does is ended, and reported as a circle

EVER = float("inf")


class Controllers:
    """The controllers of a cluster in motion."""

    def __init__(self, motion: Motion, life: LifeCycle, kubelets: Kubelets) -> None:
        self._motion, self._life, self._kubelets = motion, life, kubelets
        self.on_job_over = Signal[JobState]()
        self.on_pause = Signal[()]()  #: time is about to go on: nothing more happens now
        #: draws the order of equal pods, and of controllers that create pods; None for a fixed one
        self.draws: Random | None = None

    def run(self, *, waits: bool = False) -> None:
        """Run the controllers alone until they have nothing to do; `waits`: for jobs that back off, too."""
        while len(self._motion.log.steps) <= MAX_STEPS:
            if self._motion.has_pending_sync:
                self.sync_next()
            elif not waits or not self.advance(EVER):
                break

    def advance(self, end: float) -> bool:
        """Let happen what is due next, and advance the time to that; tell whether there is something before the end."""
        motion = self._motion
        due = motion.timers.pop(end, self.draws, only_named=not motion.durations.is_timed)
        if due is None:
            return False
        at, act = due
        if at > motion.now:
            self.on_pause()
            motion.now = at
        act()
        return True

    def sync_next(self) -> None:
        motion = self._motion
        if motion.dirty:
            self._sync(motion.dirty.pop(self._next_dirty()))
        else:
            self._sync_deployment(motion.dirty_deployments.pop(next(iter(motion.dirty_deployments))))

    def _next_dirty(self) -> str:
        first = next(iter(self._motion.dirty))
        if self.draws is None or len(self._motion.dirty) == 1:
            return first
        # The order of controllers that create no pod makes no difference, so it is not drawn.
        makers = []
        for key, owner in self._motion.dirty.items():
            if not any(isinstance(action, Create) for action in owner.actions(self._motion.now)):
                return key
            makers.append(key)
        return makers[self.draws.randrange(len(makers))]

    def _sync(self, owner: Owner) -> None:
        motion = self._motion
        if self._life.orphans:
            self._claim_pods(owner)
        of_job = self._sync_job(owner) if isinstance(owner, JobState) else None
        actions = owner.actions(motion.now, self.draws) if of_job is None else of_job.actions
        slots = self._life.not_replaced.get(owner.ref.key) if actions else None
        not_replaced = None if slots is None else Counter(slots)
        for action in actions:
            if isinstance(action, Create):
                if not_replaced is not None and not_replaced[action.index, action.node]:
                    not_replaced[action.index, action.node] -= 1
                elif owner.is_cut_short or not self._life.create(owner, action):
                    break
            else:
                self._life.remove(action.pod, StepEvent.DELETED, action.because, by_owner=True)
        if of_job is not None:
            if of_job.syncs_again:
                motion.notify(owner)
        elif isinstance(owner, StatefulSetState):
            owner.complete()

    def _sync_job(self, job: JobState) -> JobSync:
        motion = self._motion
        done = sync(job, motion.now, self.draws, has_deadline=motion.durations.is_timed)
        for row in done.released:
            self._kubelets.drop_finalizer(row)
        if done.again_at is not None:
            key = f"wait of {job.ref.key}"
            again = partial(motion.enqueue_called, job.ref.key)
            motion.timers.post(done.again_at, again, key, is_awaited=done.holds_on)
        if done.has_changed:
            motion.log.note_change()
        if done.has_changed and job.wanted.is_over:
            job.finished_at = math.floor(motion.now)
            self.expire(job)
            self.on_job_over(job)
        return done

    def expire(self, job: JobState) -> None:
        """Delete a job that is over in its time. Upstream: pkg/controller/ttlafterfinished."""
        if job.ttl is not None and job.finished_at is not None:
            at = max(job.finished_at + job.ttl, self._motion.now)
            self._motion.timers.post(at, partial(self._delete_expired, job), is_idle=True)

    def _delete_expired(self, job: JobState) -> None:
        """Delete a job whose time is over, also as it is written by now."""
        if job.ttl is not None and (job.finished_at or 0.0) + job.ttl <= self._motion.now:
            self._life.delete_job(job)

    def _sync_deployment(self, deployment: DeploymentState) -> None:
        self._claim_sets(deployment)
        if not deployment.reported:
            deployment.observe_status()
        wanted = deployment.actions()
        if deployment.observe_status() or wanted:
            self._motion.dirty_deployments[deployment.ref.key] = deployment
        for scale in wanted:
            if not self._scale(deployment, scale):
                self._motion.dirty_deployments.pop(deployment.ref.key, None)
                break
        if self._motion.durations.is_timed:
            self._watch_progress(deployment)

    def _watch_progress(self, deployment: DeploymentState) -> None:
        """Note how a rollout gets on, and look again when it should have got on."""
        motion = self._motion
        was_timed_out = deployment.progress.is_timed_out
        at = deployment.note_progress(motion.now)
        key = f"deadline of {deployment.ref.key}"
        if at is None:
            motion.timers.cancel(key)
        else:
            motion.timers.post(max(at, motion.now), lambda: motion.enqueue(deployment), key)
        if deployment.progress.is_timed_out and not was_timed_out:
            motion.log.note_change()

    def _scale(self, deployment: DeploymentState, scale: Scale) -> bool:
        """Scale a replica set, or create it; tell whether the API server accepts it."""
        target = deployment.sets[scale.name] if scale.name is not None else self._new_set(deployment)
        if target is None:
            return False
        target.replicas = scale.replicas
        target.because = scale.because
        target.annotated = (deployment.wanted.replicas, deployment.wanted.max_pods)
        self._motion.dirty[target.ref.key] = target
        return True

    def _new_set(self, deployment: DeploymentState) -> ReplicaSetState | None:
        """Create the replica set of the current template; None where the API server refuses it."""
        replica_set = deployment.new_set()
        name = Named("apps", "replicasets", replica_set.metadata.namespace, replica_set.metadata.name)
        refusal, before = self._motion.maker.refusal_of(name), deployment.refusal
        deployment.refusal = refusal
        if refusal:
            if refusal != before:
                self._motion.log.add(StepEvent.REFUSED, deployment.ref.key, because=refusal)
            return None
        self._life.add_to_listers(replica_set)
        return self._motion.workloads.add_replica_set(replica_set, deployment.template)

    def _claim_pods(self, owner: Owner) -> None:
        """Have a workload take over the orphans that it has not looked at yet and that it may have."""
        motion, selector = self._motion, owner.selector
        rows = self._life.orphans.get(owner.ref.namespace, ())
        fresh, owner.n_looked_at = rows[owner.n_looked_at :], len(rows)
        if selector is None or not fresh:
            return
        adopted: list[str] = []
        for row in fresh:
            pod, info = motion.pods.get(row), motion.infos[row]
            if pod is None or pod.is_terminating or pod.owner:
                continue
            if isinstance(owner, StatefulSetState) and not is_member(owner.ref.name, pod.name):
                continue
            if selector.matches(info.labels):
                self._take(owner, pod, info)
                adopted.append(pod.name)
        more = f" and {len(adopted) - MOST_NAMED} more" if len(adopted) > MOST_NAMED else ""
        self._warn_adopted(owner, "pods", adopted[:MOST_NAMED], more)

    def _warn_adopted(self, workload: Workload, what: str, names: Sequence[str], more: str = "") -> None:
        if names:
            message = f"takes over {what} that match its selector and have no controller: {', '.join(names)}{more}"
            self._motion.warn(InputWarning("Adopted", workload.ref.key, message))

    def _take(self, owner: Owner, pod: ObservedPod, info: PodInfo) -> None:
        maker = self._motion.maker
        is_current = isinstance(owner, DaemonSetState) and maker.is_made_by(owner, info, target_of(info.pod))
        has_claims = maker.has_claims(owner, info)
        observed = claimed_by(owner, pod, info, is_current=is_current, has_claims=has_claims)
        self._life.adopt(pod, observed)
        if observed.is_misfit:
            owner.refusal = f'Pod "{pod.name}" is invalid: {POD_FORBIDDEN}'
            self._motion.log.add_pod(StepEvent.REFUSED, observed, owner.refusal)

    def _claim_sets(self, deployment: DeploymentState) -> None:
        """Have a deployment take over the replica sets that match its selector and have no controller."""
        workloads = self._motion.workloads
        keys = workloads.orphan_sets.get(deployment.ref.namespace, ())
        fresh, deployment.n_looked_at = keys[deployment.n_looked_at :], len(keys)
        selector = compiled(deployment.selector) if fresh else None
        if selector is None:
            return
        adopted: list[str] = []
        for key in fresh:
            state = workloads.owner(key)
            if not isinstance(state, ReplicaSetState) or state.is_controlled or not selector.matches(state.labels):
                continue
            if state.template == workloads.templates.completed_identity(deployment.ref.key, deployment.spec):
                state.template = deployment.template
            for row in state.pods:
                self._life.former_workload.setdefault(row, state.ref.key)
            deployment.adopt(state)
            self._motion.enqueue(state)  # it is changed, so its own controller looks for pods
            adopted.append(state.ref.name)
        self._warn_adopted(deployment, "replica sets", adopted)
