import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from kplan.diagnosis.explanation import Shown
from kplan.documents.placement import Origin, PodRef
from kplan.facts import InputWarning
from kplan.framework.results import Outcome
from kplan.questions.place import Place
from kplan.questions.place.view import representatives, workload_groups
from kplan.report.options import DEFAULT_TOP, ReportOptions
from kplan.report.registry import render
from tests.cli.commands import invoke
from tests.objects import deployment, planner_of
from tests.recorded import sample
from tests.report.documents import coming_from, node, placed, pod
from tests.schemas import assert_keeps_to_its_schema

MORE_NODES = ("--add-nodes", "3=general-a-1")


def _table(objects: list[dict[str, Any]], pods: list[Any], top: int | None = DEFAULT_TOP, **options: Any) -> str:
    return render(placed(objects, pods, Shown(top), **options), "table", ReportOptions(top=top))


def test_ties_are_told_with_what_the_scheduler_does() -> None:
    text = _table([node("a"), node("b"), node("c"), pod("p")], ["default/p"])
    assert "default/p -> a" in text
    assert "A tie: b, c have the same best score" in text
    assert "kube-scheduler may choose any of them" in " ".join(text.split())
    assert "In every row: SCORE 454" in text
    assert "  b         tie\n" in text


def test_a_single_node_is_not_scored() -> None:
    text = _table([node("a", cpu="1"), node("b"), pod("p", cpu="2")], ["default/p"])
    assert text.startswith("default/p -> b, the only node that can take it\n")
    assert "- 1 node, a: requests 2 cpu, 1 of 1 free: 1 short" in text


def test_the_closest_node_comes_first_with_what_is_short() -> None:
    objects = [node("a", cpu="1"), node("b", cpu="3"), node("c", cpu="2"), pod("p", cpu="4")]
    assert "- 3 nodes, such as b: requests 4 cpu, 3 of 3 free: 1 short\n" in _table(objects, ["default/p"])
    text = _table(objects, ["default/p"], top=4)
    lines = [text_line.strip() for text_line in text.splitlines() if text_line.strip().startswith("- ")]
    assert lines[:3] == [
        "- b (closest): requests 4 cpu, 3 of 3 free: 1 short",
        "- c: requests 4 cpu, 2 of 2 free: 2 short",
        "- a: requests 4 cpu, 1 of 1 free: 3 short",
    ]


def test_nodes_with_another_obstacle_are_not_closest() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    objects = [node("a", cpu="1"), node("b", cpu="3", unschedulable=True), node("t", taints=[taint]), pod("p", cpu="4")]
    text = _table(objects, ["default/p"], top=4)
    assert "- b: the node is cordoned (also: NodeResourcesFit)" in text
    assert "taint k:NoSchedule is not tolerated" in text


def test_top_limits_every_list() -> None:
    objects = [*(node(f"n{i}") for i in range(9)), *(node(f"s{i}", cpu="1") for i in range(9)), pod("p", cpu="2")]
    text = _table(objects, ["default/p"], top=2)
    assert text.count("and 7 more nodes (--all-nodes shows all)") == 2
    assert "n1" in text
    assert "n2" not in text.replace("n1, n2, n3 and 5 more", "")
    everything = _table(objects, ["default/p"], top=None)
    assert "more node" not in everything
    assert "n8" in everything


def _from(name: str) -> Origin:
    return Origin("web.yaml", 1, "Deployment", name)


def test_replicas_of_one_workload_are_told_together() -> None:
    document = placed(
        [node("a", cpu="3"), *(pod(f"web-{i}") for i in range(5))], [f"default/web-{i}" for i in range(5)]
    )
    text = render(coming_from(document, _from("web")), "table", ReportOptions())
    assert text.startswith("Deployment default/web: 2 of 5 replicas fit nowhere: the only node, a, lacks cpu")
    assert "  a                 3  web-0..web-2\n" in text
    assert "  (nowhere)         2  web-3, web-4\n" in text
    assert "default/web-3 (the first of 2 alike) fits nowhere" in text


def test_groups_are_neighbours_from_the_same_object() -> None:
    web, db = _from("web"), _from("db")
    pods = [PodRef("x", str(number), "", 0, "", origin) for number, origin in enumerate((web, web, db, UNSET))]
    assert workload_groups(pods) == [[0, 1], [2], [3]]
    assert representatives(
        [(Outcome.SCHEDULED, ""), (Outcome.SCHEDULED, ""), (Outcome.GATED, "g"), (Outcome.GATED, "g")], [[0, 1, 2], [3]]
    ) == {0, 2, 3}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"schedulingGates": [{"name": "quota"}]},
            [
                "the scheduler ignores it until its scheduling gate quota is removed",
                "What would help: have whoever set scheduling gate quota remove it",
            ],
        ),
        (
            {"schedulerName": "nobody"},
            ["p is not for kube-scheduler: nobody decides where it runs; kplan does not model nobody"],
        ),
    ],
)
def test_other_outcomes(spec: dict[str, Any], words: list[str]) -> None:
    text = _table([node("a"), pod("p", **spec)], ["default/p"])
    assert all(word in " ".join(text.split()) for word in words)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([node("a", cpu="1"), pod("p", cpu="2")], "evicting lower-priority pods would not make it fit on any node."),
        (
            [node("a", cpu="1"), pod("low", node="a"), pod("p", priority=9, preemptionPolicy="Never")],
            "it may not evict any pod, since its preemptionPolicy is Never.",
        ),
    ],
)
def test_preemption_that_does_not_help(objects: list[dict[str, Any]], words: str) -> None:
    text = " ".join(_table(objects, ["default/p"]).split())
    assert f"Preemption does not help: {words}" in text


