"""What nodes, pods and workloads are, in sentences: the one place that makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType

from kplan.api.field_errors import quoted
from kplan.api.names import WorkloadRef
from kplan.api.quantity import behind_colon, count, enumerated, listing, readable
from kplan.api.time import to_micros, utc
from kplan.facts import MissingName, NodesLeftOut, QuotaRaise, RefusedPods
from kplan.health.nodes import NodeHealth, NodeState
from kplan.health.pods import ContainerHealth, HeldVolume, PodHealth
from kplan.health.workloads import (
    MOST_MISSED,
    SHORT_STATES,
    ActiveRun,
    HeldUpdate,
    MissedRuns,
    WorkloadHealth,
    WorkloadState,
)

NOT_SCHEDULING = "This is not a scheduling problem: the pod has its node."

_OF_NODES: Mapping[NodeState, str] = {
    "being-deleted": "is being deleted",
    "unreachable": "is unreachable",
    "starting": "is being set up",
    "not-ready": "is not ready",
    "out-of-service": "is out of service",
    "cordoned": "is cordoned",
    "disk-pressure": "is short of disk",
    "memory-pressure": "is short of memory",
    "pid-pressure": "is short of process ids",
    "network-unavailable": "has no network yet",
    "full": "runs as many pods as it may",
}

_UNITS = ((86400, "day"), (3600, "h"), (60, "min"), (1, "s"))


def duration_text(length: int) -> str:
    """Return a duration, given in seconds, in its largest unit: ``27 min``."""
    size, unit = next((size, unit) for size, unit in _UNITS if length >= 2 * size or size == 1)
    return f"{length // size} {unit}{'s' if unit == 'day' else ''}"


def clock_text(text: str) -> str:
    """Return a time of an object as people read it, to the minute: ``2026-03-01 10:00 UTC``; another text as it is."""
    try:
        return f"{utc(to_micros(text)):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return text


def _since(health: PodHealth) -> str:
    if health.since is None:
        return ""
    ago = f", for {duration_text(health.seconds)}" if health.seconds else ""
    return f" since {clock_text(health.since)}{ago}"


def node_text(health: NodeHealth) -> str:
    """Return what a node is, without a full stop: ``fresh-1 is being set up``; empty for one that is well."""
    on_it = f" ({count(health.pods, 'pod')} on it)" if health.pods else ""
    behind = {"unreachable": on_it, "not-ready": in_parentheses(health.message)}
    parts = [_OF_NODES[state] + behind.get(state, "") for state in health.states]
    if health.startup_taints and parts:
        keys, is_one = listing(health.startup_taints), len(health.startup_taints) == 1
        taint, go = ("taint", "goes") if is_one else ("taints", "go")
        is_late = f"{taint} {keys} should long be gone: look at who takes {'it' if is_one else 'them'} away"
        parts[-1] += f" ({is_late if health.is_overdue else f'{taint} {keys} {go} then'})"
    parts += [f"reports {one.text}: look at the device plugin" for one in health.unusable]
    return f"{health.node} {' and '.join(parts)}" if parts else ""


def in_parentheses(message: str | UnsetType) -> str:
    """Return what a kubelet says, to stand behind what is so; empty where it says nothing."""
    text = "" if message is UNSET else message.strip().rstrip(". ")
    return f" ({text})" if text else ""


def pod_text(health: PodHealth) -> str:  # noqa: PLR0911 - one case a state
    """Return what a pod is, without a full stop."""
    on = f" on {health.node}" if health.node else ""
    match health.state:
        case "ready":
            where = _of_node(health)
            is_so = "shows as" if where and "being-deleted" not in (health.node_states or ()) else "is"
            resize = f"; {_resize(health)}" if health.resize is not UNSET else ""
            return f"{health.pod} {is_so} running and ready{on}{where}{_restarts(health)}{resize}"
        case "not-ready":
            why = trouble_text(health)
            return f"{health.pod} is{on} and not ready{f': {why}' if why else ''}"
        case "starting":
            why = trouble_text(health)
            starts = "does not start" if health.is_late else "is starting"
            return f"{health.pod} {starts}{on}{f' ({why})' if why else ''}{_since(health)}"
        case "being-deleted":
            return f"{health.pod}{on} is being deleted{_since(health)}, {_deletion(health)}"
        case "succeeded":
            return f"{health.pod} has completed{on}"
        case "evicted":
            why = f"its node was short of {health.short_of}" if health.short_of else "its node was short of a resource"
            return f"{health.pod} was evicted{f' from {health.node}' if health.node else ''}: {why}"
        case "failed":
            why = trouble_text(health)
            return f"{health.pod} has failed{on}{f': {why}' if why else ''}"
        case "gated":
            return f"{health.pod} is kept out of the scheduling queue"
        case "pending":
            return f"{health.pod} has no node"


def _of_node(health: PodHealth) -> str:
    """Return what is wrong with the node of a pod that shows as ready; empty for nothing."""
    if health.node_states is UNSET:
        return ", which does not exist any more"
    graver = (state for state in health.node_states if state in ("being-deleted", "unreachable", "not-ready"))
    return "".join(f", which {_OF_NODES[state]}" for state in graver)


def trouble_text(health: PodHealth) -> str:
    """Return why a pod is not ready, in a few words such as kubectl's own: ``CrashLoopBackOff (57 restarts)``."""
    if health.node_states is UNSET:
        return f"its node {health.node} does not exist any more"
    if health.state == "being-deleted":
        return f"being deleted{_since(health)}, {_deletion(health)}"
    if "unreachable" in health.node_states and health.state != "failed":
        return f"its node {health.node} is unreachable"
    container = health.container
    if container is not UNSET:
        return held_volume(health.held_volume) or _container(container)
    if health.missing_gates:
        return f"readiness gate {listing(health.missing_gates)} is not met"
    return f"its node {health.node} is not ready" if is_of_node(health) else health.reason


