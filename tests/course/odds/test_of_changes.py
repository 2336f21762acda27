"""Drains and rollouts asked many times: laws, against plain answers, and what is drawn."""

from functools import partial
from typing import Any

import pytest

import kplan
from kplan.changes.values import DrainOptions
from kplan.course.odds.report import Odds
from kplan.course.odds.tally import Rest
from kplan.course.report import change_report
from kplan.documents.change import StepEvent
from kplan.errors import NotFoundError
from kplan.questions import Drain, Plan
from kplan.questions.drain import how_of
from kplan.sweeps import ask_all as ask_all_side_by_side
from tests.objects import Object, budget, deployment, head, node, planner_of, pod, quota, running, template
from tests.recorded import IS_WHOLE, sample

NODES = ["n0", "n1", "n2", "n3"]


def planner(*objects: Object, cpu: str = "8", **options: Any) -> kplan.Planner:
    nodes = [node(name, cpu, **{"topology.kubernetes.io/zone": f"z{name[1]}"}) for name in NODES]
    return planner_of(*nodes, *objects, **options)


def thin(name: str, cpu: str = "3") -> Object:
    single = deployment(name, 1)
    single["spec"]["template"] = template(name, cpu=cpu)
    return single


def shares(odds: Odds, pod: str) -> dict[str, float]:
    return {where: n / odds.runs for where, n in odds.counts[pod].items()}


def test_which_of_two_equal_pods_gets_the_last_room_is_drawn() -> None:
    full = running(thin("full", "6"), ["n1"])
    pair = [*running(thin("one"), ["n0"]), *running(thin("two"), ["n0"])]
    odds = planner(*full, *pair, cpu="6").changed(cordon=["n2", "n3"]).changed(without=["pod?app=full"])
    odds = odds.changed(with_=[pod("blocker", "n1", cpu="3")]).odds(Drain(nodes=("n0",)), runs=100)
    one, two = shares(odds, "default/one-h1-000"), shares(odds, "default/two-h1-000")
    assert one["n1"] + two["n1"] == 1
    assert abs(one["n1"] - 0.5) < 0.1
    assert len(odds.outcomes) == 2
    assert {outcome.pending for outcome in odds.outcomes} == {("default/one-h1-000",), ("default/two-h1-000",)}


def test_a_pod_of_more_importance_evicts_one_and_both_are_told() -> None:
    important = running(thin("important", "6"), ["n0"])
    for obj in important:
        spec = obj["spec"] if obj["kind"] == "Pod" else obj["spec"]["template"]["spec"]
        spec |= {"priorityClassName": "high", "priority": 10} if obj["kind"] == "Pod" else {"priorityClassName": "high"}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    low = [*running(thin("a", "6"), ["n1"]), *running(thin("b", "6"), ["n2"]), pod("blocker", "n3", cpu="6")]

    odds = planner(high, *important, *low, cpu="6").changed(cordon=["n3"]).odds(Drain(nodes=("n0",)), runs=300)

    assert sum(odds.victims.values()) == 300
    for name in "ab":
        key = f"default/{name}-h1-000"
        assert 0.4 < odds.victims[key] / 300 < 0.6
        assert odds.counts[key] == {"pending": odds.victims[key], f"n{'ab'.index(name) + 1}": 300 - odds.victims[key]}
    report = odds.report()
    assert next(pod.pod for pod in report.pods) == "default/important-h1-000"
    assert report.evicted == {}


def test_blocked_and_lost_pods_are_told() -> None:
    web = running(deployment("web", 3), ["n0", "n1", "n2"])
    cluster = planner(*web, budget("web", minAvailable=3), pod("blocker", "n0"))

    odds = cluster.odds(Drain(nodes=("n0",)), runs=20)
    forced = cluster.odds(Drain(nodes=("n0",), options=DrainOptions(force=True, disable_eviction=True)), runs=20)
    lost = cluster.odds(Drain(nodes=("n0",), how="lost"), runs=20)

    without_controllers = cluster.odds(Drain(nodes=("n0",), options=DrainOptions(force=True)), runs=20)

    assert odds.counts == {"default/blocker": {"blocked": 20}, "default/web-h1-000": {"n0": 20}}
    assert without_controllers.counts == {"default/blocker": {"gone": 20}, "default/web-h1-000": {"blocked": 20}}
    assert odds.is_certain
    assert [[*pod.nodes] for pod in odds.report().pods] == [["n0"], ["n0"]]
    assert [(counted.rule, counted.runs) for counted in odds.report().verdict.counted] == [("Blocked", 20)]
    assert forced.counts["default/blocker"] == lost.counts["default/blocker"] == {"gone": 20}
    assert sum(lost.counts["default/web-h1-000"].values()) == 20
    assert not lost.report().verdict.failed


