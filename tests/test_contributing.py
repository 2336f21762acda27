"""CONTRIBUTING.md, followed to the letter in a copy of the package."""

import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parents[1]
PAGE = (HERE / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> list[tuple[str, str]]:
    """Return the code blocks of a walk-through, each with its language."""
    text = PAGE.split(f"### {title}\n")[1]
    return BLOCK.findall(re.split(r"^##+ ", text, flags=re.MULTILINE)[0])


def follow(title: str, folder: Path) -> None:
    """Do in a copy of the package what a walk-through says, and run the linters on what it makes."""
    changed = []
    shutil.copytree(HERE / "kplan", folder / "kplan")  # with what is compiled of it
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(HERE / name, folder / name)
    for language, text in section(title):
        if language == "sh":
            subprocess.run(["sh", "-euc", text], cwd=folder, check=True)
            continue
        first, _, rest = text.partition("\n")
        path = folder / first.removeprefix("# ")
        changed += [path] if path.suffix == ".py" else []
        if language == "python":
            assert not path.exists(), f"{first} exists already: was this walk-through followed here before?"
            path.parent.mkdir(exist_ok=True)
            path.write_text(rest)
            continue
        assert language == "diff"
        lines = rest.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        found = path.read_text()
        assert found.count(before) == 1, f"{path.name} does not hold, once: {before}"
        path.write_text(found.replace(before, after))
    run(folder, "-m", "ruff", "check", *map(str, changed))
    run(folder, "-m", "ruff", "format", "--check", *map(str, changed))


def run(folder: Path, *arguments: str, stdin: str = "") -> str:
    """Run Python in the copy and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plugin(tmp_path: Path) -> None:
    follow("A plugin", tmp_path)
    ask = (
        "import kplan\n"
        "placement = kplan.Planner(kplan.load_snapshot('demo')).place('shop/voucher-api')\n"
        "print(sorted({name for score in placement.scores.values() for name in score.plugins}))"
    )
    assert "QuietNodes" in run(tmp_path, "-c", ask)
    before = ask.replace("load_snapshot('demo')", "load_snapshot('demo'), kubernetes='1.35'")
    assert "QuietNodes" not in run(tmp_path, "-c", before)


def test_a_change(tmp_path: Path) -> None:
    follow("A change", tmp_path)
    ask = (
        "import kplan\n"
        "planner = kplan.Planner(kplan.load_snapshot('demo'))\n"
        "change = {'at': 5, 'change': 'isolate', 'nodes': ['general-a-1']}\n"
        "plan = planner.timeline([change], stop={'*': 1}, until=60)\n"
        "print({(step.at, step.because) for step in plan.steps if step.event == 'evicted' and not step.by})\n"
        "del change['at']\n"
        "print([note.change for note in planner.changed(changes=[change]).snapshot.changes])\n"
    )
    assert run(tmp_path, "-c", ask) == "{(5.0, 'taint isolated:NoExecute')}\n['cordon', 'taint']\n"


def test_a_question(tmp_path: Path) -> None:
    follow("A question", tmp_path)
    manifest = HERE / "fixtures" / "web.yaml"
    document = json.loads(run(tmp_path, "-m", "kplan", "alone", str(manifest), "--snapshot", "demo", "-o", "json"))
    assert document["kind"] == "PlacementReport"
    assert document["summary"]["scheduled"] == len(document["placements"])
    question = json.dumps({"apiVersion": "kplan/v1", "kind": "AloneQuestion", "manifests": [str(manifest)]})
    same = json.loads(run(tmp_path, "-m", "kplan", "ask", "-", "--snapshot", "demo", "-o", "json", stdin=question))
    assert [pod["node"] for pod in same["placements"]] == [pod["node"] for pod in document["placements"]]
    text = run(tmp_path, "-m", "kplan", "alone", "--help")
    assert "kplan alone web.yaml" in text
    assert re.search(r"--with-daemons +Leave the pods of DaemonSets where they are\.", text)
    with_daemons = ("-m", "kplan", "alone", str(manifest), "--with-daemons", "--snapshot", "demo", "-o", "json")
    assert json.loads(run(tmp_path, *with_daemons))["summary"] == document["summary"]
    assert "AloneQuestion" in run(tmp_path, "-m", "kplan", "schema")
    run(tmp_path, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())")


def test_an_output_format(tmp_path: Path) -> None:
    follow("An output format", tmp_path)
    manifest = HERE / "fixtures" / "web.yaml"
    lines = run(tmp_path, "-m", "kplan", "place", str(manifest), "--snapshot", "demo", "-o", "csv").splitlines()
    assert lines[0] == "name,state,rule,message"
    assert len(lines) > 1
    assert "csv" in run(tmp_path, "-m", "kplan", "place", "--help-all")


def test_a_kind_of_objects(tmp_path: Path) -> None:
    follow("A kind of Kubernetes objects", tmp_path)
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "secret-name", "namespace": "x"},
        "endpoints": [{"nodeName": "n", "addresses": ["10.0.0.1"]}],
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [endpoints, node]}))
    save = ("-m", "kplan", "snapshot", "save", "saved.json", "--snapshot", "cluster.json")
    run(tmp_path, *save)
    saved = json.loads((tmp_path / "saved.json").read_text())["objects"]["endpointSlices"][0]
    assert saved["endpoints"] == [{"nodeName": "n"}]
    run(tmp_path, "-m", "kplan", "snapshot", "save", "redacted.json", "--redact", "--snapshot", "saved.json")
    redacted = (tmp_path / "redacted.json").read_text()
    assert "secret-name" not in redacted
    objects = json.loads(redacted)["objects"]
    name = objects["nodes"][0]["metadata"]["name"]
    assert objects["endpointSlices"][0]["endpoints"][0]["nodeName"] == name != "n"
    assert "endpointslices" in run(tmp_path, "-m", "kplan", "snapshot", "rbac")


def test_a_kubernetes_minor(tmp_path: Path) -> None:
    follow("A Kubernetes minor", tmp_path)
    ask = (
        "import kplan\n"
        "from kplan.config.releases import known_minors, newest, release_of\n"
        "snapshot = kplan.load_snapshot('demo')\n"
        "nodes = [kplan.Planner(snapshot, kubernetes=v).place('shop/voucher-api').node for v in ('1.37', '1.38')]\n"
        "print(known_minors()[-2:], newest().source, nodes)\n"
        "print([release_of(v).is_on('SchedulerAsyncAPICalls') for v in ('1.36', '1.37', '1.38')])\n"
    )
    first, second = run(tmp_path, "-c", ask).splitlines()
    assert first == "('1.37', '1.38') v1.38.0 ['general-a-2', 'general-a-2']"
    assert second == "[False, False, True]"


def test_every_file_that_the_page_names_exists() -> None:
    text = BLOCK.sub("", PAGE)
    names = set(re.findall(r"`((?:kplan|tests|docs|completions|\.ci)/[\w./-]+)`", text))
    added = {
        "tests/plugins/test_quiet_nodes.py",
        "tests/report/test_csv_table.py",
        "docs/alone.md",
        "tests/conformance/1.36",
    }
    patterns = {"kplan/ROOM/MODULE.py", "tests/ROOM/test_MODULE.py"}

    assert len(names) > 20
    assert {name for name in names if not (HERE / name).exists()} == added | patterns


def test_every_module_and_name_that_the_page_names_exists() -> None:
    text = BLOCK.sub("", PAGE)
    modules = set(re.findall(r"`(kplan(?:\.\w+)+)`", text))
    names = set(re.findall(r"`(\w+)`(?: and `\w+`| or `\w+`)? (?:of|in) `(kplan/[\w/]+\.py|tests/[\w/]+\.py)`", text))

    assert modules
    assert names
    for module in modules:
        assert importlib.import_module(module).__doc__
    for name, path in names:
        assert re.search(rf"\b{name}\b", (HERE / path).read_text()), f"{path} has no {name}"


def test_the_page_names_the_rooms_as_the_linter_knows_them() -> None:
    (layers,) = [text for language, text in BLOCK.findall(PAGE) if language == "layers"]
    settings = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [contract for contract in settings["contracts"] if contract.get("containers") == ["kplan"]]
    assert layers.splitlines() == contract["layers"]


def test_every_room_stands_in_the_picture_or_beside_it() -> None:
    rooms = {path.parent.name for path in (HERE / "kplan").glob("*/*.py")}
    flow = PAGE.split("## How a decision flows")[1].split("## Tests")[0]
    assert {room for room in rooms if room not in flow} == set()