def held_volume(held: HeldVolume | UnsetType) -> str:
    """Return that a pod waits for a volume that another node has; empty where it does not."""
    if held is UNSET:
        return ""
    pod = f" for {held.pod}" if held.pod else ""
    return f"its volume of claim {held.claim} is on {held.node}{pod}, and one node at a time may have it"


def released_text(held: HeldVolume, *, is_lost: bool = False) -> str:
    """Return when a pod starts that waits for a volume, and what would help; `is_lost`: nobody ends the other pod."""
    gone = f"It starts once {held.pod} is gone" if held.pod else f"It starts once {held.node} has let go of it"
    if is_lost:
        return f"{gone}, which nothing on {held.node} ends."
    return f"{gone}: run one replica and replace it by strategy Recreate, or share the volume."


def is_of_node(health: PodHealth) -> bool:
    """Tell whether nothing but its node keeps a pod from being ready."""
    is_node_ready = "not-ready" not in (health.node_states or ())
    return not (is_node_ready or health.missing_gates or health.reason) and health.state != "failed"


def _container(container: ContainerHealth) -> str:
    prefix, of_image = "Init:" if container.is_init else "", f", image {container.image}" if container.image else ""
    if not container.reason:
        if container.is_init:
            return f"Init: container {container.name} runs"
        probe = "its readiness probe fails" if container.has_started else "its startup probe has not passed"
        return f"container {container.name} runs, but {probe}{_history(container)}"
    missing = "" if container.lacks is UNSET else f", {_lack(container.lacks)}"
    missing += f", its image is not made for {container.architecture}" if container.architecture else ""
    missing += f": {container.failure}" if container.failure else ""
    return f"{prefix}{container.reason}{_history(container)}, container {container.name}{of_image}{missing}"


def _lack(lacks: MissingName) -> str:
    meant = f" (did you mean {lacks.nearest}?)" if lacks.nearest else ": create it, or name another one"
    return f"there is no {lacks.kind} {lacks.name}{meant}"


def _history(container: ContainerHealth) -> str:
    """Return how often a container restarted and how it ended last, in parentheses."""
    parts = []
    if container.restarts:
        parts.append(count(container.restarts, "restart"))
    if container.last_end is not UNSET:
        end = container.last_end
        reason = end.reason if end.reason not in ("", "Error", container.reason) else ""
        code = f"signal {end.signal}" if end.signal and not end.exit_code else f"exit code {end.exit_code}"
        parts.append(f"{'last ' if container.restarts else ''}{code}{f' {reason}' if reason else ''}")
    return f" ({', '.join(parts)})" if parts else ""


def _restarts(health: PodHealth) -> str:
    return _history(health.container) if health.container is not UNSET else ""


