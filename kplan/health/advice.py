"""What helps pods that are not well and workloads that do not go on, in sentences and commands to paste."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any

from msgspec import UNSET

from kplan.api.labels import ARCH, OUT_OF_SERVICE
from kplan.api.quantity import listing
from kplan.facts import QuotaRaise, RefusedPods
from kplan.health.pods import PodHealth
from kplan.health.words import is_of_node, outlasts_grace, own_name, released_text
from kplan.health.workloads import WorkloadHealth


def pod_advice(health: PodHealth) -> Iterator[str]:
    """Yield what helps a pod that scheduling does not help, as sentences."""
    node, (namespace, _, name) = health.node, health.pod.partition("/")
    if health.never_ends:
        yield (
            f"Once the machine is surely off, delete the Node (kubectl delete node {node}), or taint it "
            f"(kubectl taint node {node} {OUT_OF_SERVICE}=nodeshutdown:NoExecute); "
            "only then does a StatefulSet make its pod again, and another pod get its volumes."
        )
    elif health.state == "being-deleted" and health.finalizers:
        yield f"Look at who set {listing(health.finalizers)}: no scheduler and no kubelet takes it away."
    elif health.state == "being-deleted" and not health.is_collected and outlasts_grace(health):
        yield (
            f"Look at the kubelet and the container runtime of {node}: kubectl describe node {node}. "
            f"Once its containers surely do not run: kubectl delete pod {name} -n {namespace} --force"
        )
    elif health.is_mirror:
        yield f"It is a static pod: the kubelet of {node} makes and ends it, and no scheduler or controller does."
    elif health.state in ("ready", "not-ready") and "unreachable" in (health.node_states or ()):
        yield f"Look at {node}: its kubelet does not answer."
    elif health.state == "not-ready" or health.is_late:
        yield from _of_container(health)
    elif health.state == "failed" and health.container is not UNSET:
        yield f"To see why it failed: kubectl logs {name} -n {namespace} -c {health.container.name}"
    if health.resize is not UNSET:
        first = f"Make room on {node}, ask" if health.resize.reason == "Deferred" else "Ask"
        others = "so that new pods of that size go where there is room: nothing moves this one"
        yield f"{first} for less, or change the template of its workload, {others}."


def ways_on(workloads: Iterable[WorkloadHealth], pods: Iterable[PodHealth] = ()) -> list[str]:
    """Return what helps the pods that never end, and those for which further ones wait."""
    held = [pod for health in workloads for pod in health.troubled if pod.never_ends or pod.pod == health.waits_for]
    held += [pod for pod in pods if pod.never_ends]
    return list(dict.fromkeys(text for pod in held for text in pod_advice(pod)))


_OF_REASONS: Mapping[str, str] = {
    "CreateContainerConfigError": "A ConfigMap, Secret or key that it names is missing",
    "CreateContainerError": "The container runtime cannot make the container",
    "ContainerCreating": "Its volumes, its network or its image are not there yet",
}


_NO_ACCESS = "The registry refuses access, or has no such image: look at its name, and at imagePullSecrets"
_OF_FAILURES = (
    ("executable file not found", "The image has no such command: look at command and args, and at the image"),
    ("no such file or directory", "The image has no such file: look at command and args, and at the image"),
    ("permission denied", "A file of the image may not be executed: look at its mode, and at securityContext"),
    ("toomanyrequests", "The registry allows no more pulls for now: pull with credentials, or from a mirror"),
    ("401 Unauthorized", _NO_ACCESS),
    ("403 Forbidden", _NO_ACCESS),
    ("authorization failed", _NO_ACCESS),
    ("no such host", "The node does not find the registry: look at the name of the image, and at the node's DNS"),
    ("i/o timeout", "The node does not reach the registry: look at its network"),
    ("not found", "There is no such image or tag: correct it"),
    ("a key that it names is missing", "To see which key"),
)
"""A part of what the kubelet says of a container that cannot start -> what to look at, the first that is in it."""


def _of_container(health: PodHealth) -> Iterator[str]:
    """Yield what to look at, with the command that shows it."""
    namespace, _, name = health.pod.partition("/")
    describe = f"kubectl describe pod {name} -n {namespace}"
    container = health.container
    if health.held_volume is not UNSET:
        yield released_text(health.held_volume)
    elif container is UNSET and is_of_node(health):
        yield f"Look at the node: kubectl describe node {health.node}"
    elif container is UNSET:
        yield f"To see why: {describe}"
    elif container.architecture:
        yield f"Build the image for {container.architecture}, too, or let the pod require another {ARCH}."
    elif container.lacks is not UNSET:
        return  # what it lacks is named with the container
    elif container.failure and (what := next((what for words, what in _OF_FAILURES if words in container.failure), "")):
        yield f"{what}: {describe}"
    elif "Image" in container.reason:
        yield f"Look at the name of the image and at the pull secret: {describe}"
    elif container.last_end is not UNSET and container.last_end.reason == "OOMKilled":
        yield f"Container {container.name} uses more memory than its limit: raise the limit, or look for a leak."
    elif container.last_end is not UNSET:
        yield f"To see why it ends: kubectl logs {name} -n {namespace} -c {container.name} --previous"
    else:
        lead = _OF_REASONS.get(container.reason, "To see why")
        yield f"{lead}: {describe}"


def quota_command(raised: QuotaRaise) -> str:
    namespace, _, name = raised.quota.partition("/")
    hard = {limit.resource: limit.to for limit in raised.limits}
    return f"kubectl patch resourcequota {quote(name)} -n {quote(namespace)} --type merge -p {_patch({'hard': hard})}"


def _patch(spec: Mapping[str, Any]) -> str:
    """Return a patch of the spec of an object, as an argument."""
    return quote(json.dumps({"spec": spec}, separators=(",", ":")))


def way_on(health: WorkloadHealth) -> tuple[str, str]:
    """Return what has a workload go on, in a few words, and its command, to paste; both empty where there is none."""
    return next(_ways_on(health), ("", ""))


def _ways_on(health: WorkloadHealth) -> Iterator[tuple[str, str]]:
    """Yield what has a workload go on, in a few words, and its command, the first thing to do first."""
    kind, namespace, own = health.ref.parts
    states, refused, what = health.states, health.refused, kind.lower()
    named = f"{what} {quote(own)} -n {quote(namespace)}"
    if "suspended" in states and health.queue:
        yield "To see what Kueue waits for", f"kubectl get workloads.kueue.x-k8s.io -n {quote(namespace)}"
    elif "suspended" in states:
        yield "To resume it", f"kubectl patch {named} -p {_patch({'suspend': False})}"
    if "scaled-to-zero" in states:
        yield "To start it", f"kubectl scale {named} --replicas=1"
    yield from _ways_of_rollouts(health, named)
    yield from _ways_of_runs(health)
    yield from _ways_of_refused(refused, named, namespace)


def _ways_of_rollouts(health: WorkloadHealth, named: str) -> Iterator[tuple[str, str]]:
    """Yield what has a rollout go on, of a workload that is `named` as kubectl has it."""
    kind, namespace, own = health.ref.parts
    states, what = health.states, kind.lower()
    if "paused" in states:
        yield "To resume it", f"kubectl rollout resume {what}/{quote(own)} -n {quote(namespace)}"
    if "rollout-refused" in states:
        yield from _ways_of_refused(health.refused, named, namespace)
    held = health.held_update
    if held and held.because == "partition":
        strategy = {"updateStrategy": {"rollingUpdate": {"partition": 0}}}
        yield "To update all of them", f"kubectl patch {named} -p {_patch(strategy)}"
    elif held and not held.waits_for:
        yield "To have it made anew", _deletion(held.next)
    if "progress-deadline" in states or (held and held.waits_for):
        undo = f"kubectl rollout undo {what}/{quote(own)} -n {quote(namespace)}"
        yield (
            "Back to the revision before",
            f"{undo} && {_deletion(held.waits_for)}" if held and held.is_ordered else undo,
        )


def _deletion(pod: str) -> str:
    namespace, _, name = pod.partition("/")
    return f"kubectl delete pod {quote(name)} -n {quote(namespace)}"


def _ways_of_runs(health: WorkloadHealth) -> Iterator[tuple[str, str]]:
    """Yield what has a job, a cron job or an autoscaler go on."""
    kind, namespace, own = health.ref.parts
    states = health.states
    if "last-run-failed" in states:
        yield "To see why it failed", f"kubectl logs job/{quote(own_name(health.failed_run))} -n {quote(namespace)}"
    if health.active_run:
        yield "To end that run", f"kubectl delete job {quote(own_name(health.active_run.job))} -n {quote(namespace)}"
    if "misses-runs" in states:
        yield "To see what keeps it from starting one", f"kubectl describe cronjob {quote(own)} -n {quote(namespace)}"
    if kind == "Job" and "misses-pods" in states and health.troubled:
        yield "To see why they failed", f"kubectl logs {quote(own_name(health.troubled[-1].pod))} -n {quote(namespace)}"
    if "no-metrics" in states:
        yield "To see what it lacks", f"kubectl describe hpa {quote(own_name(health.autoscaler))} -n {quote(namespace)}"


def _ways_of_refused(refused: RefusedPods, named: str, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield what lets the API server take the pods of a workload, `named` as kubectl has it."""
    if (lacks := refused.lacks) is not UNSET and lacks.nearest:
        template = {"spec": {lacks.field: lacks.nearest}}
        yield "To correct the name", f"kubectl patch {named} -p {_patch({'template': template})}"
    elif lacks is not UNSET and lacks.kind == "ServiceAccount":  # it holds nothing but its name
        yield "To create it", f"kubectl create {lacks.kind.lower()} {quote(lacks.name)} -n {quote(namespace)}"
    elif refused.raises:
        yield "To raise the quota", " && ".join(map(quota_command, refused.raises))
    elif refused.by.startswith("LimitRange "):
        limit_range = quote(refused.by.rpartition("/")[2])
        yield "Keep to it in the template, or change it", f"kubectl edit limitrange {limit_range} -n {quote(namespace)}"
    elif "violates PodSecurity" in refused.message:
        yield "To set these fields in the template", f"kubectl edit {named}"
    elif refused.message.startswith("failed calling webhook"):
        kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
        yield "To see which service it calls, and its failurePolicy", f"kubectl get {kinds} -o wide"
    elif refused.by:
        yield "To state what it asks for in the template", f"kubectl edit {named}"
