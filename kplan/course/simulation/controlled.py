"""The controllers of a simulation: each compares what its workload wants with the pods that it has, and acts.

A deployment syncs when its replica sets have nothing left to do, for it waits for their status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from msgspec.structs import replace as with_fields

from kplan.admission.admit import Named
from kplan.api.workloads import ReplicaSet, ReplicaSetMeta, ReplicaSetSpec
from kplan.course.simulation.adoption import claim_pods, claim_sets
from kplan.course.simulation.controllers.deployment import Scale
from kplan.course.simulation.controllers.observed import Action, Create
from kplan.course.simulation.deployments import DeploymentState, ReplicaSetState
from kplan.course.simulation.disruption import Disruptions
from kplan.course.simulation.jobs import JobState, sync
from kplan.course.simulation.lives import Lives
from kplan.course.simulation.objects import Workloads
from kplan.course.simulation.owners import Owner, StatefulSetState
from kplan.course.simulation.pod_creation import PodMaker
from kplan.documents.change import StepEvent
from kplan.framework.session import Session
from kplan.workloads.expansion import TEMPLATE_HASH

MAX_STEPS = 2_000_000
"""No sensible simulation takes more steps; one that does is ended, and reported as a circle."""

EVER = float("inf")


class Controlled(Lives):
    """A cluster in motion with its controllers."""

    def __init__(
        self, session: Session, workloads: Workloads, maker: PodMaker, disruptions: Disruptions, now: float
    ) -> None:
        super().__init__(session, workloads, maker, disruptions, now)
        self.on_job_over: Callable[[JobState], None] | None = None  #: called with every job that is over, with a clock
        self.on_pause: Callable[[], None] | None = None  #: called when time is about to go on: nothing more happens now
        self._draws: Random | None = None

    def draw_turns(self, draws: Random) -> None:
        """Draw the order of equal pods, and of controllers that create pods, as chance decides it in a cluster."""
        self._draws = self._queue.draws = draws

    def run_controllers(self, *, waits: bool = False) -> None:
        """Run the controllers until they have nothing left to do, without the scheduler.

        Parameters
        ----------
        waits : wait for jobs that back off before they recreate their pods
        """
        while len(self.steps) <= MAX_STEPS:
            if self.has_pending_sync:
                self._sync_next()
            elif not waits or not self._advance(EVER):
                break

    def _advance(self, end: float) -> bool:
        """Let happen what is due next, and advance the time to that; tell whether there is something before the end."""
        due = self.timers.pop(end, self._draws)
        if due is None:
            return False
        at, act = due
        if self.on_pause is not None and at > self.now:
            self.on_pause()
        self._queue.now = max(self.now, at)
        act()
        return True

    def _sync_next(self) -> None:
        if self._dirty:
            self._sync(self._dirty.pop(self._next_dirty()))
        else:
            self._sync_deployment(self._dirty_deployments.pop(next(iter(self._dirty_deployments))))

    def _next_dirty(self) -> str:
        """Return the key of the workload that syncs next."""
        first = next(iter(self._dirty))
        if self._draws is None or len(self._dirty) == 1:
            return first
        # The order of controllers that create no pod makes no difference, so it is not drawn.
        makers = []
        for key, owner in self._dirty.items():
            if not any(isinstance(action, Create) for action in owner.actions(self.now)):
                return key
            makers.append(key)
        return makers[self._draws.randrange(len(makers))]

    def _sync(self, owner: Owner) -> None:
        claim_pods(self, owner)
        not_replaced = Counter(self._not_replaced.get(owner.ref.key, ()))
        for action in self._actions(owner):
            if isinstance(action, Create):
                if not_replaced[action.index, action.node]:
                    not_replaced[action.index, action.node] -= 1
                elif owner.is_cut_short or not self.create(owner, action):
                    break
            else:
                self.remove(action.pod, StepEvent.DELETED, action.because, by_owner=True)
        if isinstance(owner, StatefulSetState):
            owner.complete()

    def _actions(self, owner: Owner) -> list[Action]:
        return self._sync_job(owner) if isinstance(owner, JobState) else owner.actions(self.now, self._draws)

    def _sync_job(self, job: JobState) -> list[Action]:
        done = sync(job, self.now, self._draws, has_deadline=self.durations.is_timed)
        for row in done.released:
            self.drop_finalizer(row)
        if done.again_at is not None:
            self.timers.post(
                done.again_at, partial(self.enqueue, job), f"wait of {job.ref.key}", is_awaited=done.holds_on
            )
        if done.has_changed:
            self.note_change()
            self.notify(job)
        if done.has_changed and job.wanted.is_over and self.on_job_over is not None:
            self.on_job_over(job)
        return done.actions

    def _sync_deployment(self, deployment: DeploymentState) -> None:
        claim_sets(self, deployment)
        if not deployment.reported:
            deployment.observe_status()
        wanted = deployment.actions()
        if deployment.observe_status() or wanted:
            self._dirty_deployments[deployment.ref.key] = deployment
        for scale in wanted:
            if not self._scale(deployment, scale):
                self._dirty_deployments.pop(deployment.ref.key, None)
                break
        if self.durations.is_timed:
            self._watch_progress(deployment)

    def _watch_progress(self, deployment: DeploymentState) -> None:
        """Note how a rollout gets on, and look again when it should have got on."""
        was_timed_out = deployment.progress.is_timed_out
        at = deployment.note_progress(self.now)
        key = f"deadline of {deployment.ref.key}"
        if at is None:
            self.timers.cancel(key)
        else:
            self.timers.post(max(at, self.now), lambda: self.enqueue(deployment), key)
        if deployment.progress.is_timed_out and not was_timed_out:
            self.note_change()

    def _scale(self, deployment: DeploymentState, scale: Scale) -> bool:
        """Scale a replica set, or create it; tell whether the API server accepts it."""
        target = deployment.sets[scale.name] if scale.name is not None else self._new_set(deployment)
        if target is None:
            return False
        target.replicas = scale.replicas
        target.because = scale.because
        target.annotated = (deployment.wanted.replicas, deployment.wanted.max_pods)
        self._dirty[target.ref.key] = target
        return True

    def _new_set(self, deployment: DeploymentState) -> ReplicaSetState | None:
        """Create the replica set of the current template; None where the API server refuses it."""
        labels = {**deployment.spec.metadata.labels, TEMPLATE_HASH: deployment.revision}
        template = with_fields(deployment.spec, metadata=with_fields(deployment.spec.metadata, labels=labels))
        selector = with_fields(
            deployment.selector, match_labels={**deployment.selector.match_labels, TEMPLATE_HASH: deployment.revision}
        )
        ref = deployment.ref
        name = f"{ref.name}-{deployment.revision}"
        refusal = self.maker.refusal_of(Named("apps", "replicasets", ref.namespace, name))
        if refusal:
            if refusal != deployment.refusal:
                deployment.refusal = refusal
                self.log(StepEvent.REFUSED, workload=ref.key, because=refusal)
            return None
        deployment.refusal = ""
        metadata = ReplicaSetMeta(
            name=name,
            namespace=ref.namespace,
            labels=labels,
            owner_references=(ref.as_controller,),
            uid=f"{ref.namespace}/{name}",
        )
        replica_set = ReplicaSet(
            metadata=metadata, spec=ReplicaSetSpec(replicas=0, selector=selector, template=template)
        )
        self.add_to_listers(replica_set)
        state = self.workloads.add_replica_set(replica_set)
        state.template, state.min_ready = deployment.template, deployment.min_ready
        return state