def _resize(health: PodHealth) -> str:
    """Return which resize in place waits, and what the containers have instead; empty where none waits."""
    resize = health.resize
    if resize is UNSET:
        return ""
    whys = {"Deferred": f" ({health.node} has no room for it now)", "Infeasible": f" ({health.node} cannot ever do it)"}
    keeps = [
        f"container {one.container} keeps {one.resource} {readable(one.old)} instead of {readable(one.to)}"
        for one in resize.requests
    ]
    what = f": {listing(keeps)}" if keeps else ""
    return f"its resize in place is {resize.reason or 'pending'}{whys.get(resize.reason, '')}{what}"


def _deletion(health: PodHealth) -> str:
    """Return what a pod that is being deleted waits for."""
    if health.never_ends:
        return f"and never goes: {health.node} is unreachable, and no kubelet ends it"
    finalizers = f"finalizer{'s' if len(health.finalizers) > 1 else ''} {listing(health.finalizers)}"
    if health.is_collected:
        is_there = health.node_states is not UNSET
        gone = f"node {health.node} {'is out of service' if is_there else 'does not exist any more'}"
        return (
            f"and waits for {finalizers}; {gone}" if health.finalizers else f"{gone}: the garbage collector removes it"
        )
    is_overdue = outlasts_grace(health)
    if health.finalizers and (is_overdue or not health.node):
        them = "it" if len(health.finalizers) == 1 else "them"
        return f"and waits for {finalizers}: it goes once whoever set {them} takes {them} away"
    if is_overdue:
        return f"and its kubelet has not ended it, though its grace period of {health.grace_seconds} s is over"
    return f"and ends within {health.grace_seconds} s" + (f", then waits for {finalizers}" if health.finalizers else "")


def outlasts_grace(health: PodHealth) -> bool:
    """Tell whether the time is over in which a pod that is being deleted should have ended."""
    return health.seconds is not UNSET and health.seconds > health.grace_seconds


def workload_text(health: WorkloadHealth, why_pending: str = "") -> str:
    """Return what a workload is in one sentence; `why_pending`: why the first of its pods without a node has none."""
    kind, name = health.ref.kind, health.ref.path
    why = f": {why_pending}" if why_pending else ""
    texts = [
        text + (why if state == "pods-pending" or (state == "waits-for-pod" and _waits_for_node(health)) else "")
        for state in health.states
        if (text := _of_state(state, health, kind))
    ]
    if health.failed_indexes:
        texts.append(f"failed for good: index {health.failed_indexes}")
    if health.holds_next and health.pending and "holds-next" not in health.states:
        texts.append(f"no other run starts while {_active(UNSET)} (concurrencyPolicy: Forbid)")
    if texts:
        return f"{name}: {'; '.join(texts)}"
    if kind == "DaemonSet" and not health.wanted:
        out = left_out_texts(health)
        return f"{name}: no node is to run its pod{f': {out[0]}' if out else ''}{_spare(health, kind)}"
    if kind == "CronJob":
        return f"{name}: no run is active" if not health.pods else f"{name}: {count(health.pods, 'pod')} of its runs"
    of_all = max(health.wanted, health.pods)
    ready = f"{health.ready} of {count(of_all, 'pod')} {_are(of_all)} ready"
    return f"{name}: {ready}{_spare(health, kind)}{_lately(health)}"


def unknown_zone(name: str) -> str:
    return f"time zone {quoted(name)} does not exist, so no run starts (UnknownTimeZone)"


def left_out_texts(health: WorkloadHealth) -> list[str]:
    """Return on which nodes a daemon set wants no pod, and why, each without a full stop."""
    return [_left_out(one) for one in health.left_out or ()]


def _left_out(out: NodesLeftOut) -> str:
    number, parts = len(out.nodes), []
    if out.conditions:
        lacks = _are(number, "does not have", "do not have")
        meant = f"; did you mean {listing(out.meant)}?" if out.meant else ""
        parts.append(f"{lacks} the labels that it requires ({listing(out.conditions)}{meant})")
    if out.taints:
        taints = _are(len(out.taints), "taint", "taints")
        parts.append(f"{_are(number, 'has', 'have')} {taints} {listing(out.taints)}, which it does not tolerate")
    return f"{listing(out.nodes)} {' and '.join(parts)}"


