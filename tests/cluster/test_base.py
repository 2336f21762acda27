"""No question leaves a trace in the planner that the next one could see."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import kplan
from kplan.capacity.counting import Template
from kplan.cluster.incoming import IncomingPod
from kplan.course.queue_course import queue_report
from kplan.course.task import WorkedOff
from kplan.documents.placement import Origin
from kplan.questions.explain import explain_pod, whereabouts_report
from kplan.questions.preempt.document import follow_victims
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.load import decode_pod
from kplan.snapshot.model import Snapshot
from tests.objects import node, planner_of, pod
from tests.recorded import examples
from tests.scenarios import key, pending, planner, replica, scenarios

Question = Callable[[kplan.Planner], Any]
AREAS = ("resources", "preemption", "settle", "spread", "volumes", "dra", "gates", "nominated", "mixed")
ODD = {"tolerations": [{"key": "k", "operator": "Gt", "value": "1"}], "schedulingGroup": {"podGroupName": "g"}}


def still(report: Any) -> Any:
    return replace(report, generated_at="")


def questions_about(scenario: dict[str, Any]) -> list[Question]:
    """Return questions of every kind about the pods of a scenario, with answers that can be compared."""
    first, *others = pending(scenario)
    given_pod = replica(first, 7)
    odd = {**given_pod, "spec": {**given_pod["spec"], **ODD}}
    refused = IncomingPod(decode_pod(given_pod), Origin("web.yaml"), refused="exceeded quota")
    template = Template("replicas", (PodInfo(decode_pod(replica(first, 8))),))
    keys = [key(obj) for obj in (first, *others[:2])]
    running = [key(obj) for obj in scenario["objects"] if obj["kind"] == "Pod" and obj["spec"].get("nodeName")]
    return [
        lambda asking: asking.place(keys[0]).to_document(),
        lambda asking: asking.place(given_pod).to_document(),
        lambda asking: still(asking.plan([odd, *keys]).report()),
        lambda asking: still(asking.plan([refused, given_pod]).report()),
        lambda asking: still(asking.plan(keys, settle_preemption=True).report()),
        lambda asking: still(asking.plan_queue([odd, *keys]).report()),
        lambda asking: still(asking.capacity([template], limit=3, preempt=True).report()),
        lambda asking: follow_victims(asking, WorkedOff((given_pod, *keys)))[0],
        lambda asking: still(queue_report(asking, asking.queue_of([odd], with_pending=True))),
        lambda asking: still(whereabouts_report(asking, [explain_pod(asking, running[0] if running else keys[0])])),
    ]


@examples(60)
@given(area=st.sampled_from(AREAS), data=st.data())
def test_a_question_is_answered_as_if_it_were_the_first(area: str, data: st.DataObject) -> None:
    scenario = data.draw(st.sampled_from(scenarios(area)[:8]), label="scenario")
    questions = questions_about(scenario)
    numbers = st.integers(0, len(questions) - 1)
    before = data.draw(st.lists(numbers, max_size=5), label="asked before")
    last = data.draw(numbers, label="asked last")

    asking = planner(scenario)
    for number in before:
        questions[number](asking)

    untouched = planner(scenario)
    assert Snapshot.digest.func(asking.snapshot) == untouched.snapshot.digest  # anew: the first one is kept
    assert questions[last](asking) == questions[last](untouched)


def test_questions_about_pods_that_are_given_leave_no_row_behind() -> None:
    asking = planner_of(node("a"), pod("web", cpu="1"))
    known = len(asking.session.cluster.pods)
    asking.place(pod("new", cpu="1"))
    asking.plan_queue([pod("newer", cpu="1")])
    assert len(asking.session.cluster.pods) == len(asking.session.cluster.node_of) == known
