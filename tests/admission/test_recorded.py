"""What a real API server made of 800 manifests, against what kplan makes of them.

Each line of ``recorded/cases.jsonl.gz`` is a manifest, kube-apiserver v1.36's answer (``status``, ``message``), and
the pod as it was stored, or why it was refused. Left out of the comparison is what a server draws or looks up: uids,
times, the suffix of the token volume, a label of a node that the recording does not hold.

Each line of ``recorded/drawn.jsonl.gz`` is a manifest with fields drawn from the API's description (the last ones were
written, and answered by the same code without a server), and the answer:
``causes`` where it is invalid, ``message`` where it is refused otherwise, the stored object where it is a pod that is
taken. The cluster is the same, with service accounts wherever a manifest names one. Left out are manifests that differ
only in whether a list is empty or absent, which kplan does not tell apart.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest

import kplan
from tests.objects import Object
from tests.recorded import read_lines, sample

_FILE = Path(__file__).parent / "recorded" / "cases.jsonl.gz"
_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "b"}}}
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@cache
def _recorded() -> tuple[list[Object], list[Object]]:
    head, *cases = read_lines(_FILE)
    return head["environment"], cases


@cache
def _planner(*, with_node: bool = True) -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot([*_recorded()[0], *([_NODE] if with_node else [])]))


def _cases(kind: str) -> list[Object]:
    return [case for case in _recorded()[1] if _sort(case) == kind]


def _sort(case: Object) -> str:
    if case["status"] == 201:
        return "pod refused" if case.get("podRefused") else "accepted"
    return {400: "undecodable", 403: "forbidden", 404: "missing", 422: "invalid"}[case["status"]]


def _said(manifest: Object) -> str:
    """Return kplan's refusal, sorted where upstream's order is random, in the words of the API server."""
    try:
        pods = _planner().pods([manifest])
    except kplan.ManifestError as error:
        return ", ".join(sorted({f"{problem.json_path}: {problem.message}" for problem in error.problems}))
    return next((pod.refusal for pod in pods if pod.refusal), "")


def test_every_sort_of_answer_is_recorded() -> None:
    numbers = {kind: len(_cases(kind)) for kind in ("accepted", "pod refused", "undecodable", "forbidden", "invalid")}
    assert sum(numbers.values()) + len(_cases("missing")) == 800
    assert min(numbers.values()) > 40


def test_what_is_accepted_is_stored_field_by_field() -> None:
    for case in sample(_cases("accepted"), 6):
        made = _planner().pods([case["manifest"]])[0]
        assert made.refusal == "", case["id"]
        stored = case.get("pod") or (case["stored"] if case["manifest"]["kind"] == "Pod" else None)
        if stored is not None:
            assert _comparable(made.object) == _comparable(stored), case["id"]


def test_what_is_forbidden_is_so_in_the_same_words() -> None:
    for case in sample(_cases("forbidden"), 6):
        assert _said(case["manifest"]) == case["message"], case["id"]


def test_pods_of_workloads_are_refused_in_the_same_words() -> None:
    for case in sample(_cases("pod refused"), 6):
        said = _planner().pods([case["manifest"]])[0].refusal
        assert _pieces(said) == _pieces(case["podRefused"]), case["id"]


def test_what_is_invalid_is_so_in_the_same_words() -> None:
    for case in sample(_cases("invalid"), 6):
        words = case["message"].split("is invalid: ", 1)[1]
        said = _said(case["manifest"]).split("is invalid: ", 1)[-1].replace("$.", "")
        assert _pieces(said) == _pieces(words), case["id"]


def test_what_does_not_decode_does_not_in_the_same_words() -> None:
    for case in sample(_cases("undecodable"), 6):
        said = _said(case["manifest"])
        if case["mutation"] == "wrong version":
            assert "no matches for kind" in said
            continue
        words = case["message"].split(f"cannot be handled as a {case['manifest']['kind']}: ", 1)[1]
        for piece in words.removeprefix("strict decoding error: ").split(", "):
            assert piece in said, case["id"]


def test_what_is_not_there_is_missing() -> None:
    for case in sample(_cases("missing"), 6):
        with pytest.raises(kplan.ManifestError, match=r"not found|no matches for kind"):
            _planner().pods([case["manifest"]])


def _pieces(words: str) -> set[str]:
    """Take an answer apart: upstream walks maps in random order, and draws names and uids."""
    plain = re.sub(r'^(Pod|pods) "[^"]*"', r"\1", _UID.sub("UID", words))
    parts = re.split(r", (?=spec\.|metadata\.)", plain.removeprefix("[").removesuffix("]"))
    return {part.removeprefix("Pod is invalid: ").removeprefix("[") for part in parts}


def _comparable(pod: Object) -> Object:
    pod = json.loads(_UID.sub("UID", json.dumps(pod)))
    for key in ("uid", "creationTimestamp", "name"):
        pod["metadata"].pop(key, None)
    labels = {key: text for key, text in pod["metadata"].get("labels", {}).items() if "job" not in key}
    pod["metadata"]["labels"] = {key: text for key, text in labels.items() if "controller-uid" not in key}
    for condition in pod["status"].get("conditions", []):
        condition.pop("lastTransitionTime", None)
    text = re.sub(r"kube-api-access-\w{5}", "kube-api-access", json.dumps(pod))
    pod = json.loads(text)
    for volume in pod["spec"].get("volumes", []):
        if volume["name"] == "kube-api-access":
            # The recording server adds one more certificate, as no other does.
            sources = volume["projected"]["sources"]
            sources[:] = [each for each in sources if "openshift" not in each.get("configMap", {}).get("name", "")]
    return pod


# --- drawn at random --------------------------------------------------------------------------------------------------


def _drawn(status: int) -> list[Object]:
    found = [case for case in read_lines(_FILE.with_name("drawn.jsonl.gz")) if case["status"] == status]
    assert len(found) >= 80
    return found


def _problems(manifest: Object) -> list[str]:
    try:
        _planner(with_node=False).pods([manifest])
    except kplan.ManifestError as error:
        return sorted({_plain(f"{each.json_path}: {each.message}") for each in error.problems})
    return []


def _plain(text: str) -> str:
    return _UID.sub("UID", text.removeprefix("$.").removeprefix("$"))


def test_everything_that_is_drawn_and_invalid_is_told_in_the_same_words() -> None:
    for case in sample(_drawn(422), 6):
        assert _problems(case["manifest"]) == sorted(map(_plain, case["causes"])), case["manifest"]


def test_what_is_drawn_and_taken_is_taken_and_pods_are_stored_alike() -> None:
    for case in sample(_drawn(201), 6):
        made = _planner(with_node=False).pods([case["manifest"]])
        if "stored" in case:
            assert made[0].refusal == ""
            assert _alike(made[0].object) == _alike(case["stored"]), case["manifest"]


def test_what_is_drawn_and_forbidden_is_so_in_the_same_words() -> None:
    for case in sample(_drawn(403), 6):
        assert [each.refusal for each in _planner(with_node=False).pods([case["manifest"]])] == [case["message"]]


def test_what_is_drawn_and_does_not_decode_does_not_in_the_same_words() -> None:
    for case in sample(_drawn(400), 6):
        kind = case["manifest"]["kind"]
        words = case["message"].split(f"cannot be handled as a {kind}: ", 1)[1]
        said = "\n".join(_problems(case["manifest"]))
        for piece in words.removeprefix("strict decoding error: ").split(", "):
            assert piece in said


def _alike(pod: Object) -> Object:
    pod = json.loads(re.sub(r"kube-api-access-\w{5}", "kube-api-access", json.dumps(pod)))
    for key in ("uid", "creationTimestamp", "generation"):
        pod["metadata"].pop(key, None)
    if not pod["metadata"].get("labels"):
        pod["metadata"].pop("labels", None)
    del pod["status"]
    return pod
