"""What fails a pipeline."""

import pytest

from kplan.course.answers.verdict import CONDITIONS, DEFAULT_FAIL_ON, Happened, judge, parse_fail_on
from kplan.documents.base import Counted, Verdict
from kplan.errors import UsageError
from kplan.facts import InputWarning
from tests.objects import node, pod
from tests.preemption.scenes import app, budget, planner

GUARDED = [
    node("a", cpu="4"),
    pod("low", on="a", cpu="4", labels={"app": "low"}),
    budget("keep", app("low")),
    pod("vip", cpu="4", priority=9),
    pod("huge", cpu="9"),
    pod("shut", cpu="1", schedulingGates=[{"name": "later"}]),
    pod("lost", cpu="1", schedulerName="nobody"),
    pod("none", cpu=None),
]
WARNINGS = [InputWarning("Odd", "Pod/x", "is odd")]


def because(*pods, fail_on, settle=False, **options):
    plan = planner(GUARDED).plan([f"default/{name}" for name in pods], settle_preemption=settle)
    return list(judge(plan.placements, WARNINGS, fail_on, **options).because)


@pytest.mark.parametrize(
    ("pods", "fail_on", "expected"),
    [
        pytest.param(["none"], CONDITIONS[:4], [], id="a pod that is placed"),
        pytest.param(["huge"], ["unschedulable"], ["default/huge: Unschedulable"], id="a pod that fits nowhere"),
        pytest.param(["huge"], ["preemption", "pdb-violation", "gated"], [], id="no preemption for it"),
        pytest.param(["lost"], ["unschedulable"], ["default/lost: Error"], id="an error is no placement"),
        pytest.param(["shut"], ["unschedulable"], [], id="a gated pod is not unschedulable"),
        pytest.param(["shut"], ["gated"], ["default/shut: Gated"], id="a gated pod"),
        pytest.param(["none"], ["warning"], ["Pod/x: Odd"], id="a warning"),
        pytest.param(["vip"], ["preemption"], ["default/vip: Preemption on a"], id="preemption"),
        pytest.param(["vip"], ["unschedulable", "preemption"], ["default/vip: Unschedulable"],
                     id="a pod that must preempt is told once"),
        pytest.param(["vip"], ["pdb-violation"], ["default/vip: PdbViolation of default/low"],
                     id="a budget that is violated"),
        pytest.param(["huge", "lost", "shut", "vip"], ["none"], [], id="nothing counts"),
        pytest.param(["vip", "huge", "shut"], ["gated", "unschedulable"],
                     ["default/vip: Unschedulable", "default/huge: Unschedulable", "default/shut: Gated"],
                     id="in the order of the placements"),
    ],
)  # fmt: skip
def test_what_counts_is_told(pods, fail_on, expected):
    assert because(*pods, fail_on=fail_on) == expected


@pytest.mark.parametrize(
    ("fail_on", "expected"),
    [
        (["unschedulable"], []),
        (["unschedulable", "preemption"], ["default/vip: Preemption on a"]),
        (["unschedulable", "pdb-violation"], ["default/vip: PdbViolation of default/low"]),
    ],
)
def test_a_pod_that_gets_in_by_preemption_can_be_accepted(fail_on, expected):
    assert because("vip", fail_on=fail_on, accepts_preemption=True) == expected


def test_of_a_pod_that_was_tried_twice_the_last_outcome_counts():
    assert because("vip", fail_on=["unschedulable"], settle=True) == []
    assert because("vip", fail_on=["preemption"], settle=True) == ["default/vip: Preemption on a"]


def test_a_verdict_fails_when_something_counts_and_exits_with_1_unless_that_is_off():
    passed, failed = Verdict.of(["gated"], []), Verdict.of(["gated"], [Counted("a/b", "Gated")], ["3 of 4 fit"])
    assert (passed.failed, passed.exit_code, passed.because) == (False, 0, ())
    assert (failed.failed, failed.exit_code, failed.because) == (True, 1, ("3 of 4 fit", "a/b: Gated"))
    assert (failed.without_exit_code().failed, failed.without_exit_code().exit_code) == (True, 0)
    assert failed.counted_of("a/b") == [Counted("a/b", "Gated")]
    assert failed.counted_of("a/c") == []


@pytest.mark.parametrize(
    ("event", "fail_on", "counts", "condition"),
    [
        (Happened(Counted("a", "Stuck")), ["unschedulable", "pending"], False, "unschedulable"),
        (Happened(Counted("a", "MissingReplicas")), ["unschedulable", "stuck"], True, "stuck"),
        (Happened(Counted("a", "Refused")), ["unschedulable"], True, "unschedulable"),
        (Happened(Counted("a", "Gated")), ["unschedulable", "stuck"], False, "stuck"),
        (Happened(Counted("a", "Gated"), holds_up=True), ["unschedulable", "stuck"], True, "stuck"),
        (Happened(Counted("a", "Gated"), holds_up=True), ["gated"], False, "gated"),
        (Happened(Counted("a", "Unschedulable"), is_old=True), ["unschedulable"], False, "unschedulable"),
        (Happened(Counted("a", "Unschedulable"), is_old=True), ["stuck", "pending"], True, "pending"),
    ],
)
def test_the_rule_of_an_event_says_what_counts_it_and_names_it(event, fail_on, counts, condition):
    assert event.counts(fail_on) is counts
    assert Verdict.of(fail_on, [event.counted]).condition_of(event.counted) == condition


@pytest.mark.parametrize(
    ("text", "expected"),
    [("unschedulable", ("unschedulable",)), (" gated , warning,gated,", ("gated", "warning")), ("none", ("none",))],
)
def test_lists_of_conditions(text, expected):
    assert parse_fail_on(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unscheduled,gated", "unknown condition in --fail-on: 'unscheduled'"),
        (" , ", "unknown condition in --fail-on: ' , '"),
        ("none,gated", "--fail-on none cannot be combined with others"),
    ],
)
def test_lists_that_are_none(text, message):
    with pytest.raises(UsageError) as raised:
        parse_fail_on(text)
    assert str(raised.value) == message
    assert raised.value.hint


def test_defaults_name_conditions():
    assert {word for words in DEFAULT_FAIL_ON.values() for word in words} <= set(CONDITIONS)
    assert DEFAULT_FAIL_ON["place"] == ("unschedulable", "stuck", "preemption", "gated")
    assert DEFAULT_FAIL_ON["preempt"] == ("unschedulable", "pdb-violation")
    assert DEFAULT_FAIL_ON["plan"] == ("unschedulable", "stuck", "pdb-violation")
