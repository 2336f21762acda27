import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import invoke, refused, written
from tests.cli.processes import PROGRAM, kplan

SET = """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: p}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: node}\nstatus: {allocatable: {cpu: 1, memory: 1Gi, pods: 9}}\n"
BOMB = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}' if i else 'x'] * 9)}]\n" for i in range(8)) + "items: *a7\n"

FILES = {
    "truncated JSON": ('{"kind": "List", "apiVersion": "v1", "items": [{"kind":', "ends before it is complete"),
    "YAML with tabs": ("kind: Pod\nmetadata:\n\tname: x\n", "line 3): not valid YAML: found character"),
    "an alias bomb": (BOMB, "aliases expand to more than"),
    "a list that is not a list": (
        '{"kind": "List", "apiVersion": "v1", "items": {"a": 1}}',
        "expected a list, got an object",
    ),
    "an empty file": ("", "the file is empty"),
    "binary": ("\x00\x01\x02\x03" * 99, "a binary file"),
    "a wrong type deep in a pod": (
        POD.replace("name: c", "name: c, ports: [{containerPort: http}]"),
        "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type",
    ),
    "a negative quantity": (
        POD.replace("name: c", 'name: c, resources: {requests: {cpu: "-1"}}'),
        'requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "an absurd quantity": (
        POD.replace("name: c", "name: c, resources: {requests: {memory: lots}}"),
        "requests.memory: quantities must match the regular expression",
    ),
    "a pod without containers": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}\n",
        "$.spec.containers: Required value",
    ),
    "a quantity beyond counting": (
        POD.replace("name: c", 'name: c, resources: {requests: {cpu: "1e400"}}'),
        "is more than Kubernetes can count",
    ),
    "a comma too many in JSON": (
        '{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Pod"},\n]}',
        "line 2): not valid JSON: trailing comma in array at column 1",
    ),
    "a pod with the name of a stateful set's": (
        f"{POD.replace('name: p', 'name: p-0')}---\n{SET}",
        "$.metadata.name: has a pod default/p-0, as has Pod/default/p-0 in",
    ),
    "pods of a kind that is not known": (
        "apiVersion: a.io/v1\nkind: Rollout\nmetadata: {name: r}\nspec: {t: {spec: {containers: [{name: c}]}}}\n",
        "no pod and no workload",
    ),
}


SNAPSHOTS = {name: FILES[name] for name in list(FILES)[:6]} | {
    "a comma too many in JSON": FILES["a comma too many in JSON"],
    "no nodes": (POD, "no nodes in the snapshot"),
    "two nodes of one name": (f"{NODE}---\n{NODE.replace('cpu: 1', 'cpu: 2')}", "Node"),
}


CASES = {("bad.yaml",): FILES, ("pod.yaml", "--snapshot", "bad.yaml"): SNAPSHOTS}


@pytest.mark.parametrize(("args", "name"), [(args, name) for args, cases in CASES.items() for name in cases])
def test_files_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    content, words = CASES[args][name]
    written(tmp_path / "pod.yaml", POD)
    path = written(tmp_path / "bad.yaml", content)
    found = invoke("place", *args)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith("error: ")
    assert words in found.stderr
    assert path.name in found.stderr
    assert "\nhint: " in found.stderr
    assert "Traceback" not in found.stderr


def test_as_much_memory_as_kubernetes_counts_is_no_error(tmp_path: Path) -> None:
    large = POD.replace("name: c", "name: c, resources: {requests: {memory: 9E}}")
    assert "it requests 7.8Ei memory" in invoke("place", written(tmp_path / "pod.yaml", large), "-s", "demo").stdout


def test_a_directory_without_objects(tmp_path: Path) -> None:
    assert "the directory holds no .json, .yaml or .yml file" in refused("place", "shop/voucher-api", "-s", tmp_path)


def test_a_name_of_a_file_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "--save=stolen").touch()
    (tmp_path / "pod.yaml").write_text(POD)
    found = invoke("place", "--save=stolen", "pod.yaml", "-s", "demo")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        "error: --save=stolen is an option, and the name of a file as well\n"
        "hint: write ./--save=stolen for the file, or end the options with -- before the names of files\n"
    )
    assert invoke("place", "-s", "demo", "--", "pod.yaml", "--save=stolen").exit_code == 2
    assert not (tmp_path / "stolen").exists()
    (tmp_path / "-").touch()
    assert invoke("place", "-", "-s", "demo", stdin=POD).exit_code == 0


def test_a_working_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = (
        f"cd {gone} && rmdir {gone} && {sys.executable} -m kplan diff web.yaml --against-manifests git:HEAD -s demo"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    found = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "internal error" not in found.stderr


def test_a_bug_is_told_in_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("kplan.course.in_order.place_in_order", fail)
    found = invoke("place", "shop/flash-sale")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith("internal error: ZeroDivisionError: oh\nhint: this is a bug in kplan")
    assert isinstance(invoke("place", "shop/flash-sale", "--debug").exception, ZeroDivisionError)


def test_debug_shows_the_traceback() -> None:
    found = kplan("place", "no/pod", "-s", "demo", "--debug")
    assert found.returncode != 0
    assert "Traceback" in found.stderr
    assert "NotFoundError" in found.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run(
        [*PROGRAM, "place", "shop/flash-sale", "-s", "demo", "-o", "json", "--explain"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (found.returncode, found.stderr) == (1, b"")


def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        found = subprocess.run([*PROGRAM, "schema"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr) == (2, b"error: cannot write to standard output: No space left on device\n")


def test_a_closed_standard_output_is_told() -> None:
    command = shlex.join([*PROGRAM, "schema"])
    found = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (2, b"error: standard output is closed\n")


def test_an_interrupt_says_no_more_than_what_it_ends() -> None:
    with subprocess.Popen(
        [*PROGRAM, "place", "-", "-s", "demo", "-v"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr.readline().startswith(b"snapshot: demo")
        process.stdin.write(b"#\n" * 200_000)  # more than a pipe holds: once it is written, it is being read
        process.stdin.flush()
        time.sleep(0.3)  # until it waits for more: a signal just before that is only seen after it
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"interrupted while reading manifests\n")


@pytest.mark.parametrize("command", [("snapshot", "check"), ("place",)])
@pytest.mark.parametrize("separator", ["", "\n---\n"])
def test_after_a_hundred_problems_objects_are_only_counted(
    command: tuple[str, ...], separator: str, tmp_path: Path
) -> None:
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}"}, "spec": {"containers": n}}
        for n in range(800)
    ]
    path = tmp_path / ("pods.yaml" if separator else "pods.json")
    whole = {"apiVersion": "v1", "kind": "List", "items": pods}
    path.write_text(separator.join(["# pods", *map(json.dumps, pods)]) if separator else json.dumps(whole))
    said = refused(*command, path)
    assert said.count("error: ") == 52
    assert "error: and 50 more problems\nerror: after 100 problems, 700 more objects were not checked" in said


def test_a_helm_values_file_is_called_one(tmp_path: Path) -> None:
    values = written(tmp_path / "values.yaml", "replicaCount: 2\nimage:\n  repository: nginx\n")
    result = invoke("plan", str(values), "-s", "demo")
    assert result.exit_code == 2
    assert "of a Helm values file: helm template" in " ".join(result.stderr.split())
