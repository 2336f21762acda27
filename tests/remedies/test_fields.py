"""The field that a diagnosis points at is the one that a reader would change."""

import pytest

from kplan.remedies.fields import _host_port, _rule
from tests.objects import node, pod
from tests.preemption.scenes import planner
from tests.remedies.everyday import KEY, STORIES

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FIELDS = {
    "too little cpu is free on any node": "$.spec.containers[0].resources.requests.cpu",
    "no node is large enough even when it is empty": "$.spec.containers[0].resources.requests.cpu",
    "a resource that no node offers": "$.spec.containers[0].resources.requests['nvidia.com/gpu']",
    "a label is misspelt": "$.spec.nodeSelector.disk",
    "an affinity to a zone that does not exist": f"$.spec.affinity.nodeAffinity.{REQUIRED}",
    "all nodes have a taint": "$.spec.tolerations",
    "the only node with room is cordoned": "",
    "replicas keep apart on as many hosts as there are": f"$.spec.affinity.podAntiAffinity.{REQUIRED}[0]",
    "the spread over zones does not hold": "$.spec.topologySpreadConstraints[0]",
    "nothing to be near to": f"$.spec.affinity.podAffinity.{REQUIRED}[0]",
    "a claim does not exist": "$.spec.volumes[0].persistentVolumeClaim.claimName",
    "the class of a claim does not exist": "$.spec.volumes[0].persistentVolumeClaim.claimName",
    "the only node of its affinity does not exist": f"$.spec.affinity.nodeAffinity.{REQUIRED}",
    "gates hold it back": "$.spec.schedulingGates",
    "another scheduler is to place it": "$.spec.schedulerName",
    "victims are still leaving": "",
}


@pytest.mark.parametrize("name", FIELDS)
def test_the_field_at_fault_is_named(name: str):
    (story,) = (known for known in STORIES if known.name == name)
    placed = planner(story.objects).place(KEY)
    assert placed.at_fault == FIELDS[name]
    assert placed.to_dict().get("atFault", {"path": ""})["path"] == FIELDS[name]


def test_the_pod_is_not_at_fault_for_a_taint_that_goes_by_itself():
    coming = node("coming", taints=[{"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}])
    assert planner([coming, pod("web")]).place("default/web").at_fault == ""


def test_a_rule_that_the_pod_does_not_have_itself_names_no_field():
    (story,) = (known for known in STORIES if known.name == "a host port is taken")
    (pod,) = (pod for pod in planner(story.objects).snapshot.pods if pod.metadata.key == KEY)
    assert _rule(pod, "podAntiAffinity", "another/key") == _rule(pod, "topologySpreadConstraints", "another/key") == ()
    assert (_host_port(pod, 80), _host_port(pod, 81)) == (("spec", "containers", 0, "ports", 0), ())
