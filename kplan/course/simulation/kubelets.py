"""Kubelets, and how long pods take to become ready, to be gone when they are told to go, to be done.

Each of these is an event of its own; without durations it comes at once. A pod that is told to go keeps its room, its
name and, for some controllers, its place until it is gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from kplan.api.core import PodCondition, deletion_grace
from kplan.api.pod import ENDED
from kplan.api.time import seconds
from kplan.course.simulation.attaching import Attachments
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.durations import LAG, NO_TIME, Durations, PodTimes
from kplan.course.simulation.jobs import Ended, JobState
from kplan.course.simulation.motion import Motion, Signal
from kplan.course.simulation.objects import stamp
from kplan.course.simulation.owners import DaemonSetState, Owner
from kplan.course.simulation.pod_creation import become
from kplan.course.simulation.timers import Act
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.interface import PodDeleted
from kplan.rules.nodes import ends_soon
from kplan.rules.pod_info import PodInfo

OfPod = Callable[[int], None]  #: something that happens to the pod with this row

_PREEMPTED = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")

SKEW_SECONDS = 1.0
"""A daemon set's controller looks at a pod that became ready so much later than ``minReadySeconds``.

Upstream: daemon_controller.go updatePod. Where the status of the set counts the pod as ready and not yet as available,
it looks at it without this delay; on a node with an older pod of the set the status counts that one.
"""


class Kubelets:
    """Starts, runs and ends the pods of nodes, each in its time."""

    def __init__(self, motion: Motion) -> None:
        self._motion = motion
        #: templates (`Owner.template_key`) of which new pods do not become ready, with a pod that shows it
        self.failing: Mapping[tuple[str, str], str] = {}
        self.ready_at_start: dict[str, str] = {}  #: NAMESPACE/NAME of the pods that are ready at the start -> workload
        #: pods that have done their work, with KIND/NAMESPACE/NAME of their workload
        self.finished: list[tuple[str, ObservedPod]] = []
        #: NAMESPACE/NAME of pods that were being deleted before anything moved, and count as gone
        self.already_leaving: list[str] = []
        self.on_gone = Signal[ObservedPod]()  #: a pod is gone, which its owner does not count any more
        self.on_ended = Signal[ObservedPod]()  #: the same of a pod that has done its work, and whose object stays
        self.on_succeeded = Signal[str]()  #: a pod of its own has done its work: its key
        self._cleared: set[int] = set()  # rows of finished pods whose objects are gone as well
        self.attachments = Attachments(motion, self._begin_late)
        self._held: dict[int, list[Act]] = {}  # row -> what the kubelet of a pod's node does when it is back
        #: row of a pod that shows as not ready because its node does not answer -> since when
        self._marked: dict[int, float] = {}

    def take_over(self, other: Kubelets) -> None:
        self.failing, self.already_leaving = other.failing, other.already_leaving.copy()
        self.attachments.take_over(other.attachments)

    def begin(self, durations: Durations, *, is_time_known: bool, is_fraction_known: bool = False) -> None:
        """Start the clock: what pods of the snapshot have begun goes on; without durations, those that go are gone.

        `is_time_known`: the snapshot says when it was taken; else its ready pods count as available.
        `is_fraction_known`: that is not in whole seconds; else the second hand stands half way.
        """
        motion = self._motion
        motion.durations = durations
        if not is_fraction_known:
            motion.now = math.floor(motion.now) + 0.5
        motion.starts_at = motion.log.last_change = motion.now
        self.attachments.begin()
        if not durations.is_timed:
            self._end_leaving()
            return
        self.ready_at_start = {
            pod.key: motion.workload_of(pod)
            for pod in motion.pods.values()
            if pod.is_ready and pod.node not in motion.lost_nodes and not motion.infos[pod.row].is_terminating
        }
        for row, pod in tuple(motion.pods.items()):
            info = motion.infos[row]
            if info.is_terminating:
                hangs = self.hangs(row)
                self.keep_terminating(row)
                if hangs:
                    continue
                # The deletion timestamp is when the grace period is over.
                grace = deletion_grace(info.pod)
                deleted_at = (seconds(info.pod.metadata.deletion_timestamp) or motion.now) - grace
                stop = min(self.durations_of(pod).stop.seconds, grace)
                self._end_at(max(deleted_at + stop, motion.now) + LAG, row, stop)
            elif pod.node:
                self._go_on(pod, info, is_time_known=is_time_known)

    def _end_leaving(self) -> None:
        """Have pods be gone that are being deleted, as nothing takes time; who is held, or whom nothing ends, stays."""
        motion = self._motion
        for row in [row for row in motion.pods if motion.infos[row].is_terminating]:
            stays = self._is_lost(row) or self.hangs(row)
            if stays or self._is_held(row):
                self.keep_terminating(row)
                if not stays:
                    self.end(row)
            else:
                self.already_leaving.append(motion.pods[row].key)
                self.on_gone(motion.pods[row])

    def _go_on(self, pod: ObservedPod, info: PodInfo, *, is_time_known: bool) -> None:
        times, row, owner = self.durations_of(pod), pod.row, self._motion.owner(pod)
        since = seconds(info.pod.status.start_time) or pod.created
        if self._is_lost(row) and (ready := _marked(info)) is not None:
            self._marked[row] = seconds(ready.last_transition_time) or self._motion.now
        elif not pod.is_ready and self._is_lost(row):
            self._after(times.start.seconds, row, self.become_ready)
        elif not pod.is_ready and since + times.start.seconds > self._motion.now and not self._failing(pod):
            self._at(since + times.start.seconds, row, self.become_ready)
        if times.run is not None and times.run.seconds < math.inf:
            # What has run for longer than usual runs for as long again.
            end = since + times.run.seconds
            self._at(end if end > self._motion.now else self._motion.now + times.run.seconds, row, self.succeed)
        if not is_time_known or owner is None or pod.ready_since is None:
            return
        available_at = pod.ready_since + owner.min_ready
        if available_at > self._motion.now:
            self._motion.note_available(replace(pod, is_fresh=True))
            self._motion.timers.post(available_at, lambda: self._become_available(row))

    def lose(self, nodes: Iterable[str]) -> None:
        """Have the kubelets of some nodes do nothing any more."""
        self._motion.lost_nodes |= frozenset(nodes)

    def revive(self, nodes: Iterable[str]) -> None:
        """Have the kubelets of some nodes do what they have not done meanwhile, and go on."""
        motion = self._motion
        back = frozenset(nodes) & motion.lost_nodes
        motion.lost_nodes -= back
        for row in [row for row in self._held if row in motion.pods and motion.pods[row].node in back]:
            for act in self._held.pop(row):
                act()
        for name in back:
            self.attachments.look_at(name)

    def show_ready(self, rows: Iterable[int]) -> None:
        """Show pods as ready again that run, and that only their nodes' silence has made show as not ready."""
        for row in rows:
            if self._marked.pop(row, None) is not None:
                self.become_ready(row)

    def _is_lost(self, row: int) -> bool:
        lost = self._motion.lost_nodes
        pod = self._motion.pods.get(row) if lost else None
        return pod is not None and pod.node in lost

    def hangs(self, row: int) -> bool:
        """Tell whether a kubelet has not ended a pod of the snapshot in time, and so most likely never does."""
        pod, nodes = self._motion.pods[row], self._motion.cluster.nodes
        is_running = pod.node in nodes.row_of and pod.phase not in ENDED
        return is_running and not ends_soon(self._motion.infos[row].pod, self._motion.now)

    def _hold(self, row: int, act: Act) -> None:
        """Have the kubelet of a pod's node do something when it is back."""
        self._held.setdefault(row, []).append(act)

    def _at(self, at: float, row: int, act: OfPod) -> None:
        """Have the kubelet of a pod's node do something at a time, or when it is back after that."""

        def come() -> None:
            if self._is_lost(row):
                self._hold(row, partial(act, row))
            else:
                act(row)

        self._motion.timers.post(at, come)

    def _after(self, seconds: float, row: int, act: OfPod, node: str | None = None) -> None:
        """Have the kubelet of a pod's node do something so long after now, or after it is back.

        `node`: where the pod is about to be bound.
        """
        if self._is_lost(row) if node is None else node in self._motion.lost_nodes:
            self._hold(row, partial(self._after, seconds, row, act))
        else:
            self._at(self._motion.now + seconds, row, act)

    def _end_at(self, at: float, row: int, stop: float) -> None:
        """Have a pod end that was told to go; one of a lost node stops anew, for so long, when that is back."""
        if self._is_lost(row):
            self._after(stop + LAG, row, self.end)
        else:
            self._at(at, row, self.end)

    def expect(self, nodes: Collection[str], at: float) -> None:
        """Have the pods of nodes that are on their way start when these are there, and count as new ones until then."""
        for row, pod in tuple(self._motion.pods.items()):
            if pod.node in nodes and self.ready_at_start.pop(pod.key, None) is not None:
                self.mark_unready(row)
                start = self.durations_of(pod).start.seconds
                self._motion.timers.post(at + start, partial(self.become_ready, row))

    def mark_unready(self, row: int) -> None:
        """Show everybody that a pod is not ready, as its node does not answer, or is not there yet."""
        pod = self._motion.pods[row]
        if pod.is_ready and not pod.is_terminating:
            self._marked[row] = self._motion.now
            self._motion.update(replace(pod, ready_since=None, is_fresh=False))

    def durations_of(self, pod: ObservedPod) -> PodTimes:
        durations = self._motion.durations
        return durations.of(self._motion.workload_of(pod)) if durations.is_timed else NO_TIME

    def started(self, pod: ObservedPod) -> ObservedPod:
        """Return a pod that is bound as it is then."""
        failing = self._failing(pod)
        if failing:
            message = f"its new pods count as not ready, as no pod of their template is ready and {failing} fails"
            self._motion.warn(InputWarning("FailsAsBefore", self._motion.workload_of(pod), message))
            return pod
        return self._begun(pod) if self.attachments.attach(pod.row, pod.node) else pod

    def _begin_late(self, row: int) -> None:
        """Have a pod start whose volumes come to its node."""
        pod = self._motion.pods[row]
        if pod.is_ready or pod.is_terminating:
            return
        begun = self._begun(pod)
        if begun.is_ready:
            self._motion.log.add_pod(StepEvent.READY, pod, of_time=True)
            self._motion.update(begun)

    def _begun(self, pod: ObservedPod) -> ObservedPod:
        """Return a pod that starts now as it is then."""
        times = self.durations_of(pod)
        if times.run is not None and times.run.seconds < math.inf:
            self._after(times.run.seconds + LAG, pod.row, self.succeed, pod.node)
        if times.start.seconds <= 0 and pod.node not in self._motion.lost_nodes:
            return self._as_ready(pod)
        self._after(times.start.seconds + LAG, pod.row, self.become_ready, pod.node)
        return pod

    def _failing(self, pod: ObservedPod) -> str:
        """Return the pod because of which one is taken not to become ready; empty for none."""
        owner = self._motion.owner(pod) if self.failing else None
        return "" if owner is None else self.failing.get(owner.template_key(pod), "")

    def _as_ready(self, pod: ObservedPod) -> ObservedPod:
        owner = self._motion.owner(pod)
        is_fresh = owner is not None and owner.min_ready > 0 and self._motion.durations.is_timed
        if owner is not None and is_fresh:
            # The time since when a pod is ready is noted in whole seconds.
            available_at = math.floor(self._motion.now) + owner.min_ready
            if isinstance(owner, DaemonSetState):
                self._motion.timers.post(available_at, lambda: self._become_available(pod.row, is_seen=False))
                there = (other for other in owner.by_node.get(pod.target, ()) if other.node == pod.node)
                has_elder = any(other.row != pod.row and other.created <= pod.created for other in there)
                looks_at = self._motion.now + owner.min_ready + (SKEW_SECONDS if has_elder else 0.0)
                self._motion.timers.post(looks_at, lambda: self._see_available(pod.row))
            else:
                self._motion.timers.post(available_at, lambda: self._become_available(pod.row))
        return replace(pod, ready_since=self._motion.now, is_fresh=is_fresh)

    def become_ready(self, row: int) -> None:
        """Have a pod become ready, unless it is on its way out."""
        pod = self._motion.pods.get(row)
        if pod is not None and not (pod.is_terminating or pod.is_ready or self.attachments.waits(row)):
            self._motion.log.add_pod(StepEvent.READY, pod)
            self._motion.update(self._as_ready(pod))

    def _become_available(self, row: int, *, is_seen: bool = True) -> None:
        """Have a pod count as available; its controller learns of it at its next sync where nothing tells it."""
        pod = self._motion.pods.get(row)
        owner = None if pod is None else self._motion.owner(pod)
        if pod is None or not pod.is_fresh or self._available_at(pod, owner) > self._motion.now:
            return
        available = replace(pod, is_fresh=False)
        if is_seen or owner is None:
            self._motion.update(available)
            self._motion.log.note_change()
        else:
            self._motion.note_available(available)

    @staticmethod
    def _available_at(pod: ObservedPod, owner: Owner | None) -> float:
        return math.floor(pod.ready_since or 0.0) + (owner.min_ready if owner is not None else 0)

    def count_anew(self, owner: Owner) -> None:
        """Have the pods of a workload count as available by other ``minReadySeconds`` than before."""
        for pod in tuple(owner.pods.values()):
            at = self._available_at(pod, owner)
            is_fresh = pod.is_ready and at > self._motion.now
            if is_fresh:
                self._motion.timers.post(at, partial(self._become_available, pod.row))
            if is_fresh != pod.is_fresh:
                self._motion.update(replace(pod, is_fresh=is_fresh))

    def _see_available(self, row: int) -> None:
        """Have the controller of a daemon set look at a pod that may be available by now."""
        pod = self._motion.pods.get(row)
        owner = None if pod is None or not pod.is_available else self._motion.owner(pod)
        if owner is not None:
            self._motion.notify(owner)
            self._motion.log.note_change()

    def clear_finished(self, node: str, because: str) -> None:
        """Remove the pods of a node that have done their work: nothing holds them up, and nothing takes their place."""
        for workload, pod in self.finished:
            if pod.node == node and pod.row not in self._cleared:
                self._cleared.add(pod.row)
                self._motion.log.add(StepEvent.GONE, workload, because, pod=pod.key, node=node)

    def succeed(self, row: int) -> None:
        """Have a pod end with success: it leaves its room at once."""
        pod = self._motion.pods.get(row)
        if pod is None or pod.is_terminating:
            return
        owner, workload = self._motion.owner(pod), self._motion.workload_of(pod)
        self._motion.log.add_pod(StepEvent.SUCCEEDED, pod)
        self.finished.append((workload, pod))
        if owner is not None:
            owner.leave(pod)
            if isinstance(owner, JobState):
                owner.uncounted[row] = Ended(pod.index, math.floor(self._motion.now), is_success=True)
                owner.ended.append(row)
            self._motion.notify(owner)
        self.on_ended(pod)
        self._motion.circles.forget()
        if owner is None:
            self.on_succeeded(workload)

    def terminating(self, pod: ObservedPod, *, by: str | None, by_owner: bool, grace: int | None) -> ObservedPod | None:
        """Return what a pod is from now on that is told to go (`LifeCycle.remove`); None where it is gone."""
        motion, row = self._motion, pod.row
        owner = motion.owner(pod)
        if not pod.node:
            motion.log.add_pod(StepEvent.GONE, pod, of_time=True)
            return None
        seconds, waits_for_kubelet = self._stop_of(pod, grace)
        if isinstance(owner, JobState) and not by_owner:
            since = pod.created if pod.ready_since is None else motion.now
            since = self._marked.get(row, since)
            failure = owner.failure_of(pod)
            owner.uncounted[row] = Ended(pod.index, math.floor(since), is_terminating=True, failure=failure)
        elif seconds <= 0 and not waits_for_kubelet and not self._is_held(row):
            motion.log.add_pod(StepEvent.GONE, pod, of_time=True)
            return None
        leaving = replace(pod, is_terminating=True, ready_since=None, is_fresh=False)
        motion.pods[row] = leaving
        motion.circles.note(pod, -1)
        info = motion.infos[row]
        spec, metadata, status = info.pod.spec, info.pod.metadata, info.pod.status
        grace = spec.termination_grace_period_seconds if grace is None else grace
        metadata = replace(metadata, deletion_timestamp=stamp(motion.now + (grace or 0)))
        status = status if by is None else replace(status, conditions=(*status.conditions, _PREEMPTED))
        motion.cluster.update(row, become(info, replace(info.pod, metadata=metadata, status=status)))
        motion.disruptions.settle(leaving)
        motion.log.add_pod(StepEvent.TERMINATING, pod, of_time=True)
        return leaving

    def _stop_of(self, pod: ObservedPod, grace: int | None) -> tuple[float, bool]:
        """Return in how many seconds a pod stops that is told to go, and whether that waits for its node to answer.

        Without a grace period the API server removes the object at once.
        """
        if grace is None:
            grace = self._motion.infos[pod.row].pod.spec.termination_grace_period_seconds
        seconds = self.durations_of(pod).stop.seconds
        return seconds if grace is None else min(seconds, grace), grace != 0 and self._is_lost(pod.row)

    def stop(self, pod: ObservedPod, grace: int | None) -> None:
        seconds, waits_for_kubelet = self._stop_of(pod, grace)
        if seconds <= 0 and not waits_for_kubelet:
            self.end(pod.row)
        elif seconds < math.inf:
            self._end_at(self._motion.now + seconds + LAG, pod.row, seconds)

    def keep_terminating(self, row: int) -> None:
        """Have a pod stay that was terminating in the snapshot."""
        pod = self._motion.pods[row]
        owner = self._motion.owner(pod)
        self._motion.circles.note(pod, -1)
        leaving = self._motion.pods[row] = replace(pod, is_terminating=True, ready_since=None)
        if owner is not None:
            owner.keep(leaving)

    def end(self, row: int) -> None:
        """Have the containers of a terminating pod end; its object stays until its job has counted it, or is held."""
        if row not in self._motion.pods:  # it went with its node
            return
        pod = self._motion.pods[row]
        owner = self._motion.owner(pod)
        uncounted = owner.uncounted if isinstance(owner, JobState) else {}
        ended = uncounted.get(row)
        if ended is None and not self._is_held(row):
            self.bury(row)
            return
        if ended is not None:
            # Where no kubelet ends them, it counts since the pod shows as not ready, or was told to go.
            at = ended.at if self._is_lost(row) else math.floor(self._motion.now)
            uncounted[row] = replace(ended, at=at, is_terminating=False)
        stopped = self._motion.pods[row] = replace(pod, phase="Failed")
        self._motion.stopped.add(row)
        self.attachments.let_go(row)
        if self._motion.cluster.node_of[row] != NOWHERE:
            self._motion.session.evict(row)
        self._motion.notice(PodDeleted(self._motion.infos[row]))
        if owner is not None:
            owner.terminating[row] = stopped
            self._motion.notify(owner)
        self._motion.log.note_change()

    def forget(self, row: int) -> None:
        """Forget what was to happen to a pod that is gone."""
        self._motion.stopped.discard(row)
        self.attachments.let_go(row)
        self._held.pop(row, None)
        self._marked.pop(row, None)

    def _is_held(self, row: int) -> bool:
        return bool(self._motion.infos[row].pod.metadata.held_by)

    def drop_finalizer(self, row: int) -> None:
        """Remove a job's finalizer from a pod: where that has ended and is to go, its object is gone."""
        pod = self._motion.pods.get(row)
        if pod is not None and pod.is_terminating and pod.phase in ENDED and not self._is_held(row):
            self.bury(row, of_time=True)

    def bury(self, row: int, *, of_time: bool = False) -> None:
        """Remove a terminating pod, unless it is gone with its node; `of_time` as for `log`."""
        if row not in self._motion.pods:
            return
        pod = self._motion.pods[row]
        owner = self._motion.owner(pod)
        self._motion.log.add_pod(StepEvent.GONE, pod, of_time=of_time)
        if owner is not None:
            owner.bury(pod)
            self._motion.notify(owner)
        self.on_gone(pod)


def _marked(info: PodInfo) -> PodCondition | None:
    """Return the condition by which the node controller has a pod show as not ready whose containers are ready."""
    conditions = {condition.type: condition for condition in info.pod.status.conditions}
    ready, containers = conditions.get("Ready"), conditions.get("ContainersReady")
    are_ready = containers is None or containers.status == "True"
    return ready if ready is not None and ready.status == "False" and are_ready else None
