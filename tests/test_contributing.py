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


_TOGETHER = """
import contextlib, io, json, sys
from kplan.program.main import app
commands, typed = json.load(sys.stdin)
for words in commands:
    sys.stdin, printed = io.TextIOWrapper(io.BytesIO(typed.encode())), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            app(words, prog_name="kplan")
    except SystemExit as ended:
        assert not ended.code, words
    print(json.dumps(printed.getvalue()))
"""


def kplan(folder: Path, *commands: tuple[str, ...], stdin: str = "") -> list[str]:
    """Run commands of the copy one after another in one process, and return what each prints."""
    return [*map(json.loads, run(folder, "-c", _TOGETHER, stdin=json.dumps([commands, stdin])).splitlines())]


def test_a_plugin(tmp_path: Path) -> None:
    follow("A plugin", tmp_path)
    ask = (
        "import kplan\n"
        "for options in ({}, {'kubernetes': '1.35'}):\n"
        "    planner = kplan.Planner(kplan.load_snapshot('demo'), **options)\n"
        "    scores = planner.place('shop/voucher-api').scores.values()\n"
        "    print(any('QuietNodes' in score.plugins for score in scores))"
    )
    assert run(tmp_path, "-c", ask).split() == ["True", "False"]


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
    asked = json.dumps({"apiVersion": "kplan/v1", "kind": "AloneQuestion", "manifests": [str(manifest)]})
    shown = ("--snapshot", "demo", "-o", "json")
    placed, answered, text, with_daemons, schema = kplan(
        tmp_path,
        ("alone", str(manifest), *shown),
        ("ask", "-", *shown),
        ("alone", "--help"),
        ("alone", str(manifest), "--with-daemons", *shown),
        ("schema",),
        stdin=asked,
    )
    document, same = json.loads(placed), json.loads(answered)
    assert document["kind"] == "PlacementReport"
    assert document["summary"]["scheduled"] == len(document["placements"])
    assert [pod["node"] for pod in same["placements"]] == [pod["node"] for pod in document["placements"]]
    assert "kplan alone web.yaml" in text
    assert re.search(r"--with-daemons +Leave the pods of DaemonSets where they are\.", text)
    assert json.loads(with_daemons)["summary"] == document["summary"]
    assert "AloneQuestion" in schema
    run(tmp_path, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())")


def test_an_output_format(tmp_path: Path) -> None:
    follow("An output format", tmp_path)
    manifest = HERE / "fixtures" / "web.yaml"
    place = ("place", str(manifest), "--snapshot", "demo", "-o", "csv")
    printed, text = kplan(tmp_path, place, ("place", "--help-all"))
    lines = printed.splitlines()
    assert lines[0] == "name,state,rule,message"
    assert len(lines) > 1
    assert "csv" in text


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
    save = ("snapshot", "save", "saved.json", "--snapshot", "cluster.json")
    again = ("snapshot", "save", "redacted.json", "--redact", "--snapshot", "saved.json")
    *_, role = kplan(tmp_path, save, again, ("snapshot", "rbac"))
    saved = json.loads((tmp_path / "saved.json").read_text())["objects"]["endpointSlices"][0]
    assert saved["endpoints"] == [{"nodeName": "n"}]
    redacted = (tmp_path / "redacted.json").read_text()
    assert "secret-name" not in redacted
    objects = json.loads(redacted)["objects"]
    name = objects["nodes"][0]["metadata"]["name"]
    assert objects["endpointSlices"][0]["endpoints"][0]["nodeName"] == name != "n"
    assert "endpointslices" in role


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