@pytest.mark.parametrize(
    ("nodes", "options"),
    sample([
        (["spot-a-1"], {}),
        (["general-a-1", "gpu-a-1"], {"lost": True}),
        (["spot-a-1"], {"one_by_one": True}),
        (["general-a-1", "gpu-a-1"], {"rolling": True}),
    ], 2, 1),
)  # fmt: skip
def test_one_run_is_the_plain_drain_with_that_seed(nodes: list[str], options: dict[str, bool]) -> None:
    snapshot = kplan.load_snapshot("demo")
    for seed in (1, 2) if IS_WHOLE else (1,):
        plain = kplan.Planner(snapshot, seed=seed).drain(nodes, **options)

        odds = kplan.Planner(snapshot).odds(Drain(nodes=tuple(nodes), how=how_of(**options)), runs=1, seed=seed)

        report = change_report(plain)
        ends = {
            change.pod: {change.to_node or ("gone" if change.action == "-" else "pending"): 1}
            for change in report.changes
        }
        blocked = {pod: {"blocked": 1} for pod in plain.blocked}
        moved = {**ends, **blocked}
        assert {pod: ends for pod, ends in odds.counts.items() if pod in moved} == moved
        where = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod.spec.node_name for pod in snapshot.pods}
        assert {pod: ends for pod, ends in odds.counts.items() if pod not in moved} == {
            pod: {where[pod]: 1} for pod in odds.counts.keys() - moved.keys()
        }
        assert set(odds.victims) == {step.pod for step in plain.steps if step.by}
        counted = {event.object for event in odds.report().verdict.counted}
        known_as = {change.recreated_as: change.pod for change in report.changes}
        assert counted == {known_as.get(event.object, event.object) for event in report.verdict.counted}


def test_one_run_is_the_plain_rollout_with_that_seed() -> None:
    objects = [*running(deployment("web", 4), NODES), *running(thin("other"), ["n0"])]
    manifests = [deployment("web", 6, image="app:2"), thin("fresh")]
    for seed in range(3):
        plain = planner(*objects, seed=seed).roll_out(manifests)

        odds = planner(*objects).odds(Plan(manifests=tuple(manifests)), runs=1, seed=seed)

        ended = sorted(pod.node or "pending" for pod in plain.after if pod.new)
        assert sorted(where for counts in odds.counts.values() for where in counts) == ended
        assert odds.report().summary.all_placed.share == 1


def test_a_rollout_tells_workloads_and_says_of_an_unchanged_one_that_nothing_moves() -> None:
    objects = running(deployment("web", 4), NODES)

    rolled = planner(*objects).odds(Plan(manifests=(deployment("web", 4, image="app:2"),)), runs=50)
    scaled = planner(*objects).odds(Plan(manifests=(deployment("web", 70),)), runs=4).report()
    nothing = planner(*objects).odds(Plan(manifests=(deployment("web", 4),)), runs=50)

    assert sum(map(len, rolled.counts.values())) >= 4
    assert all(sum(counts.values()) == 50 for counts in rolled.counts.values())
    [workload] = scaled.workloads
    assert (workload.workload, workload.complete.share) == ("Deployment/default/web", 0)
    assert "Insufficient cpu" in workload.because
    assert nothing.counts == {}
    assert nothing.is_certain


