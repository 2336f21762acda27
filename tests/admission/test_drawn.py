"""Manifests drawn at random, against what kube-apiserver v1.36.2 says of them on creation.

Each line of ``recorded/drawn.jsonl.gz`` is a manifest with fields drawn from the API's description, and the answer:
``causes`` where it is invalid, ``message`` where it is refused otherwise, the stored object where it is a pod that is
taken. The cluster is that of ``recorded/cases.jsonl.gz``, with service accounts wherever a manifest names one. Left out
are manifests that differ only in whether a list is empty or absent, which kplan does not tell apart.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import kplan
from tests.recorded import read_lines

Object = dict[str, Any]

_RECORDED = Path(__file__).parent / "recorded"
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@cache
def _planner() -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot(read_lines(_RECORDED / "cases.jsonl.gz")[0]["environment"]))


def _drawn(status: int) -> list[Object]:
    found = [case for case in read_lines(_RECORDED / "drawn.jsonl.gz") if case["status"] == status]
    assert len(found) >= 80
    return found


def _problems(manifest: Object) -> list[str]:
    try:
        _planner().pods([manifest])
    except kplan.ManifestError as error:
        return sorted({_plain(f"{each.json_path}: {each.message}") for each in error.problems})
    return []


def _plain(text: str) -> str:
    return _UID.sub("UID", text.removeprefix("$.").removeprefix("$"))


def test_everything_that_is_invalid_is_told_in_the_same_words() -> None:
    for case in _drawn(422):
        assert _problems(case["manifest"]) == sorted(map(_plain, case["causes"])), case["manifest"]


def test_what_is_taken_is_taken_and_pods_are_stored_alike() -> None:
    for case in _drawn(201):
        made = _planner().pods([case["manifest"]])
        if "stored" in case:
            assert made[0].refusal == ""
            assert _comparable(made[0].object) == _comparable(case["stored"]), case["manifest"]


def test_what_is_forbidden_is_so_in_the_same_words() -> None:
    for case in _drawn(403):
        assert [each.refusal for each in _planner().pods([case["manifest"]])] == [case["message"]]


def test_what_does_not_decode_does_not_in_the_same_words() -> None:
    for case in _drawn(400):
        kind = case["manifest"]["kind"]
        words = case["message"].split(f"cannot be handled as a {kind}: ", 1)[1]
        said = "\n".join(_problems(case["manifest"]))
        for piece in words.removeprefix("strict decoding error: ").split(", "):
            assert piece in said


def _comparable(pod: Object) -> Object:
    pod = json.loads(re.sub(r"kube-api-access-\w{5}", "kube-api-access", json.dumps(pod)))
    for key in ("uid", "creationTimestamp", "generation"):
        pod["metadata"].pop(key, None)
    if not pod["metadata"].get("labels"):
        pod["metadata"].pop("labels", None)
    del pod["status"]
    return pod
