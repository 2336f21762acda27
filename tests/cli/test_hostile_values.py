"""Values that do not belong where they stand: an answer, or a message in words, and never an internal error."""

import copy
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import written
from tests.objects import head, node, pod
from tests.recorded import sample

from .commands import invoke

#: As JSON text, since some of them are no Python value.
ODD = {
    "beyond 64 bits": str(2**63),
    "beyond 64 bits below": str(-(2**63) - 1),
    "thirty digits": "1" + "0" * 30,
    "five thousand digits": "1" * 5000,
    "beyond floats": "1e400",
    "fraction": "1.5",
    "quantity of five thousand digits": json.dumps("9" * 5000 + "Gi"),
    "exponent": json.dumps("1e400"),
    "no time": json.dumps("2026-00003-01T15:25:00Z"),
    "a list": '[[], {"a": [null]}]',
    "an object": '{"items": [], "": null}',
    "null": "null",
    "true": "true",
    "deep": "[" * 300 + "]" * 300,
    "text": json.dumps("\x1b[31m\n::error::x"),
    "minus one": "-1",
}
#: Python's and libraries' words.
WORDS = re.compile(
    r"internal error|msgspec|NoneType|Traceback|\b(Key|Type|Value|Attribute|Overflow|Recursion)Error|Expected `|"
    r"object at 0x|unhashable|\(b'|not subscriptable|has no attribute|codec can't|Exceeds the limit|"
    r"invalid literal|Errno|\bNone\b"
)


def check_told(found: Any) -> None:
    assert found.exit_code in (0, 1, 2)
    assert not WORDS.search(found.stderr), WORDS.search(found.stderr)
    if found.exit_code == 2:
        assert re.search(r"^(error|Error): ", found.stderr, re.MULTILINE) or "problem" in found.stdout


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, below in pairs for each in ((*path, key), *places(below, (*path, key)))]


def with_odd(document: Any, path: tuple[Any, ...], odd: str) -> str:
    """Return the document as JSON with `odd` at a path."""
    changed = copy.deepcopy(document)
    target = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = "HERE"
    return json.dumps(changed).replace('"HERE"', odd)


def pairs(document: Any, stride: int) -> list[tuple[tuple[Any, ...], str]]:
    """Every so many of all places with all odd values, the same at every run."""
    everything = list(itertools.product(places(document), ODD))
    return everything[::stride]


RICH = pod("rich", cpu="1")
RICH["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u", "labels": {"a": "b"}}
RICH["spec"] |= {
    "priority": 5,
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}]}},
}  # fmt: skip
CLUSTER = {"apiVersion": "v1", "kind": "List", "items": [node("a"), RICH]}
JOB = head("Job", name="j", namespace="default") | {
    "spec": {
        "parallelism": 2,
        "completions": 3,
        "backoffLimit": 1,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {**pod("x", cpu="1")["spec"], "restartPolicy": "Never"},
        },
    }
}
SCHEDULER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 16,
    "percentageOfNodesToScore": 50,
    "podInitialBackoffSeconds": 1,
    "profiles": [
        {
            "schedulerName": "s",
            "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}], "disabled": [{"name": "*"}]}},
            "pluginConfig": [{"name": "InterPodAffinity", "args": {"kind": "InterPodAffinityArgs"}}],
        }
    ],
    "extenders": [{"urlPrefix": "http://x", "filterVerb": "f", "weight": 1, "httpTimeout": "5s"}],
}  # fmt: skip
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:9", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"token": "t", "as-groups": ["g"], "as-user-extra": {"a": ["b"]}}}],
}


@pytest.mark.parametrize(("path", "odd"), pairs(CLUSTER, 23), ids=str)
def test_odd_values_in_a_cluster(path: tuple[Any, ...], odd: str, tmp_path: Path) -> None:
    file = written(tmp_path / "cluster.json", with_odd(CLUSTER, path, ODD[odd]))
    check_told(invoke("plan", "-s", file, "-o", "json"))
    check_told(invoke("snapshot", "check", file))


@pytest.mark.parametrize(("path", "odd"), pairs(JOB, 11), ids=str)
def test_odd_values_in_a_manifest(path: tuple[Any, ...], odd: str, tmp_path: Path) -> None:
    file = written(tmp_path / "job.json", with_odd(JOB, path, ODD[odd]))
    check_told(invoke("place", file))


@pytest.mark.parametrize(("path", "odd"), pairs(SCHEDULER, 7), ids=str)
def test_odd_values_in_a_scheduler_configuration(path: tuple[Any, ...], odd: str, tmp_path: Path) -> None:
    file = written(tmp_path / "scheduler.json", with_odd(SCHEDULER, path, ODD[odd]))
    check_told(invoke("config", "check", file))


@pytest.mark.parametrize(("path", "odd"), pairs(KUBECONFIG, 5), ids=str)
def test_odd_values_in_a_kubeconfig(path: tuple[Any, ...], odd: str, tmp_path: Path) -> None:
    file = written(tmp_path / "config", with_odd(KUBECONFIG, path, ODD[odd]))
    found = invoke("plan", "--kubeconfig", file, "--request-timeout", "1s", KPLAN_SNAPSHOT="")
    assert found.exit_code == 2
    check_told(found)


def test_odd_values_in_a_saved_report(tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    invoke("plan", "--save", saved)
    report = json.loads(saved.read_text())
    file = tmp_path / "odd.json"
    everything = pairs(report, 1)
    for path, odd in sample(everything[:: len(everything) // 40], 4):
        file.write_text(with_odd(report, path, ODD[odd]))
        for output in ("table", "json"):
            check_told(invoke("show", file, "-o", output))