def test_every_draw_follows_the_queue_until_pods_are_tried_again_that_no_event_has_woken() -> None:
    """The room that is kept for a nominated pod is free again, without an event, when it gets another node."""
    nominated = pod("b", cpu="2", nominated="n1", nodeSelector={"only": "b"})
    asked = planner_of(node("n1", "4"), node("n2", "2", only="b"), pod("a", cpu="4"), nominated)
    assert [(change.pod, change.to_node) for change in asked.plan_queue().report().changes] == [
        ("default/a", "n1"),
        ("default/b", "n2"),
    ]
    assert asked.odds(Plan(), runs=3).counts == {"default/a": {"n1": 3}, "default/b": {"n2": 3}}


def test_a_claim_that_a_quota_refuses_is_missing_in_every_run() -> None:
    limited = planner(quota("quota", None, persistentvolumeclaims="0"))
    claim = head("PersistentVolumeClaim", name="data") | {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    }
    web = deployment("web", 1)
    web["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]

    plain = limited.roll_out([claim, web])
    odds = limited.odds(Plan(manifests=(claim, web)), runs=5)

    [waiting] = plain.after
    assert 'persistentvolumeclaim "data" not found' in waiting.message
    assert odds.counts == {f"{waiting.namespace}/{waiting.name}": {"pending": 5}}
    [pod] = odds.report().pods
    assert pod.pending is not None
    refusals = [warning for warning in plain.warnings if warning.code == "Refused"]
    assert [warning.object for warning in refusals] == ["PersistentVolumeClaim/default/data"]
    assert refusals == [warning for warning in odds.report().warnings if warning.code == "Refused"]


def test_cron_jobs_start_a_run_in_every_run_where_they_are_asked_to() -> None:
    job = {"template": template("nightly")}
    job["template"]["spec"]["restartPolicy"] = "Never"
    cron = head("CronJob", name="nightly") | {"spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}}
    plain = planner().roll_out([cron], run_cron_jobs=True)
    odds = planner().odds(Plan(manifests=(cron,), run_cron_jobs=True), runs=8)
    assert [*odds.counts] == [f"{pod.namespace}/{pod.name}" for pod in plain.after]
    assert planner().odds(Plan(manifests=(cron,)), runs=8).counts == {}


def test_runs_end_the_same_whoever_carries_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    demo = kplan.Planner("demo")
    question_counts: list[int] = []

    def document(**options: Any) -> dict[str, Any]:
        odds = demo.odds(Drain(nodes=("general-a-1", "general-b-1")), runs=10, **options)
        return odds.report().to_dict() | {"generatedAt": ""}

    def ask_all(questions: Any, *, progress: Any) -> Any:
        question_counts.append(len(questions))
        return [question(demo) for question in reversed(questions)]

    alone = document()
    monkeypatch.setattr("kplan.course.odds.runs._ALONE", 0)
    monkeypatch.setattr("kplan.course.odds.runs._ALONE_AT_MOST", 0)

    assert document(ask_all=ask_all) == document(ask_all=partial(ask_all_side_by_side, demo, workers=2)) == alone
    assert question_counts


def test_turns_are_drawn_only_among_runs() -> None:
    pair = [*running(thin("one"), ["n0"]), *running(thin("two"), ["n0"])]
    first = {
        step.workload
        for seed in range(5)
        for step in planner(*pair, seed=seed).drain(["n0"]).steps
        if step.event is StepEvent.CREATED and step.step == 3
    }
    assert len(first) == 1


def test_a_node_that_is_not_there_is_told() -> None:
    with pytest.raises(NotFoundError, match="n9"):
        planner().odds(Drain(nodes=("n9",)))


def test_which_of_several_equal_pods_a_replica_set_gives_up_is_drawn() -> None:
    web = thin("web", "1")
    web["spec"]["replicas"] = 4
    fewer = {**web, "spec": {**web["spec"], "replicas": 2}}
    odds = planner(*running(web, NODES)).odds(Plan(manifests=(fewer,)), runs=200)
    assert {len(outcome.example.keys(Rest.GONE)) for outcome in odds.outcomes} == {2}
    assert len(odds.outcomes) == len(NODES), "two that follow each other in the map, from any place on"
    assert all(0 < counts["gone"] < odds.runs for counts in odds.counts.values())
