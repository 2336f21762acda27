"""The project's own files: what is packed, which linters run, where the version stands."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

import kplan

HERE = Path(__file__).parents[1]
PACKED = ("kplan", "tests", "fixtures", "completions", "docs", "templates", ".ci", ".github")
#: What a checkout does not hold but a directory in which somebody works does.
LITTER = shutil.ignore_patterns(
    "__pycache__", "*.egg-info", ".git", ".venv", ".*_cache", ".hypothesis", "build", "dist"
)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build a source distribution from a copy, and name the files in it."""
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(HERE, folder / "source", ignore=LITTER)
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=folder / "source", check=True, capture_output=True)
    (archive,) = folder.glob(f"kplan-{kplan.__version__}.tar.gz")
    with tarfile.open(archive) as files:
        return {name.partition("/")[2] for name in files.getnames()}


def test_a_source_distribution_holds_all_that_the_repository_does(packed: set[str]) -> None:
    ignored = re.compile(r"__pycache__|\.pyc$|_cache/|\.hypothesis")
    wanted = {
        str(path.relative_to(HERE))
        for folder in PACKED
        for path in (HERE / folder).rglob("*")
        if path.is_file() and not ignored.search(str(path))
    }
    top = {"README.md", "LICENSE", "pyproject.toml", "MANIFEST.in", ".pre-commit-config.yaml"}
    top |= {"CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", ".dockerignore", ".pre-commit-hooks.yaml"}
    top |= {"action.yml", "mkdocs.yml", "server.json"}
    assert (wanted | top) - packed == set()


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "kplan.version.__version__"}
    assert re.match(r"## \[Unreleased\]|## \[" + re.escape(kplan.__version__), newest_heading())


def newest_heading() -> str:
    changes = (HERE / "CHANGELOG.md").read_text()
    found = re.search(r"^## .*$", changes, re.MULTILINE)
    assert found is not None
    return found[0]


def test_the_changelog_has_the_form_that_it_names() -> None:
    headings = re.findall(r"^##+ .*$", (HERE / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = r"## \[Unreleased\]|## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d"
    kind = r"### (Added|Changed|Deprecated|Removed|Fixed|Security)"
    assert [heading for heading in headings if not re.fullmatch(f"{version}|{kind}", heading)] == []
    assert any(heading.startswith(f"## [{kplan.__version__}] - ") for heading in headings)


def test_the_hooks_before_a_commit_are_the_linters_of_the_pipeline() -> None:
    hooks = yaml.safe_load((HERE / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    pipeline = (HERE / ".ci" / "run").read_text()
    lines = {line.removesuffix(" .").replace(" --check", "") for line in pipeline.splitlines()}
    assert [hook["entry"] for hook in hooks] == ["ruff check", "ruff format", "mypy", "lint-imports"]
    assert {hook["entry"] for hook in hooks} <= lines


#: Words that name nothing: what they stand for has a name in Kubernetes or in the algorithm.
VAGUE = frozenset({"asked", "each", "found", "given", "kept", "made", "said", "seen", "taken", "told", "twin"})
#: Those that make a longer name vague as well.
VAGUE_PARTS = frozenset({"asked", "each", "kept", "said", "told", "twin"})


def vague_names(module: Path) -> set[str]:
    nodes = ast.walk(ast.parse(module.read_bytes()))
    names = {getattr(node, field, None) or "" for node in nodes for field in ("id", "attr", "arg", "name", "asname")}
    return {name for name in names if name in VAGUE or VAGUE_PARTS.intersection(name.split("_"))}


def test_names_in_code_say_what_they_hold() -> None:
    assert {module.name: names for module in HERE.glob("kplan/**/*.py") if (names := vague_names(module))} == {}


def test_a_vague_name_is_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Of each of the asked."""\nfor each in asked_nodes, taken_at, not_found:\n    pass\n')
    assert vague_names(module) == {"each", "asked_nodes"}