def _spare(health: WorkloadHealth, kind: str) -> str:
    """Return how many pods a workload has besides those that it wants, to stand behind how many are ready."""
    if not (spare := health.pods - health.wanted) > 0:
        return ""
    if kind == "DaemonSet":  # taints that came later do not end its pods
        return f", {spare} on {'a node' if spare == 1 else 'nodes'} where it would start none"
    return f", {spare} more than it wants"


def _lately(health: WorkloadHealth) -> str:
    """Return what pods of a workload went through that is well now, or may be, to stand behind that."""
    parts = []
    silent = health.silent or ()
    if nodes := list(dict.fromkeys(pod.node or "" for pod in silent)):
        parts.append(f"{len(silent)} of them on {listing(nodes)}, which {_are(len(nodes))} unreachable")
    if health.restarted is not UNSET:
        parts.append(f"{own_name(health.restarted.pod)} keeps restarting{_restarts(health.restarted)}")
    parts += [failed] if (failed := _failed_before(health)) else []
    if health.evicted:
        last = health.evicted[-1]
        parts.append(f"{state_text(last)}: {listing([own_name(pod.pod) for pod in health.evicted], most=2)}")
    return "".join(f"; {part}" for part in parts)


def _failed_before(health: WorkloadHealth) -> str:
    """Return which pods have failed, as of workloads only jobs keep them; empty for none."""
    ended = [pod for pod in health.troubled if pod.state == "failed"]
    if not ended:
        return ""
    why = trouble_text(ended[-1])
    return f"{count(len(ended), 'pod')} failed before, {own_name(ended[-1].pod)}{f': {why}' if why else ''}"


def shortage_text(health: WorkloadHealth) -> str:
    """Return how many pods a workload lacks, and why, with what the API server says."""
    short = (state for state in health.states if state in SHORT_STATES)
    texts = [text for state in short if (text := _of_state(state, health, health.ref.kind))]
    refusal = f" (the API server{behind_colon(health.refused.message)})" if health.refused.uses else ""
    return f"{'; '.join(texts)}{refusal}"


def _of_state(state: WorkloadState, health: WorkloadHealth, kind: str) -> str:  # noqa: C901, PLR0911, PLR0912 - as above
    wanted = count(health.wanted, "pod" if kind == "Job" else "replica")
    missing = f"{health.missing} of {wanted} {_are(health.missing)} missing"
    if kind == "DaemonSet":
        lack = _are(len(health.missed_nodes), "lacks", "lack")
        missing = f"{len(health.missed_nodes)} of {health.wanted} nodes {lack} its pod, {listing(health.missed_nodes)}"
    match state:
        case "suspended":
            until = f" until Kueue admits it (queue {health.queue})" if health.queue else ""
            return f"{kind} is suspended{until}, so it starts no {'Job' if kind == 'CronJob' else 'pod'}"
        case "unknown-time-zone":
            return unknown_zone(health.time_zone)
        case "last-run-failed":
            return f"its last run, {own_name(health.failed_run)}, has failed{_why_failed(health)}"
        case "failed":
            reason = _why_failed(health)
            last = health.troubled[-1] if health.troubled else None
            why = trouble_text(last) if last is not None else ""
            return f"Job has failed{reason}" + (f"; {own_name(last.pod)}: {why}" if last is not None and why else "")
        case "complete":
            return "Job is complete"
        case "scaled-to-zero":
            return f"{kind} is scaled to zero"
        case "refused":
            return f"{missing}: {refusal_text(health.refused)}"
        case "waits-for-pod":
            wait = f"{missing} and {_are(health.missing, 'waits', 'wait')} for {own_name(health.waits_for)}"
            if (first := _waited_for(health)) is None:
                return f"{wait}, which has no node (OrderedReady)"
            what = "not ready" if first.state == "not-ready" else "starting"
            return f"{wait}, which is {what} (OrderedReady): {trouble_text(first) or first.state}"
        case "waits-for-deletion":
            first = _waited_for(health)
            what = trouble_text(first) if first is not None else "being deleted"
            return f"{missing}: {own_name(health.waits_for)} is {what}"
        case "misses-pods" | "misses-nodes":
            return "" if "refused" in health.states else f"{missing}: {_not_refused(health)}"
        case "rollout-refused":
            return f"its rollout waits for new pods: {refusal_text(health.refused)}"
        case "update-held":
            return _held_update(health.held_update, health.pods) if health.held_update else ""
        case "progress-deadline":
            since = f" since {clock_text(health.since)}" if health.since else ""
            return f"its rollout is stuck (ProgressDeadlineExceeded{since})"
        case "paused":
            return "Deployment is paused, so that changes of its template do not roll out"
        case "pods-not-ready":
            return _not_ready(health)
        case "pods-pending":
            if _waits_for_node(health) and health.pending == 1:
                return ""
            return f"{health.pending} of {count(health.pods, 'pod')} {_are(health.pending, 'has', 'have')} no node"
        case "resize-pending":
            number, keep = len(health.resizing), _are(len(health.resizing), "keeps its", "keep their")
            first = health.resizing[0]
            of_all = f"{number} of {count(health.pods, 'pod')} {keep} former size"
            return f"{of_all}, {own_name(first.pod)}: {_resize(first)}"
        case "holds-next":
            return f"no other run starts while {_active(health.active_run)} (concurrencyPolicy: Forbid)"
        case "misses-runs":
            return _missed(health.missed_runs) if health.missed_runs else ""
        case "at-maximum":
            return f"{_scaler(health)} is at its maximum of {health.most_replicas} replicas"
        case "no-metrics":
            return f"{_scaler(health)} cannot read its metrics{f' ({health.reason})' if health.reason else ''}"


