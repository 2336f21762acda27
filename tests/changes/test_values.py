"""Every change says itself, and is the same after it was written down."""

from typing import get_args

import msgspec
import pytest

from kplan.api.decode import DecodeError, convert
from kplan.changes import remedy as r
from kplan.changes import values as c
from kplan.changes.limits import Admitted, GroupSize, LoosenBudget, Pool, RaiseQuota
from kplan.changes.remedy_words import remedy_words
from kplan.changes.timed import Timed
from kplan.course.carry_out import carry_out
from kplan.course.task import Task
from kplan.course.what_if import read_edits
from kplan.errors import UsageError
from kplan.facts import LimitChange
from tests.objects import adding, node, planner_of

WEB = "Deployment/shop/web"
LOWER = r.LowerRequest(change=r.RequestChange(container="c", resource="cpu", old="2", to="1"), then=None)

_QUOTA = (
    'kubectl patch resourcequota team -n shop --type merge -p \'{"spec":{"hard":{"pods":"%d","requests.cpu":"%d"}}}\''
)

NAMED = r.CorrectName(
    change=r.NameChange(what="storage class", of="PersistentVolumeClaim shop/data", old="", to="fast"), then=None
)
TOLD: list[tuple[c.Change, str, tuple[str, ...], tuple[str, ...]]] = [
    (c.Apply(("web.yaml",)), "apply web.yaml", ("kubectl apply -f web.yaml",), ()),
    (c.Apply(({"kind": "Pod", "metadata": {"name": "a"}},)), "apply Pod/a", ("# apply Pod/a",), ()),
    (c.Delete(("Pod/shop/a",), 0), "delete Pod/shop/a", ("kubectl delete pod a -n shop --grace-period=0",), ()),
    (c.Scale(WEB, 4, 2), f"run 4 replicas of {WEB} instead of 2",
     ("kubectl scale deployment web -n shop --replicas=4",), ("kubectl scale deployment web -n shop --replicas=2",)),
    (c.Scale(WEB, 1, 2, "web", 2, min_replicas=1, max_replicas=1),
     f"run 1 replica of {WEB} instead of 2 (minReplicas 1 and maxReplicas 1 in autoscaler web)",
     ("""kubectl patch hpa web -n shop --type merge -p '{"spec":{"maxReplicas":1,"minReplicas":1}}'""",), ()),
    (c.Patch(WEB, "{}", LOWER), f"in {WEB}, lower the cpu request of container c from 2 to 1",
     ("""kubectl patch deployment web -n shop -p '{"spec":{"template":{"spec":{}}}}'""",),
     ("kubectl rollout undo deployment web -n shop",)),
    (c.Cordon(("a", "b")), "cordon a, b", ("kubectl cordon a b",), ("kubectl uncordon a b",)),
    (c.Uncordon(("a",)), "uncordon a", ("kubectl uncordon a",), ("kubectl cordon a",)),
    (c.Drain(("a",), c.DrainOptions(force=True, grace_period=0), 60), "drain a",
     ("kubectl drain a --ignore-daemonsets --force --grace-period=0 --timeout=60s",), ("kubectl uncordon a",)),
    (c.Drain(("a",), upgrade=c.Upgrade()), "upgrade a", ("# upgrade a",), ()),
    (c.Fail(("a", "b")), "a, b fail", ("# a, b fail",), ()),
    (c.AwaitNodes(("a",), ("cloud/new",)), "wait until a is set up",
     ("while kubectl get node a -o jsonpath='{.spec.taints[*].key}' | grep -qwF -e cloud/new; do sleep 5; done",), ()),
    (c.Recover(("a",)), "a recovers", ("# a recovers",), ()),
    (c.NotReady(("a",)), "a is not ready", ("# a is not ready",), ()),
    (c.Taint({"a": ("k=v:NoExecute", "old:NoSchedule-")}), "taint a: k=v:NoExecute, old:NoSchedule-",
     ("kubectl taint node a k=v:NoExecute old:NoSchedule-",), ("kubectl taint node a k=v:NoExecute-",)),
    (c.Conditions({"a": {"DiskPressure": "True"}}), "a posts DiskPressure=True", ("# a posts DiskPressure=True",), ()),
    (c.AddNodes(2, "a"), "add 2 nodes like a", adding(2, "a"), ()),
    (c.AddNodes(1, "a", devices=True), "add 1 node like a with its devices",
     (*adding(1, "a"),
      "# the pods claim devices, so wait until it publishes ResourceSlices like those of the other node"), ()),
    (c.RemoveNodes(("a",)), "remove a", ("kubectl delete node a",), ()),
    (c.Resize("vpa"), "give pods the requests that vpa recommends", ("# give pods the requests that vpa recommends",),
     ()),
    (c.Settle(), "wait until nothing moves", ("# wait until nothing moves",), ()),
    (c.Move("a", (c.Place("shop/web-1", "b", WEB, 3),)), "move shop/web-1 to b (away from a)",
     ("kubectl cordon a", "kubectl delete pod web-1 -n shop --wait",
      "kubectl wait --for=jsonpath='{.status.readyReplicas}'=3 deployment web -n shop --timeout=10m",
      "kubectl uncordon a"), ()),
    (c.RunCronJob("shop/report"), "run CronJob shop/report",
     ("kubectl create job report-manual --from=cronjob/report -n shop",),
     ("kubectl delete job report-manual -n shop",)),
    (LoosenBudget("shop/web", '{"minAvailable":2}', '{"minAvailable":1}'),
     "let budget shop/web allow more: minAvailable: 1 instead of minAvailable: 2",
     ("""kubectl patch pdb web -n shop --type merge -p '{"spec":{"minAvailable":1}}'""",),
     ("""kubectl patch pdb web -n shop --type merge -p '{"spec":{"minAvailable":2}}'""",)),
    (RaiseQuota("shop/team", (LimitChange("pods", "4", "8"), LimitChange("requests.cpu", "2", "4"))),
     "raise ResourceQuota shop/team: pods from 4 to 8 and requests.cpu from 2 to 4", (_QUOTA % (8, 4),),
     (_QUOTA % (4, 2),)),
    (Pool("general", (LimitChange("cpu", "4", "8"),)), "raise the limit of NodePool general: cpu from 4 to 8",
     ("""kubectl patch nodepool general --type merge -p '{"spec":{"limits":{"cpu":"8"}}}'""",),
     ("""kubectl patch nodepool general --type merge -p '{"spec":{"limits":{"cpu":"4"}}}'""",)),
    (Pool("workers", size=GroupSize(1, 3, "aws")), "raise the maximum size of node group workers from 1 to 3",
     ("aws autoscaling update-auto-scaling-group --auto-scaling-group-name workers --max-size 3",),
     ("aws autoscaling update-auto-scaling-group --auto-scaling-group-name workers --max-size 1",)),
    (c.Patch("PersistentVolumeClaim/shop/data", '{"storageClassName":"fast"}', NAMED),
     "in PersistentVolumeClaim shop/data, set the storage class to fast",
     ("""kubectl patch persistentvolumeclaim data -n shop -p '{"spec":{"storageClassName":"fast"}}'""",), ()),
]  # fmt: skip


