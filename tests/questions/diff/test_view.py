"""The comment on a pull request: what is worse first, links to lines, and what tips a decision, in words."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kplan.documents.diff import Cause, Difference, WorkloadDifference, WorkloadSide
from kplan.questions.diff.view import _message, cause_text
from tests.cli.commands import invoke
from tests.objects import deployment, node

GITHUB = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_SHA": "abc"}
GITLAB = {"CI_PROJECT_URL": "https://git.example.com/g/r", "CI_COMMIT_SHA": "def"}


def written(folder: Path, **workloads: dict[str, Any]) -> Path:
    folder.mkdir()
    for name, workload in workloads.items():
        (folder / f"{name}.json").write_text(json.dumps(workload, indent=1))
    return folder


def sized(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    workload = deployment(name, replicas)
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return workload


@pytest.fixture
def comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes the comment, given variables of the environment and further options."""
    before = written(tmp_path / "before", web=sized("web", 2, "1"), api=sized("api", 1, "1"))
    after = written(tmp_path / "after", web=sized("web", 2, "1"), api=sized("api", 4, "1"))
    (after / "big.json").write_text(json.dumps(sized("big", 2, "900")))
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("a", "8"), node("b", "8")]}))
    monkeypatch.chdir(tmp_path)
    for name in (*GITHUB, *GITLAB, "GITHUB_WORKSPACE", "CI_PROJECT_DIR", "WORKSPACE"):
        monkeypatch.delenv(name, raising=False)

    def write(environment: dict[str, str], *more: str) -> str:
        words = ("diff", after.name, "--against-manifests", before.name, "-s", cluster, "-o", "markdown", *more)
        return invoke(*words, **environment).stdout

    return write


@pytest.mark.parametrize(
    ("environment", "address"),
    [(GITHUB, "https://github.com/o/r/blob/abc/"), (GITLAB, "https://git.example.com/g/r/-/blob/def/")],
)
def test_workloads_are_links_to_their_lines(comment: Any, environment: dict[str, str], address: str) -> None:
    links = dict(re.findall(r"^\| \[([^]]+)\]\(([^)]+)\)", comment(environment), re.MULTILINE))
    assert links.keys() == {"Deployment default/big", "Deployment default/api"}
    for name, link in links.items():
        path, _, line = link.removeprefix(address).partition("#L")
        assert path == f"after/{name.rpartition('/')[2]}.json"
        assert 1 <= int(line) <= len(Path(path).read_text().splitlines())


def test_what_is_worse_and_whether_it_fails_comes_first(comment: Any) -> None:
    heading, _, verdict, *_ = comment({}, "--fail-on", "regression").splitlines()
    differs = "1 workload differs: Deployment default/api scaled 1 -\\> 4; 1 pod the same"
    assert heading == f"## Pending now: both pods of Deployment default/big; {differs}"
    assert verdict == "**Failed**: regression"
    assert comment({}).splitlines()[2] == "**Passed**"


def test_only_the_first_of_many_workloads_is_named_in_the_first_line(comment: Any, tmp_path: Path) -> None:
    for name in ("c", "d"):
        (tmp_path / "after" / f"{name}.json").write_text(json.dumps(sized(name, 1, "900")))
    assert "Deployment default/big and 2 more workloads;" in comment({}).splitlines()[0]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (-4, 6, "6 points ahead; before, it was 4 points behind"),
        (0, 1, "1 point ahead; before, it was level"),
        (-6, -2, "2 points behind; before, it was 6 points behind"),
    ],
)
def test_points_are_told_as_ahead_or_behind(before: int, after: int, words: str) -> None:
    cause = Cause(kind="score", node="b", plugin="NodeResourcesFit", before=before, after=after)
    assert cause_text(cause) == f"NodeResourcesFit puts b {words}"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause(kind="node-gone", node="b"), "b is gone"),
        (Cause(kind="node-new", node="b"), "b is new"),
        (
            Cause(kind="rejects", node="b", plugin="NodeName", reasons=("one", "two")),
            "b rejects it: one, two (NodeName)",
        ),
        (Cause(kind="took-off", node="b", reasons=("one",)), "b rejected it: one"),
    ],
)
def test_nodes_are_told_with_what_they_do(cause: Cause, words: str) -> None:
    assert cause_text(cause) == words


def test_a_workload_whose_decision_is_not_held_has_the_schedulers_words_before_what_tips_it() -> None:
    cause = Cause(kind="score", node="b", plugin="NodeResourcesFit", before=0, after=1)
    row = WorkloadDifference(
        workload="Deployment/shop/web",
        difference=Difference.NEWLY_PENDING,
        before=WorkloadSide(pods=2, placed=2, nodes={"a": 2}),
        after=WorkloadSide(pods=2, placed=1, nodes={"a": 1}),
        why=(cause,),
        message="0/1 nodes are available: 1 Insufficient cpu.",
    )
    assert _message(row).splitlines() == ["pending now: 1 of 2 pods, before 0 of 2", row.message]