_OF_JOBS: Mapping[str, str] = {
    "BackoffLimitExceeded": "its pods failed more often than its backoffLimit allows",
    "DeadlineExceeded": "it took longer than its activeDeadlineSeconds",
    "PodFailurePolicy": "a pod failed in a way that its podFailurePolicy does not forgive",
    "FailedIndexes": "some of its indexes failed",
    "MaxFailedIndexesExceeded": "more indexes failed than its maxFailedIndexes allows",
}


def _active(run: ActiveRun | UnsetType) -> str:
    if run is UNSET:
        return "this one is active"
    since = f", since {clock_text(run.since)}, for {duration_text(run.seconds)}" if run.since else ""
    return f"{own_name(run.job)} is active{since}"


_CRON_SECONDS = 10  #: so late a run may start while all is well, as the documentation of Kubernetes says


def _missed(missed: MissedRuns) -> str:
    many = "or more " if missed.runs >= MOST_MISSED else ""
    text = f"no run since {clock_text(missed.last)}, though {missed.runs} {many}{_are(missed.runs, 'was', 'were')} due"
    if missed.deadline is UNSET or missed.deadline >= _CRON_SECONDS:
        return text
    return f"{text}: with startingDeadlineSeconds {missed.deadline} one that starts a little late is left out"


def _held_update(held: HeldUpdate, n_pods: int) -> str:
    """Return which pods keep a former revision, and why."""
    former = f"{held.pods} of {count(n_pods, 'pod')} {_are(held.pods)} of a former revision"
    match held.because:
        case "OnDelete":
            return f"{former}, each until somebody deletes it (updateStrategy: OnDelete)"
        case "partition":
            return f"{former}, as only pods numbered {held.partition} or higher are updated (partition)"
        case "not-ready":
            next_one = own_name(held.next)
            return f"{former}: {next_one} is replaced only once it is ready, or somebody deletes it (OrderedReady)"
        case "update-not-ready":
            by_hand = ", or after an undo until somebody deletes it (OrderedReady)" if held.is_ordered else ""
            return f"{former} until {own_name(held.waits_for)} is ready{by_hand}"


def _not_refused(health: WorkloadHealth) -> str:
    """Return that nothing that is known refuses pods which are missing, and what of the cluster is not known."""
    if failed := _failed_before(health):
        return f"{failed}; its controller waits for longer each time before it makes the next one"
    them = _are(len(health.missed_nodes) or health.missing, "it", "them")
    if not health.unevaluated:
        return f"nothing refuses {them}, so its controller makes more"
    plurals = {kind: f"{kind[:-1]}ies" for kind in health.unevaluated if kind.endswith("y")}
    rules = enumerated([count(n, kind, plurals.get(kind, "")) for kind, n in health.unevaluated.items()])
    are = _are(sum(health.unevaluated.values()), "is", "are")
    return f"no quota or limit refuses {them}, but {rules} {are} not evaluated, and may; kubectl get events would tell"


def _why_failed(health: WorkloadHealth) -> str:
    """Return for what reason a job has failed, behind a colon; empty where nothing tells."""
    meaning = _OF_JOBS.get(health.reason, "")
    return f": {meaning} ({health.reason})" if meaning else f": {health.reason}" if health.reason else ""