def test_what_is_odd_about_many_objects_in_the_same_way_is_told_once() -> None:
    document = placed([node("a")], [pod("p")])
    warnings = [InputWarning("Odd", f"Pod/{n}", "is odd") for n in range(3)]
    warnings.insert(1, InputWarning("Odd", "Pod/x", "is odder"))
    document = replace(document, warnings=tuple(warnings))
    text = render(document, "table", ReportOptions())
    assert text.count("is odd ") == 1
    assert "  - Pod/0 and 2 more: is odd [Odd]\n  - Pod/x: is odder [Odd]\n" in text


def test_replicas_that_the_api_server_refuses_alike_are_told_once() -> None:
    name = {"name": "w", "namespace": "default"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    small = {"limits": [{"type": "Container", "default": {"memory": "512Mi"}}]}
    planner = planner_of(node("n1"), {"apiVersion": "v1", "kind": "LimitRange", "metadata": name, "spec": small})
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": name, "spec": spec}
    report = Place(manifests=(workload,)).answer(planner)
    text = render(report, "table", ReportOptions(width=300))
    assert text.startswith("Deployment default/w: 3 of 3 replicas are refused: the API server refuses the pod: ")
    assert "default/w-0 (the first of 3 alike) is refused" in text
    assert text.count("must be less than or equal to memory limit of 512Mi") == 2


def test_nodes_that_were_passed_over_say_why() -> None:
    nominated = pod("p", priority=5) | {"status": {"phase": "Pending", "nominatedNodeName": "b"}}
    shown = render(placed([node("a"), node("b"), nominated], ["default/p"]), "table", ReportOptions(explain=True))
    assert "1 node was not evaluated: its nominated node is tried first, and fits." in " ".join(shown.split())


@pytest.fixture
def web(tmp_path: Path) -> Path:
    path = tmp_path / "web.yaml"
    workload = deployment("web", 3)
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    path.write_text(json.dumps(workload))
    return path


@pytest.fixture
def clusters(tmp_path: Path) -> list[Path]:
    """Write the demo, one with more nodes, and one without any that takes a pod."""
    (tmp_path / "clusters").mkdir()
    changes = {"a.json": (), "b.yaml.gz": MORE_NODES, "c.json": ("--cordon", "*")}
    paths = [tmp_path / "clusters" / name for name in changes]
    for path, words in zip(paths, changes.values(), strict=True):
        assert invoke("snapshot", "save", path, *words).exit_code == 0
    return paths


def snapshots(paths: list[Path]) -> list[str]:
    return [word for path in paths for word in ("-s", str(path))]


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "generatedAt": ""}


@pytest.mark.parametrize("more", sample([(), ("--replicas", "40"), ("--explain",), ("--timeline",), MORE_NODES], 4, 1))
def test_the_answer_of_each_cluster_is_that_to_the_question_about_it_alone(
    web: Path, clusters: list[Path], more: tuple[str, ...]
) -> None:
    document = json.loads(invoke("place", web, *snapshots(clusters), *more, "-o", "json").stdout)
    assert_keeps_to_its_schema(document)
    for cluster, path in zip(document["clusters"], clusters, strict=True):
        alone = invoke("place", web, "-s", path, *more, "-o", "json")
        assert timeless(cluster["report"]) == timeless(json.loads(alone.stdout))
        assert cluster["hasRoom"] == (alone.exit_code == 0)
    assert document["verdict"]["failed"] == (not any(cluster["hasRoom"] for cluster in document["clusters"]))


def test_a_directory_of_snapshots_is_a_row_for_each_and_one_of_objects_a_cluster(
    web: Path, clusters: list[Path], tmp_path: Path
) -> None:
    sentence = invoke("place", web, "-s", clusters[0].parent, "-o", "short")
    (tmp_path / "objects").mkdir()
    for kind in ("nodes", "pods"):
        objects = json.loads(clusters[0].read_text())["objects"][kind]
        items = [{"apiVersion": "v1", "kind": kind[:-1].title(), **obj} for obj in objects]
        (tmp_path / "objects" / f"{kind}.json").write_text(
            json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
        )

    assert (sentence.exit_code, sentence.stdout) == (0, f"1 of 3 clusters has room: {clusters[1]}\n")
    assert "clusters" not in invoke("place", web, "-s", tmp_path / "objects").stdout.splitlines()[0]


def test_where_no_cluster_has_room_it_fails_in_every_format(web: Path, clusters: list[Path], tmp_path: Path) -> None:
    formats = ("junit", "github", "sarif", "markdown", "html", "openmetrics")
    reports = [word for name in formats for word in ("--report", f"{name}={tmp_path}/{name}")]

    shown = invoke("place", web, *snapshots(clusters[::2]), *reports)

    assert shown.exit_code == 1
    assert shown.stdout.startswith("None of 2 clusters has room\n")
    assert shown.stdout.rstrip().endswith("Verdict: failed (exit code 1): no cluster has room")
    assert {name for name in formats if "a.json" not in (tmp_path / name).read_text()} == set()
    assert invoke("place", web, *snapshots(clusters), "-o", "name").stdout == f"{clusters[1]}\n"


@pytest.mark.parametrize("name", ["a" * 5000, f"{'a' * 5000}.tgz", "\x01"])
def test_names_that_no_file_has_are_refused(web: Path, name: str) -> None:
    for command in (("place", web), ("plan",)):
        refused = invoke(*command, "-s", name)
        assert refused.exit_code == 2
        assert "internal error" not in refused.stderr


def test_what_is_for_one_cluster_is_refused_for_several(web: Path, clusters: list[Path]) -> None:
    for words, message in ((("--runs", "3", web), "--runs is for one cluster"), (("-",), "standard input is for one")):
        refused = invoke("place", *words, *snapshots(clusters))
        assert refused.exit_code == 2
        assert message in refused.stderr
