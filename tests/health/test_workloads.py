"""What a workload is, and how it is resumed."""

from typing import Any

import pytest

from kplan.course.at_present import workloads_at_present
from kplan.health.advice import way_on
from kplan.health.words import workload_text
from tests.objects import head, owned_by, planner_of

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "app", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}


def workload(kind: str, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    own = {"selector": SELECTOR, "template": TEMPLATE, **(spec or {})}
    if kind == "CronJob":
        own = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}, **(spec or {})}
    return head(kind, name="x", namespace="web", uid=f"{kind}-x") | {"spec": own, "status": status}


def pod(name: str, kind: str, *, ready: str = "True", node: str = "n1", **metadata: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": f"{kind}-x", "controller": True}
    return head("Pod", name=name, namespace="web", labels={"a": "b"}, ownerReferences=[owner], **metadata) | {
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "i"}]},
        "status": {
            "phase": "Running" if node else "Pending",
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "app", "ready": ready == "True", "started": True, "state": {"running": {}}}],
        },
    }


def condition(kind: str, status: str, reason: str = "") -> list[dict[str, str]]:
    return [{"type": kind, "status": status, "reason": reason}]


def scaler(*conditions: dict[str, str], least: int = 1, most: int = 1) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    return head("HorizontalPodAutoscaler", name="x", namespace="web") | {
        "spec": spec,
        "status": {"currentReplicas": 1, "desiredReplicas": most, "conditions": list(conditions)},
    }


def classed(name: str) -> dict[str, Any]:
    spec = {**TEMPLATE["spec"], "priorityClassName": name}
    return workload("ReplicaSet", {"replicas": 2, "template": {**TEMPLATE, "spec": spec}})


