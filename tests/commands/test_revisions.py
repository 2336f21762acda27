"""Manifests of a git revision are data: nothing that a repository holds or configures runs or leads elsewhere."""

import subprocess
from pathlib import Path

import pytest

from kplan.commands import revisions
from kplan.errors import UsageError
from tests.cli.commands import invoke

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


def git(repository: Path, *command: str, data: str = "") -> str:
    arguments = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=e", *command]
    return subprocess.run(arguments, check=True, capture_output=True, text=True, input=data).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "apps").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "apps" / "p.yaml").write_text(POD)
    (folder / "README.md").write_text("text")
    return folder


def commit(repository: Path) -> None:
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "x")


def test_files_and_folders_are_those_of_the_revision(repository: Path, tmp_path: Path) -> None:
    commit(repository)
    (repository / "apps" / "p.yaml").write_text("changed")
    for path, inside in (
        (repository, "apps/p.yaml"),
        (repository / "apps", "p.yaml"),
        (repository / "apps/p.yaml", ""),
    ):
        assert (Path(revisions.at_revision(path, "HEAD", tmp_path)) / inside).read_text() == POD


def test_no_filter_of_the_repository_runs(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitattributes").write_text("*.yaml filter=evil export-subst\n")
    (repository / "apps" / "p.yaml").write_text(POD + "# $Format:%an$\n")
    commit(repository)
    ran = tmp_path / "ran"
    for name in ("filter.evil.smudge", "core.fsmonitor", "core.sshCommand", "core.pager"):
        git(repository, "config", name, f"touch {ran}; cat")
    git(repository, "config", "filter.evil.required", "true")

    found = revisions.at_revision(repository, "HEAD", tmp_path)

    assert (Path(found) / "apps" / "p.yaml").read_text() == POD + "# $Format:%an$\n"
    assert not ran.exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside.yaml", "p.yaml"])
def test_a_link_is_refused(repository: Path, tmp_path: Path, target: str) -> None:
    (repository / "apps" / "link.yaml").symlink_to(target)
    commit(repository)
    for path in (repository, repository / "apps", repository / "apps" / "link.yaml"):
        if path.is_dir() or path.is_symlink():
            with pytest.raises(UsageError, match="such as a link"):
                revisions.at_revision(path, "HEAD", tmp_path)


@pytest.mark.parametrize("name", ["..", "."])
def test_names_that_lead_out_of_the_folder_are_refused(repository: Path, tmp_path: Path, name: str) -> None:
    content = git(repository, "hash-object", "-w", "--stdin", data=POD)
    inner = f"100644 blob {content}\tp.yaml\n"
    tree = git(repository, "mktree", data=inner)
    made = subprocess.run(
        ["git", "-C", str(repository), "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
        check=True, capture_output=True, input=b"40000 " + name.encode() + b"\0" + bytes.fromhex(tree),
    )  # fmt: skip
    evil = made.stdout.decode().strip()

    with pytest.raises(UsageError):
        revisions.at_revision(repository, evil, tmp_path)
    assert not (tmp_path.parent / "p.yaml").exists()


def test_what_is_not_there_is_told(repository: Path, tmp_path: Path) -> None:
    commit(repository)
    (repository / "new.yaml").write_text(POD)
    with pytest.raises(UsageError, match="is not in that revision"):
        revisions.at_revision(repository / "new.yaml", "HEAD", tmp_path)
    with pytest.raises(UsageError, match="no revision"):
        revisions.at_revision(repository, "--output=x", tmp_path)


@pytest.mark.parametrize(
    ("revision", "words", "hint"),
    [
        ("nosuch", "git:nosuch: the repository has no such revision", "git log --oneline --all lists revisions"),
        ("HEAD:web.yaml", "git:HEAD:web.yaml is no revision, but a file of one", "kplan diff git:HEAD web.yaml"),
        (":", "git:: is no revision, but a file of one", "kplan diff git:HEAD FILE"),
    ],
)
def test_what_is_no_revision_is_told_in_words_of_kplan(
    repository: Path, tmp_path: Path, revision: str, words: str, hint: str
) -> None:
    commit(repository)
    with pytest.raises(UsageError) as refused:
        revisions.at_revision(repository, revision, tmp_path)
    assert refused.value.message == words
    assert refused.value.hint.endswith(hint)


def test_what_is_in_no_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"git:HEAD: git knows no repository at .*: not a git repository"):
        revisions.at_revision(tmp_path, "HEAD", tmp_path)
    with pytest.raises(UsageError, match="git knows no repository at"):
        revisions.at_revision(tmp_path / "nowhere" / "web.yaml", "HEAD", tmp_path)
    refused = invoke("diff", "git:HEAD:web.yaml", "--snapshot", "demo")
    assert "such as kplan diff git:HEAD web.yaml" in refused.stderr


def test_too_much_is_refused(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository)
    monkeypatch.setattr(revisions, "_MOST_FILES", 1)
    with pytest.raises(UsageError, match="holds more than 1 files"):
        revisions.at_revision(repository, "HEAD", tmp_path)