@pytest.mark.parametrize(("change", "text", "commands", "undo"), TOLD)
def test_a_change_says_what_it_is_how_it_is_made_and_how_it_is_undone(
    change: c.Change, text: str, commands: tuple[str, ...], undo: tuple[str, ...]
) -> None:
    told = change.described(["shop/web-1"], ["shop/web-2"])
    assert (told.text, told.commands, told.undo) == (text, commands, undo)
    assert (told.achieves, told.disturbs) == (("shop/web-1",), ("shop/web-2",))


@pytest.mark.parametrize("change", [entry[0] for entry in TOLD])
def test_a_change_is_the_same_after_it_was_written_down(change: c.Change) -> None:
    document = msgspec.json.encode(change)
    assert msgspec.json.decode(document, type=c.Change) == change
    assert msgspec.json.decode(document)["change"] == change.__struct_config__.tag
    assert "text" not in msgspec.json.decode(document), "only an answer tells it"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            {"change": "patch", "object": "Pod/a/b", "patch": "nul{", "remedy": msgspec.to_builtins(LOWER)},
            "`patch` is to be the text",
        ),
        ({"change": "budget", "budget": "a/b", "old": "{}", "to": "[1]"}, "`to` is to be the text of a JSON object"),
        ({"change": "budget", "budget": "a/b", "old": '{"minAvailable": []}', "to": "{}"}, "`old` is to hold numbers"),
    ],
)
def test_what_a_change_holds_as_text_is_read_at_once(document: dict[str, object], words: str) -> None:
    with pytest.raises(DecodeError) as failed:
        convert(document, c.Change)
    assert words in failed.value.problems[0].message


def test_every_change_is_tried_here() -> None:
    assert {type(entry[0]) for entry in TOLD} == set(get_args(c.Change))


@pytest.mark.parametrize("change", [entry[0] for entry in TOLD if type(entry[0]) in (c.Drain, c.Fail, c.Move, Pool)])
def test_what_means_nothing_on_paper_is_refused(change: c.Change) -> None:
    with pytest.raises(UsageError, match="cannot be done on paper"):
        read_edits(change)


@pytest.mark.parametrize("change", [entry[0] for entry in TOLD if type(entry[0]) in (c.AddNodes, c.Move, c.Resize)])
def test_what_means_nothing_in_a_cluster_in_motion_is_refused(change: c.Change) -> None:
    planner = planner_of(node("a"))
    with pytest.raises(UsageError, match="cannot be done in a cluster in motion"):
        carry_out(planner, Task((Timed(0.0, change),)))


def test_changes_of_the_same_part_of_a_pool_become_one() -> None:
    first, then = (Pool("p", (LimitChange("cpu", old, to),)) for old, to in (("2", "4"), ("4", "8")))
    assert first.joined(then) == Pool("p", (LimitChange("cpu", "2", "8"),))
    small, large = (Pool("g", size=GroupSize(old, old + 1)) for old in (1, 2))
    assert small.joined(large) == Pool("g", size=GroupSize(1, 3))
    one, other = (Pool("p", admits=Admitted("zone", "In", (value,), 1)) for value in "ab")
    assert one.part == other.part == ("p", 1)
    assert one.joined(other) == Pool("p", admits=Admitted("zone", "In", ("a", "b"), 1))


AWAITED = r.Awaited(what="node", name="n1", because=("a", "b", "c", "d"))
RAISED = r.PriorityChange(old=0, to=9, priority_class="high", evicts=("a/b",), group="a/train")
ILL = r.NodeRepair(node="n 1", taints=("agent/off", "node.kubernetes.io/not-ready", "agent/out"))


@pytest.mark.parametrize(
    ("remedy", "words"),
    [
        (r.Await(change=AWAITED, then=None), "wait until node n1 is set up (a, b, c and 1 more go away then)"),
        (r.RaisePriority(change=RAISED, then=None),
         "use priority class high (9) in PodGroup a/train and its pods, which would evict a/b"),
        (r.RepairNode(change=ILL, then=None),
         "repair n 1, which is not ready, not set up (taints agent/off, agent/out): kubectl describe node 'n 1'"),
    ],
)  # fmt: skip
def test_a_remedy_is_said_with_what_it_is_about(remedy: r.Remedy, words: str) -> None:
    assert remedy_words(remedy) == words