def with_metadata(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return obj | {"metadata": obj["metadata"] | metadata}


def stateful(strategy: str, partition: int | None = None, *, ready: str = "True") -> list[dict[str, Any]]:
    update = {"type": strategy} | ({} if partition is None else {"rollingUpdate": {"partition": partition}})
    old = {**pod("x-1", "StatefulSet", ready=ready)["metadata"]["labels"], "controller-revision-hash": "x-a"}
    return [
        workload(
            "StatefulSet", {"replicas": 1, "ordinals": {"start": 1}, "updateStrategy": update}, updateRevision="x-b"
        ),
        with_metadata(pod("x-1", "StatefulSet", ready=ready), labels=old),
    ]


REFUSED = condition("ReplicaFailure", "True", "FailedCreate")
OF_QUOTA = [{**REFUSED[0], "message": 'pods "x-" is forbidden: status unknown for quota: team, resources: pods'}]
FORBIDDEN = [{**REFUSED[0], "message": 'pods "x-" is forbidden: violates PodSecurity "restricted": so'}]
OF_DEPLOYMENT = owned_by("Deployment/x", "Deployment-x")
OF_CRON_JOB = owned_by("CronJob/x")
ONE = (workload("ReplicaSet"), pod("x-1", "ReplicaSet"))
QUOTA = head("ResourceQuota", name="team", namespace="web") | {
    "spec": {"hard": {"pods": "1"}},
    "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}},
}


def test_a_quota_refuses_the_pods_of_each_workload_alike() -> None:
    sets = [workload("ReplicaSet", {"replicas": 2}), workload("StatefulSet", {"replicas": 2})]
    found = workloads_at_present(planner_of(head("Node", name="n1"), *sets, QUOTA))
    assert ["ResourceQuota web/team pods 1 of 1 used" in workload_text(health) for health in found] == [True, True]


@pytest.mark.parametrize(
    ("objects", "said", "command"),
    [
        (ONE, "web/x: 1 of 1 pod is ready", ""),
        ([workload("Deployment", {"replicas": 2}, conditions=OF_QUOTA)],
         ("web/x: 2 of 2 replicas are missing: the API server refuses its pods (FailedCreate);"
          " kubectl describe replicaset says why"), ""),
        ([workload("Deployment", {"replicas": 2}),
          with_metadata(workload("ReplicaSet", {"replicas": 2}, conditions=FORBIDDEN), ownerReferences=OF_DEPLOYMENT)],
         'web/x: 2 of 2 replicas are missing: the API server refuses its pods: violates PodSecurity "restricted": so',
         "kubectl edit deployment x -n web"),
        ([workload("ReplicaSet", {"replicas": 3}), pod("x-1", "ReplicaSet"), QUOTA],
         "web/x: 2 of 3 replicas are missing: ResourceQuota web/team pods 1 of 1 used; raise it to 3",
         """kubectl patch resourcequota team -n web --type merge -p '{"spec":{"hard":{"pods":"3"}}}'"""),
        ([classed("hihg"), pod("x-1", "ReplicaSet"), head("PriorityClass", name="high") | {"value": 100}],
         "web/x: 1 of 2 replicas is missing: there is no PriorityClass hihg (did you mean high?)",
         """kubectl patch replicaset x -n web -p '{"spec":{"template":{"spec":{"priorityClassName":"high"}}}}'"""),
        ([classed("system-node-critical"), pod("x-1", "ReplicaSet")],
         "web/x: 1 of 2 replicas is missing: nothing refuses it, so its controller makes more", ""),
        ([workload("StatefulSet", {"replicas": 3}), pod("x-0", "StatefulSet", ready="False")],
         "web/x: 2 of 3 replicas are missing and wait for x-0, which is not ready (OrderedReady): container app", ""),
        ([workload("StatefulSet", {"replicas": 2}), pod("x-0", "StatefulSet", node="")],
         "web/x: 1 of 2 replicas is missing and waits for x-0, which has no node (OrderedReady)", ""),
        ([workload("DaemonSet"), head("Node", name="n2")], "web/x: 2 of 2 nodes lack its pod, n1, n2", ""),
        ([workload("Job", {"suspend": True})], "web/x: Job is suspended, so it starts no pod",
         """kubectl patch job x -n web -p '{"spec":{"suspend":false}}'"""),
        ([with_metadata(workload("Job", {"suspend": True}), labels={"kueue.x-k8s.io/queue-name": "team"})],
         "web/x: Job is suspended until Kueue admits it (queue team), so it starts no pod",
         "kubectl get workloads.kueue.x-k8s.io -n web"),
        ([workload("Job", conditions=condition("Failed", "True", "BackoffLimitExceeded"))],
         "web/x: Job has failed: its pods failed more often than its backoffLimit allows (BackoffLimitExceeded)", ""),
        ([workload("Job", conditions=condition("Complete", "True"))], "web/x: Job is complete", ""),
        ([workload("CronJob", {"suspend": True})], "web/x: CronJob is suspended, so it starts no Job",
         """kubectl patch cronjob x -n web -p '{"spec":{"suspend":false}}'"""),
        ([workload("CronJob", {"timeZone": "Mars/Base"})],
         'web/x: time zone "Mars/Base" does not exist, so no run starts (UnknownTimeZone)', ""),
        ([workload("CronJob", {"startingDeadlineSeconds": 5}, lastScheduleTime="2026-01-01T10:00:00Z"),
          with_metadata(pod("x-1", "Job"), creationTimestamp="2026-01-01T10:06:30Z")],
         "web/x: no run since 2026-01-01 10:00 UTC, though 4 were due: with startingDeadlineSeconds 5 one that starts",
         "kubectl describe cronjob x -n web"),
        ([workload("Deployment", {"replicas": 0})], "web/x: Deployment is scaled to zero",
         "kubectl scale deployment x -n web --replicas=1"),
        ([workload("Deployment", {"replicas": 0, "paused": True})],
         "web/x: Deployment is scaled to zero; Deployment is paused, so that changes of its template",
         "kubectl scale deployment x -n web --replicas=1"),
        ([*ONE, scaler({"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"})],
         "web/x: HorizontalPodAutoscaler web/x is at its maximum of 1 replicas", ""),
        ([*ONE, scaler({"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"})],
         "web/x: HorizontalPodAutoscaler web/x cannot read its metrics (FailedGetResourceMetric)",
         "kubectl describe hpa x -n web"),
        ([workload("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}),
          *(with_metadata(pod(f"x-{n}", "DaemonSet"), labels={"a": "b", "pod-template-generation": n}) for n in "12")],
         "web/x: 1 of 2 pods is of a former revision, each until somebody deletes it", "kubectl delete pod x-1 -n web"),
        (stateful("OnDelete"), "web/x: 1 of 1 pod is of a former revision, each until somebody deletes it",
         "kubectl delete pod x-1 -n web"),
        (stateful("RollingUpdate", 1), "web/x: 1 of 1 pod is of a former revision, as only pods numbered 2 or higher",
         """kubectl patch statefulset x -n web -p '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'"""),
        (stateful("RollingUpdate", ready="False"),
         "web/x: 1 of 1 pod is of a former revision: x-1 is replaced only once it is ready, or somebody deletes it",
         "kubectl delete pod x-1 -n web"),
        (stateful("RollingUpdate"), "web/x: 1 of 1 pod is ready", ""),
        ([workload("Job"), pod("x-1", "Job") | {"status": {"phase": "Failed"}}],
         "web/x: 1 of 1 pod is missing: 1 pod failed before, x-1; its controller waits for longer each time before it",
         "kubectl logs x-1 -n web"),
        ([workload("CronJob", {"concurrencyPolicy": "Forbid"}),
          with_metadata(workload("Job"), creationTimestamp="2026-01-01T10:00:00Z", ownerReferences=OF_CRON_JOB),
          with_metadata(pod("x-1", "Job"), creationTimestamp="2026-01-01T12:00:30Z")],
         "web/x: no other run starts while x is active, since 2026-01-01 10:00 UTC, for 2 h (concurrencyPolicy: ",
         "kubectl delete job x -n web"),
        ([workload("Deployment"), with_metadata(ONE[0], ownerReferences=OF_DEPLOYMENT), ONE[1], QUOTA,
          with_metadata(workload("ReplicaSet", {"replicas": 1}), name="y", uid="y", ownerReferences=OF_DEPLOYMENT)],
         "web/x: its rollout waits for new pods: ResourceQuota web/team pods 1 of 1 used; raise it to 2",
         """kubectl patch resourcequota team -n web --type merge -p '{"spec":{"hard":{"pods":"2"}}}'"""),
        ([workload("ReplicaSet", conditions=REFUSED),
          head("Namespace", name="web") | {"status": {"phase": "Terminating"}}],
         "web/x: 1 of 1 replica is missing: the API server refuses its pods: unable to create new content in namespace",
         ""),
        ([*ONE, scaler()], "web/x: 1 of 1 pod is ready", ""),
        ([*ONE, scaler(least=0)], "web/x: 1 of 1 pod is ready", ""),
        ([*ONE, scaler(least=0, most=2)], "web/x: HorizontalPodAutoscaler web/x is at its maximum of 2 replicas", ""),
        ([*ONE, scaler(*condition("ScalingActive", "True"), most=2)], "web/x: 1 of 1 pod is ready", ""),
    ],
)  # fmt: skip
def test_a_workload_is_told_with_what_it_lacks(objects: list[dict[str, Any]], said: str, command: str) -> None:
    (health,) = workloads_at_present(planner_of(head("Node", name="n1"), *objects))
    assert workload_text(health).startswith(said)
    words, there = way_on(health)
    assert (words[:3], there) == ("To " if command else "", command)


def test_the_pods_of_a_cron_job_are_counted_and_their_troubles_are_those_of_its_jobs() -> None:
    job = workload("Job")
    job["metadata"]["ownerReferences"] = OF_CRON_JOB
    crashing = pod("x-1", "Job", ready="False")
    (health,) = workloads_at_present(planner_of(head("Node", name="n1"), workload("CronJob"), job, crashing))
    assert (health.workload, health.pods, health.troubled) == ("CronJob/web/x", 1, ())
