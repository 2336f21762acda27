"""What others wrote speaks neither to the terminal nor to a CI system, whatever command prints it in whatever form."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.objects import affinity, node, pod

from .commands import invoke, listed

#: A line of its own, colour, a title, direction marks, invisible characters, commands of three CI systems.
ODD = (
    "x\n::error::forged \r\x1b[31mred\x1b]0;title\x07 \u202egpj.exe\u2066 ze\u200bro\u2028y\x85z\x9b1m "
    "::set-output name=a::b ##vso[task.setvariable variable=a]b ##[error]c ##teamcity[buildStop]"
)
FORMATS = ["table", "wide", "json", "yaml", "markdown", "name", "junit", "github", "sarif", "html"]
FOREIGN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
COMMAND = re.compile(r"^\s*::|##(vso|teamcity)?\[", re.IGNORECASE | re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster in which whatever can be odd is."""
    uids = iter(range(1000))

    def served(obj: dict[str, Any], **spec: Any) -> dict[str, Any]:
        obj["metadata"] |= {"uid": f"u{next(uids)}", "labels": {"zone": ODD, ODD: "x"}, "annotations": {"a": ODD}}
        obj["spec"] = {**obj.get("spec", {}), **spec}
        return obj

    taints = [{"key": f"k{ODD}", "value": ODD, "effect": "NoSchedule"}]
    nodes = [served(node("a")), served(node(f"b{ODD}"), taints=taints), served(node("c"), taints=taints)]
    apart = affinity("podAntiAffinity", ODD, zone=ODD)
    running = served(pod("running", cpu="1"), nodeName=f"b{ODD}", priority=-5, **apart)
    running["metadata"]["ownerReferences"] = [{"kind": ODD, "name": ODD, "uid": ODD, "controller": True}]
    waiting = served(pod("waiting", cpu="1"), nodeSelector={f"s{ODD}": ODD}, volumes=[
        {"name": ODD, "persistentVolumeClaim": {"claimName": ODD}}])  # fmt: skip
    big = served(pod(f"big{ODD}", cpu="1000"), priority=10, schedulerName="default-scheduler")
    gated = served(pod("gated", cpu="1"), schedulingGates=[{"name": ODD}])
    return listed(tmp_path_factory.mktemp("hostile") / "cluster.json", *nodes, running, waiting, big, gated)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    obj = pod("new", cpu="1")
    obj["spec"] |= {"tolerations": [{"key": "a", "operator": "Exists"}], "schedulerName": ODD}
    path = tmp_path / "we\u202eb\x1b[31m::x.json"
    path.write_text(json.dumps(obj))
    return path


def check_harmless(text: str, *, is_github: bool = False) -> None:
    assert not FOREIGN.search(text), ascii(FOREIGN.search(text))
    if is_github:
        assert all(re.match(r"::(error|warning|notice) ", line) for line in text.splitlines())
    else:
        assert not COMMAND.search(text), ascii(COMMAND.search(text))
    assert not any(line.lstrip().startswith(("error: forged", "forged")) for line in text.splitlines())


@pytest.mark.parametrize(
    "question",
    [
        ["plan", "--explain"],
        ["preempt", "--explain"],
        ["place", "default/waiting", "default/gated", "--explain"],
        ["explain", "default/waiting", "--explain"],
        ["place", "MANIFEST"],
        ["capacity", "MANIFEST"],
    ],
    ids=" ".join,
)
def test_no_answer_says_more_than_kplan_means(
    question: list[str], cluster: Path, manifest: Path, tmp_path: Path
) -> None:
    words = [manifest if word == "MANIFEST" else word for word in question]
    reports = [word for output in FORMATS for word in ("--report", f"{output}={tmp_path / output}")]
    found = invoke(*words, "-s", cluster, *reports, "--all-nodes", "-v")
    texts = {output: (tmp_path / output).read_text("utf-8") for output in FORMATS}

    assert found.exit_code in (0, 1), found.stderr
    check_harmless(found.stderr)
    for output, text in texts.items():
        check_harmless(text, is_github=output == "github")
    assert json.loads(texts["json"]) == yaml.safe_load(texts["yaml"])
    ET.fromstring(texts["junit"])


@pytest.mark.parametrize("command", ["show", "check"])
def test_what_is_said_of_a_snapshot_is_harmless(command: str, cluster: Path) -> None:
    for output in ("table", "json"):
        found = invoke("snapshot", command, cluster, "-o", output)
        assert found.exit_code in (0, 1), found.stderr
        check_harmless(found.stdout)


@pytest.mark.parametrize("name", ["saved.json", "saved.yaml"])
def test_a_saved_snapshot_is_harmless_text_that_says_the_same(name: str, cluster: Path, tmp_path: Path) -> None:
    saved = tmp_path / name
    assert invoke("snapshot", "save", saved, "-s", cluster).exit_code == 0
    check_harmless(saved.read_text(encoding="utf-8"))
    again = invoke("snapshot", "save", "-", "-s", saved)
    names = [each["metadata"]["name"] for each in json.loads(again.stdout)["objects"]["nodes"]]
    assert f"b{ODD}" in names


@pytest.mark.parametrize(
    "arguments",
    [
        ["place", ODD], ["place", "-s", ODD, "default/x"], [ODD], [f"--{ODD}"], ["place", f"--{ODD}"],
        ["place", "default/x", "-o", ODD], ["place", "default/x", "--top", ODD],
        ["place", "default/x", "--report", ODD], ["place", "default/x", "--fail-on", ODD], ["show", ODD],
        ["schema", ODD], ["config", "show", ODD], ["explain", f"default/{ODD}"],
        ["plan", "--kubeconfig", ODD, "-s", ""], ["snapshot", "save", ODD], ["place", "x" * 400],
        ["place", "x/" * 4000], ["place", "a\0b"], ["explain", "x" * 400], ["show", "x" * 400],
        ["capacity", "x" * 400], ["snapshot", "show", "x" * 400], ["config", "show", "x" * 400],
        ["place", "default/x", "--report", "json=" + "x" * 400],
        ["snapshot", "save", "x" * 400 + ".json"],
        ["plan", "--kubeconfig", "x" * 400, "-s", ""],
    ],
    ids=lambda arguments: ascii(" ".join(arguments))[:30],
)  # fmt: skip
def test_what_the_command_line_held_is_told_harmlessly(arguments: list[str]) -> None:
    found = invoke(*arguments)
    assert found.exit_code == 2
    assert found.stdout == ""
    check_harmless(found.stderr)
    assert re.search(r"^(error|Error): ", found.stderr, re.MULTILINE)
    assert "internal error" not in found.stderr