def _waits_for_node(health: WorkloadHealth) -> bool:
    """Tell whether the pod for which the others wait has no node."""
    return bool(health.waits_for) and _waited_for(health) is None


def _waited_for(health: WorkloadHealth) -> PodHealth | None:
    return next((pod for pod in health.troubled if pod.pod == health.waits_for), None)


def refusal_text(refused: RefusedPods) -> str:
    """Return what refuses pods, with the amounts: ``ResourceQuota web/team requests.cpu 5 of 5``."""
    if refused.uses:
        uses = [f"{use.resource} {readable(use.used)} of {readable(use.hard)} used" for use in refused.uses]
        return f"{refused.by} {listing(uses)}{_raise_text(refused)}"
    if refused.lacks is not UNSET:
        return _lack(refused.lacks)
    if refused.by and refused.message:
        name = refused.by.rpartition("/")[2]
        refusal = behind_colon(refused.message.removeprefix(f"failed quota: {name}: "))
        return f"{refused.by} refuses its pods{refusal}"
    if not refused.message:
        since = f" since {clock_text(refused.since)}" if refused.since else ""
        return f"the API server refuses its pods ({refused.reason}{since}); kubectl describe replicaset says why"
    return f"the API server refuses its pods{behind_colon(refused.message)}"


def _raise_text(refused: RefusedPods) -> str:
    """Return to what the quotas have to be raised: ``; raise it to 8``."""
    if not refused.raises:
        return ""
    texts = []
    for one in refused.raises:
        is_named = refused.by == f"ResourceQuota {one.quota}"
        if is_named and len(one.limits) == len(refused.uses) == 1 and len(refused.raises) == 1:
            return f"; raise it to {readable(one.limits[0].to)}"
        texts.append(_limits(one) if is_named else f"{_limits(one)} in ResourceQuota {one.quota}")
    return f"; raise {listing(texts)}"


def _limits(raised: QuotaRaise) -> str:
    return listing([f"{limit.resource} to {readable(limit.to)}" for limit in raised.limits])


def raises_text(raises: Sequence[QuotaRaise]) -> str:
    """Return to what quotas have to be raised, each by its name: ``raise requests.cpu to 4 in ResourceQuota web/q``."""
    return f"raise {listing([f'{_limits(one)} in ResourceQuota {one.quota}' for one in raises])}"


_NO_TROUBLE = ("starting", "failed", "evicted")


def _not_ready(health: WorkloadHealth) -> str:
    """Return which pods are not ready, those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for pod in health.troubled:
        if (pod.is_late or pod.state not in _NO_TROUBLE) and pod.pod != health.waits_for:
            reasons.setdefault(trouble_text(pod) or pod.state, []).append(own_name(pod.pod))
    if not (number := sum(map(len, reasons.values()))):
        return ""
    if all(pod.state == "being-deleted" for pod in health.troubled):
        return "; ".join(f"{listing(names, most=1)} {_are(len(names))} {reason}" for reason, names in reasons.items())
    of_all = max(health.pods + health.leaving, number)
    texts = [f"{listing(names, most=1)}: {reason}" for reason, names in reasons.items()]
    more = f"; and {count(len(texts) - 2, 'other reason')}" if len(texts) > 2 else ""
    return f"{number} of {count(of_all, 'pod')} {_are(number)} not ready, {'; '.join(texts[:2])}{more}"


def _scaler(health: WorkloadHealth) -> str:
    return WorkloadRef.parse(health.autoscaler).title


def own_name(key: str) -> str:
    return key.rpartition("/")[2]


def _are(number: int, one: str = "is", several: str = "are") -> str:
    return one if number == 1 else several


def state_text(health: PodHealth) -> str:
    """Return what a pod is in a cell of a table: ``not ready: CrashLoopBackOff (57 restarts)``."""
    state = health.state.replace("-", " ")
    why = trouble_text(health) if health.state in ("not-ready", "starting", "failed") else ""
    if health.state == "being-deleted":
        return trouble_text(health)
    if health.resize is not UNSET and not why:
        return f"{state}, resize {health.resize.reason or 'pending'}"
    if health.state == "evicted":
        return f"evicted, node short of {health.short_of}" if health.short_of else "evicted"
    return f"{state}: {why}" if why else state
