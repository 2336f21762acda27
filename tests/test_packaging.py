"""The files by which other programs install and call kplan keep the rules of their hosts."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from packaging.requirements import Requirement

import kplan

ROOT = Path(__file__).parents[1]
RELEASE = ROOT / ".ci" / "release"
HELM = ROOT / "fixtures" / "plugins" / "helm"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, RELEASE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    for platform in ("darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"):
        (tmp_path / f"kplan-{platform}.tar.gz").write_bytes(platform.encode())
    return tmp_path


#: What krew checks of a manifest (its internal/index/validation), as a schema.
KREW: dict[str, Any] = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "krew.googlecontainertools.github.com/v1alpha2"},
        "kind": {"const": "Plugin"},
        "metadata": {"properties": {"name": {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"}}, "required": ["name"]},
        "spec": {
            "type": "object",
            "required": ["version", "shortDescription", "platforms"],
            "additionalProperties": False,
            "properties": {
                "version": {"pattern": r"^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$"},
                "homepage": {"pattern": "^https://"},
                "shortDescription": {"type": "string", "minLength": 1, "maxLength": 50, "pattern": "[^.\n]$"},
                "description": {"type": "string"},
                "caveats": {"type": "string"},
                "platforms": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["selector", "uri", "sha256", "bin"],
                        "additionalProperties": False,
                        "properties": {
                            "selector": {"required": ["matchLabels"]},
                            "uri": {"pattern": r"^https://.+\.(tar\.gz|zip)$"},
                            "sha256": {"pattern": "^[0-9a-f]{64}$"},
                            "bin": {"pattern": "^[^/]"},
                            "files": {"type": "array", "minItems": 1, "items": {"required": ["from", "to"]}},
                        },
                    },
                },
            },
        },
    },
}


def test_the_manifest_for_krew_is_one_that_krew_takes(archives: Path) -> None:
    made = script("krew").manifest("example/kplan", "v0.2.0", archives)
    Draft202012Validator(KREW).validate(made)
    linux = made["spec"]["platforms"][2]
    assert linux["selector"]["matchLabels"] == {"os": "linux", "arch": "amd64"}
    assert linux["sha256"] == hashlib.sha256(b"linux-amd64").hexdigest()


def test_the_formula_names_every_archive_with_its_checksum(archives: Path) -> None:
    formula = script("homebrew").formula("example/kplan", "v0.2.0", archives)
    assert formula.startswith("class Kplan < Formula\n")
    assert len(re.findall(r'desc ".{1,79}"', formula)) == 1
    assert len(re.findall(r'url "https://github.com/example/kplan/releases/download/v0\.2\.0/kplan-', formula)) == 4
    assert formula.count("do\n") == len(re.findall(r"^ *end$", formula, re.MULTILINE)) - 2  # class and install


@pytest.mark.parametrize(("repository", "tag"), [("kplan", "v0.2.0"), ("a/b", "0.2.0"), ("a/b", "v0.2.0\n")])
def test_a_release_that_is_misnamed_is_refused(archives: Path, repository: str, tag: str) -> None:
    with pytest.raises(SystemExit, match=r"expected OWNER/NAME and a tag"):
        script("krew").manifest(repository, tag, archives)


def test_a_release_without_one_of_its_archives_is_refused(archives: Path) -> None:
    (archives / "kplan-linux-arm64.tar.gz").unlink()
    with pytest.raises(SystemExit, match=r"lacks the archives of linux-arm64"):
        script("homebrew").formula("example/kplan", "v0.2.0", archives)


def test_a_tag_that_is_not_the_version_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "kplan").mkdir()
    (tmp_path / "kplan" / "version.py").write_text('__version__ = "0.3.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n## [0.2.0] - 2026-01-01\n")
    problems = script("check_version").problems
    assert problems("v0.3.0", tmp_path) == ["the newest release in CHANGELOG.md is 0.2.0, and the version is 0.3.0"]
    assert len(problems("v0.2.0", tmp_path)) == 2
    assert problems(f"v{kplan.__version__}") == []


def test_the_cel_library_is_asked_for_only_where_it_has_a_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (line,) = [line for line in project["dependencies"] if line.startswith("cel-expr-python")]
    marker = Requirement(line).marker
    assert marker is not None
    here = {"implementation_name": "cpython", "python_version": "3.12", "sys_platform": "linux"}
    assert marker.evaluate({**here, "platform_machine": "x86_64"})
    assert not marker.evaluate({**here, "platform_machine": "riscv64"})
    assert not marker.evaluate({**here, "platform_machine": "x86_64", "implementation_name": "pypy"})
    assert not marker.evaluate({**here, "platform_machine": "ARM64", "sys_platform": "win32"})


_INPUT = {"description": {}, "required": {"type": "boolean"}, "default": {"type": "string"}}
_STEP = {"if": {"required": ["run"]}, "then": {"required": ["shell"]}}
#: What GitHub requires of the metadata of a composite action.
ACTION: dict[str, Any] = {
    "type": "object",
    "required": ["name", "description", "runs"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "description": {"type": "string", "maxLength": 125},
        "author": {"type": "string"},
        "branding": {"required": ["icon", "color"]},
        "inputs": {
            "additionalProperties": {"required": ["description"], "additionalProperties": False, "properties": _INPUT}
        },
        "outputs": {"additionalProperties": {"required": ["description", "value"]}},
        "runs": {
            "required": ["using", "steps"],
            "properties": {"using": {"const": "composite"}, "steps": {"items": _STEP}},
        },
    },
}


def test_the_action_is_one_that_github_takes_and_passes_inputs_as_data() -> None:
    action = read("action.yml")
    Draft202012Validator(ACTION).validate(action)
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"], "an input in a script would be run as part of it"
        for file in re.findall(r"\$GITHUB_ACTION_PATH/([\w./-]+)", step["run"]):
            assert os.access(ROOT / file, os.R_OK if file.endswith(".txt") else os.X_OK), file


@pytest.mark.parametrize("name", ["test.yaml", "release.yaml"])
def test_a_workflow_calls_only_scripts_that_exist(name: str) -> None:
    workflow = read(f".github/workflows/{name}")
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    scripts = {file for step in steps for file in re.findall(r"\.ci/[\w./-]+", step.get("run", ""))}
    assert scripts
    used = [step["uses"] for step in steps if "uses" in step]
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
    assert [file for file in scripts if not (ROOT / file).is_file()] == []


def test_hooks_for_pre_commit_are_complete_and_run_commands_that_exist() -> None:
    for hook in read(".pre-commit-hooks.yaml"):
        assert {"id", "name", "entry", "language"} <= set(hook)
        program, command, *_ = hook["entry"].split()
        assert program == "kplan"
        assert hook["args"] == ["--"], "names of files are appended, and none may be an option"
        run = [sys.executable, "-m", "kplan", command, "--help"]
        assert subprocess.run(run, capture_output=True, check=False).returncode == 0


def test_the_component_for_gitlab_uses_each_of_its_inputs() -> None:
    text = (ROOT / "templates" / "kplan.yml").read_text()
    header, job = yaml.safe_load_all(text)
    inputs = header["spec"]["inputs"]
    assert set(re.findall(r"\$\[\[ inputs\.([\w-]+) \]\]", text)) == set(inputs)
    assert not any("$[[" in line for line in job["kplan"]["script"]), "an input in a script would be run as part of it"


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ({}, ["place", "--", "a.yaml", "--kubeconfig=b", "*"]),
        ({"AGAINST": "main"}, ["diff", "--fail-on", "regression", "--against-manifests", "git:main", "--", "a.yaml"]),
        ({"FAIL_ON": "gated"}, ["place", "--fail-on", "gated", "--", "a.yaml"]),
        (
            {"ARGUMENTS": "-s a.json", "KUSTOMIZATIONS": "base"},
            ["place", "--kustomize", "base", "-s", "a.json", "--", "a.yaml"],
        ),
    ],
)
def test_the_component_for_gitlab_ends_the_options_before_its_manifests(
    tmp_path: Path, given: dict[str, str], called: list[str]
) -> None:
    _, job = yaml.safe_load_all((ROOT / "templates" / "kplan.yml").read_text())
    script = [line for line in job["kplan"]["script"] if " pip " not in line]
    variables = {f"KPLAN_{name}": "" for name in ("AGAINST", "ARGUMENTS", "FAIL_ON", "KUSTOMIZATIONS")} | {
        "KPLAN_MANIFESTS": " ".join(called[called.index("--") + 1 :])
    }
    variables |= {f"KPLAN_{name}": value for name, value in given.items()}
    program = "\n".join(["set -eu", 'kplan() { printf "%s\\n" "$@"; }', *script])
    ran = subprocess.run(
        ["sh", "-c", program], env=os.environ | variables, cwd=ROOT, capture_output=True, text=True, check=True
    )
    words = ran.stdout.splitlines()
    reports = [index for index, word in enumerate(words) if word == "--report"]
    assert [word for index, word in enumerate(words) if not {index, index - 1} & {*reports}] == called


def test_the_tools_for_holmes_quote_nothing_themselves() -> None:
    """HolmesGPT quotes what it puts in place of a name; within quotes of ours that would be undone."""
    for tool in read("fixtures/plugins/holmesgpt.yaml")["toolsets"]["kplan"]["tools"]:
        assert '"' not in tool["command"]
        assert "{{" not in tool["command"].partition(" -- ")[0]


def test_the_role_of_the_cluster_files_is_the_one_that_kplan_prints() -> None:
    run = [sys.executable, "-m", "kplan", "snapshot", "rbac"]
    printed = subprocess.run(run, capture_output=True, check=True, text=True).stdout
    assert read("fixtures/cluster/clusterrole.yaml") == yaml.safe_load(printed)


def test_the_job_of_every_night_fits_on_the_example_cluster() -> None:
    files = read("fixtures/cluster/kustomization.yaml")["resources"]
    assert {path.name for path in (ROOT / "fixtures" / "cluster").iterdir()} == {*files, "kustomization.yaml"}
    planner = kplan.Planner("demo")
    (pod,) = planner.pods([str(ROOT / "fixtures" / "cluster")])
    assert pod.refusal == ""
    change = planner.roll_out([str(ROOT / "fixtures" / "cluster")], run_cron_jobs=True)
    assert [pod.message for pod in change.after if pod.namespace == "kplan"] == [""]


def test_the_image_runs_without_root_and_holds_only_what_is_installed() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert "USER 65532:65532" in lines
    assert 'ENTRYPOINT ["kplan"]' in lines
    sources = [word for line in lines if re.match(r"COPY (?!--from)", line) for word in line.split()[1:-1]]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(sources) == kept
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_plugins_of_k9s_are_complete_and_run_commands_that_exist() -> None:
    for plugin in read("fixtures/plugins/k9s.yaml")["plugins"].values():
        assert {"shortCut", "description", "scopes", "command", "args"} <= set(plugin)
        words = re.findall(r"kplan (\w+)", " ".join(plugin["args"]))
        assert set(words) <= {"explain", "drain", "nodes"}
        assert len(plugin["description"]) <= 20  # the header has no more room


def run_helm_plugin(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the plugin with a helm that renders a Deployment and records its arguments."""
    helm, program = tmp_path / "helm", tmp_path / "kplan"
    web = ROOT / "fixtures" / "web.yaml"
    helm.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/rendered"\ncat "{web}"\n')
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kplan "$@"\n')
    for path in (helm, program):
        path.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HELM_BIN": str(helm),
        "PYTHONPATH": str(ROOT),
    }
    command = ["bash", str(HELM / "kplan.sh"), *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_plugin_of_helm_renders_a_chart_and_places_it(tmp_path: Path) -> None:
    ran = run_helm_plugin(tmp_path, "./a chart", "-f", "values.yaml", "--", "--snapshot", "demo", "-o", "name")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "shop/web-0 general-a-2"
    assert (tmp_path / "rendered").read_text().splitlines() == ["template", "./a chart", "-f", "values.yaml"]


def test_the_plugin_of_helm_needs_a_chart(tmp_path: Path) -> None:
    ran = run_helm_plugin(tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("usage: helm kplan CHART")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout of the files that a release changes, whose packages pass or fail as a file says."""
    make = script("make")
    for name in (*make.VERSIONED, ".gitignore"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n- Faster.\n\n## [0.1.0] - 2026-11-20\n\nThe first.\n"
    )
    packages = tmp_path / ".ci" / "release" / "try-packages"
    packages.parent.mkdir(parents=True)
    packages.write_text("#!/bin/sh\ntest ! -e build/broken && mkdir -p dist && touch dist/kplan.whl\n")
    packages.chmod(0o755)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    for setting in ("user.name=A", "user.email=a@example.com"):
        git(tmp_path, "config", *setting.split("="))
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    return tmp_path


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def test_a_release_is_one_command(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)

    script("make").make("7.1.0", checkout)

    assert git(checkout, "log", "-1", "--format=%s %D").strip() == "Release 7.1.0 HEAD -> main, tag: v7.1.0"
    assert git(checkout, "status", "--porcelain") == ""
    assert (checkout / "dist" / "kplan.whl").exists()
    assert script("check_version").problems("v7.1.0", checkout) == []
    server = json.loads((checkout / "server.json").read_text())
    assert {server["version"], server["packages"][0]["version"]} == {"7.1.0"}
    assert yaml.safe_load((checkout / "fixtures/plugins/helm/plugin.yaml").read_text())["version"] == "7.1.0"
    changelog = (checkout / "CHANGELOG.md").read_text()
    assert re.search(
        r"## \[Unreleased\]\n\n## \[7\.1\.0\] - \d{4}-\d\d-\d\d\n\n- Faster\.\n\n## \[0\.1\.0\]", changelog
    )


def test_an_entry_that_is_written_for_a_release_stays_as_it_stands(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    written = "# Changelog\n\n## [Unreleased]\n\n## [7.1.0] - 2026-11-24\n\n- Faster.\n"
    (checkout / "CHANGELOG.md").write_text(written)
    git(checkout, "commit", "--quiet", "--all", "--message", "Write the entry")

    script("make").make("7.1.0", checkout)

    assert (checkout / "CHANGELOG.md").read_text() == written
    assert git(checkout, "log", "-1", "--format=%s %D").strip() == "Release 7.1.0 HEAD -> main, tag: v7.1.0"
    with pytest.raises(ValueError, match=r"v7\.1\.0 is tagged already"):
        script("make").make("7.1.0", checkout)


@pytest.mark.parametrize(
    ("version", "break_it", "words"),
    [
        ("v1", "", "'v1' is no version"),
        ("7.1.0", "CHANGELOG.md", "not committed"),
        ("0.1.0", "", "an entry for 0.1.0 already"),
    ],
)
def test_a_release_that_is_not_ready_changes_nothing(checkout: Path, version: str, break_it: str, words: str) -> None:
    if break_it:
        (checkout / break_it).write_text("# Changelog\n")
    before = git(checkout, "status", "--porcelain")
    with pytest.raises(ValueError, match=words):
        script("make").make(version, checkout)
    assert git(checkout, "status", "--porcelain") == before
    assert git(checkout, "tag") == ""


def test_packages_that_fail_leave_the_files_of_a_release_as_they_were(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    (checkout / "build").mkdir()
    (checkout / "build" / "broken").touch()
    with pytest.raises(subprocess.CalledProcessError):
        script("make").make("7.1.0", checkout)
    assert git(checkout, "status", "--porcelain") == git(checkout, "tag") == ""


def test_the_plugin_of_helm_has_what_helm_4_requires_and_the_version_of_kplan() -> None:
    plugin = yaml.safe_load((HELM / "plugin.yaml").read_text())
    assert (plugin["apiVersion"], plugin["type"], plugin["runtime"]) == ("v1", "cli/v1", "subprocess")
    assert plugin["version"] == kplan.__version__
    (command,) = [entry["command"] for entry in plugin["runtimeConfig"]["platformCommand"]]
    assert (HELM / command.removeprefix("${HELM_PLUGIN_DIR}/")).is_file()


def test_the_description_for_registries_of_tools_names_this_version_and_a_command_that_exists() -> None:
    server = json.loads((ROOT / "server.json").read_text())
    assert re.fullmatch(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+", server["name"])
    assert len(server["description"]) <= 100
    (package,) = server["packages"]
    assert {server["version"], package["version"]} == {kplan.__version__}
    assert (package["registryType"], package["transport"]) == ("pypi", {"type": "stdio"})
    command, snapshot = package["packageArguments"]
    run = [sys.executable, "-m", "kplan", command["value"], "--help"]
    assert snapshot["name"] in subprocess.run(run, capture_output=True, check=True, text=True).stdout


@pytest.mark.parametrize("name", ["holmesgpt", "kubectl-ai"])
def test_tools_of_other_agents_call_commands_that_exist(name: str) -> None:
    text = (ROOT / "fixtures" / "plugins" / f"{name}.yaml").read_text()
    assert yaml.safe_load(text)
    commands = set(re.findall(r"kplan (explain|plan|drain|capacity)\b", text))
    assert commands == {"explain", "plan", "drain", "capacity"}
