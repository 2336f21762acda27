"""One hostile input after the other, each to one of kplan's commands, and what must not happen."""

import json
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from kplan.api.kinds import KINDS
from tests.cli.commands import invoke
from tests.fuzz import documents
from tests.fuzz.objects import NAMES, Maker
from tests.live.server import Answer, Cluster, Request, kubeconfig, serving

MOST_SECONDS = 10
"""Of CPU time for one input."""
_TRIED = """
plan; plan {manifest}; place {manifest}; place {manifest} --scheduler-config {config}; explain -A; preempt;
capacity {manifest}; capacity --headroom; drain {name}; drain {name} --runbook; drain {name} --timeline;
drain {name} --lost; drain {name} --node-groups {groups}; drain --each; nodes --node-groups {groups};
nodes {manifest} --node-groups {groups}; nodes --autoscaler karpenter; check; check {checks};
check --since {report}; remedy; diff --cordon {name}; diff {report} {other};
diff {manifest} --against {other_cluster}; show {report}; ask {questions}; config show {config};
config check {config}; pods {manifest}; plan --with {manifest}; plan --with {manifest} --settle;
plan --without node/{name} --settle; plan {manifest} --add-nodes 2={name};
plan {manifest} --timeline --until 1h --min-ready 50%; plan {manifest} --rollout always --run-cronjobs;
plan --for 6h; plan --runs 3; place {manifest} --runs 3; place {manifest} --node-groups {groups};
remedy --node-groups {groups}; nodes --timeline --node-groups {groups}; snapshot show; snapshot check;
snapshot save - --redact
"""
COMMANDS = [command.split() for command in _TRIED.split(";")]
_REPORTING = "plan; place {manifest}; preempt; drain node-1; check; nodes --node-groups {groups}"
REPORTS = [command.split() for command in _REPORTING.split(";")]
"""Commands whose reports are made odd, then shown and compared."""
GROUPS = Path(__file__).parents[2] / "fixtures" / "node-groups.yaml"
LIVE_SHARE = 0.15
"""Of the inputs, those that an API server serves."""
FORMATS = ["table", "wide", "json", "markdown", "junit", "html", "sarif", "github", "name"]


class TooSlowError(BaseException):
    """Not an `Exception`, which the commands would catch."""


def finding(seed: str, folder: Path) -> str:
    """Try the input of a seed; return what went wrong, empty if nothing did.

    The input stays in the folder.
    """
    source = random.Random(seed)
    maker = Maker(source)
    command = source.choice(COMMANDS)
    items = maker.objects()
    contents: dict[str, Any] = {
        "cluster": {"apiVersion": "v1", "kind": "List", "items": items},
        "other_cluster": {"apiVersion": "v1", "kind": "List", "items": maker.objects()},
        "manifest": {"apiVersion": "v1", "kind": "List", "items": documents.manifests(maker)},
        "questions": documents.question(maker),
        "checks": documents.checks(maker),
        "config": documents.configuration(maker),
    }
    places = {name: str(_written(folder, name, content)) for name, content in contents.items()}
    nodes = [obj["metadata"]["name"] for obj in items if obj["kind"] == "Node"]
    places |= {"name": source.choice(nodes or NAMES), "groups": str(GROUPS)}
    if "{report}" in command:
        places["report"], places["other"] = _reports(maker, folder, places)
    words = [word.format(**places) for word in command]
    if command[0] in ("show", "config"):
        words += ["-o", source.choice(FORMATS)] if command[0] == "show" else []
    elif command[0] == "snapshot":
        words += [places["cluster"]] if command[1] != "save" else ["-s", places["cluster"]]
    elif source.random() < LIVE_SHARE:
        with serving(Cluster(fault=Served(maker, contents["cluster"]["items"]).answer), tls=False) as api:
            return _wrong(
                [*words, "--kubeconfig", str(kubeconfig(folder, api.url)), *_output(command, source)], live=True
            )
    else:
        words += ["-s", places["cluster"]]
    return _wrong([*words, *(() if command[0] in ("snapshot", "config", "show") else _output(command, source))])


def _output(command: list[str], source: random.Random) -> list[str]:
    words = ["-o", source.choice(FORMATS)] if command[0] != "pods" else []
    explains = command[0] in ("plan", "place", "explain") and source.random() < 0.5
    return [*words, "--explain"] if explains else words


def _written(folder: Path, name: str, content: Any) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content))
    return path


def _reports(maker: Maker, folder: Path, places: Mapping[str, str]) -> tuple[str, str]:
    """Return two reports of one command, both with odd values."""
    command = [word.format(**places) for word in maker.random.choice(REPORTS)]
    paths = []
    for name, cluster in (("report", "cluster"), ("other", "other_cluster")):
        answer = invoke(*command, "-s", places[cluster], "-o", "json")
        try:
            content = json.loads(answer.stdout)
        except ValueError:
            content = {}
        paths.append(
            str(_written(folder, name, documents.mutated(maker, content, maker.random.choice([0, 0.0003, 0.003]))))
        )
    return paths[0], paths[1]


class Served:
    """Objects as an API server serves them, with odd pages now and then."""

    def __init__(self, maker: Maker, objects: list[dict[str, Any]]) -> None:
        self._random = maker.random
        self._by_plural: dict[str, list[dict[str, Any]]] = {}
        for obj in objects:
            plural = next(kind.resource for kind in KINDS if kind.name == obj["kind"])
            uid = {"uid": f"{obj['kind']}-{obj['metadata']['name']}"}
            self._by_plural.setdefault(plural, []).append({**obj, "metadata": {**obj["metadata"], **uid}})

    def answer(self, request: Request) -> Answer | None:
        """Answer the request for a list."""
        plural = request.path.rpartition("/")[2]
        if plural not in {kind.resource for kind in KINDS}:
            return None
        chance = self._random.random()
        if chance < 0.005:
            return Answer(200, self._random.choice([b"", b"[]", b"null", b'{"items": null}', b"{", b"<html>", b"\xff"]))
        metadata: dict[str, Any] = {"resourceVersion": "1"}
        if chance < 0.01:
            metadata = self._random.choice([{}, {"continue": "x"}, {"continue": None}, {"remainingItemCount": -1}])
        return Answer(200, json.dumps({"metadata": metadata, "items": self._by_plural.get(plural, [])}).encode())


def _wrong(words: list[str], *, live: bool = False) -> str:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        answer = invoke(*words, **({"KPLAN_SNAPSHOT": None} if live else {}))
    except TooSlowError:
        return f"more than {MOST_SECONDS} s of CPU: kplan {' '.join(words)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    said = f"{answer.stdout}\n{answer.stderr}"
    signs = ("internal error", "Traceback (most recent", "RuntimeWarning", "\x1b", "\u202e")
    if answer.exit_code not in (0, 1, 2) or any(sign in said for sign in signs):
        return f"exit code {answer.exit_code}: kplan {' '.join(words)}\n{answer.stderr[-2000:]}"
    return ""
