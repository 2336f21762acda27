"""Make a release: the version, the changelog, the packages, a commit and its tag. Nothing is uploaded.

usage: make.py VERSION      (such as 0.2.0)

What stands under *Unreleased* in the changelog becomes the entry of the release, dated today. The packages are built,
installed and tried (`try-packages`) before anything is committed, and stay in `dist/`; where that fails, the files are
as they were. Afterwards ``git push --follow-tags`` starts the workflow that publishes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Each file that names the version, and the line that does.
VERSIONED = {
    "kplan/version.py": r'(?m)^(__version__ = ")[^"]+(")$',
    "server.json": r'(?m)^( +"version": ")[^"]+(",?)$',
    "fixtures/plugins/helm/plugin.yaml": r"(?m)^(version: )\S+()$",
    "docs/ci.md": r"(?m)^( +rev: v)\S+()$",
}

_UNRELEASED = re.compile(r"(?ms)^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)")


def released(changelog: str, version: str, day: str) -> str:
    """Return the changelog with its unreleased entries under the heading of a release.

    An entry that somebody has written for the release already, as the newest one, stays as it stands.

    Raises
    ------
    ValueError
        nothing is unreleased, or the release is an older one
    """
    entries = _UNRELEASED.search(changelog)
    if entries and not entries[1].strip() and changelog.startswith(f"## [{version}]", entries.end()):
        return changelog
    if entries is None or not entries[1].strip():
        raise ValueError("CHANGELOG.md has nothing under [Unreleased]: say what changed first")
    if f"## [{version}]" in changelog:
        raise ValueError(f"CHANGELOG.md has an entry for {version} already")
    heading = f"## [Unreleased]\n\n## [{version}] - {day}\n\n"
    return changelog[: entries.start()] + heading + entries[1].strip() + "\n\n" + changelog[entries.end() :]


def versioned(version: str, root: Path = ROOT) -> dict[Path, str]:
    """Return the new text of every file that a release of today changes.

    Raises
    ------
    ValueError
        a file does not name a version where it is expected, or the changelog is not ready
    """
    texts = {}
    for name, line in VERSIONED.items():
        text, n_lines = re.subn(line, rf"\g<1>{version}\g<2>", (root / name).read_text(encoding="utf-8"))
        if not n_lines:
            raise ValueError(f"{name} names no version")
        texts[root / name] = text
    changelog = root / "CHANGELOG.md"
    texts[changelog] = released(changelog.read_text(encoding="utf-8"), version, f"{datetime.now(UTC):%Y-%m-%d}")
    return texts


def make(version: str, root: Path = ROOT) -> None:
    """Write, try, commit and tag a release.

    Raises
    ------
    ValueError
        the version is none, or something is not ready for it
    subprocess.CalledProcessError
        git or the trial of the packages fails
    """
    if not re.fullmatch(r"\d{1,4}\.\d{1,4}\.\d{1,4}", version):
        raise ValueError(f"{version!r} is no version: expected three numbers, such as 0.2.0")
    if _git(root, "status", "--porcelain"):
        raise ValueError("the working tree has changes that are not committed")
    if _git(root, "tag", "--list", f"v{version}"):
        raise ValueError(f"v{version} is tagged already")
    texts = versioned(version, root)
    before = {path: path.read_bytes() for path in texts}
    try:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        subprocess.run([root / ".ci" / "release" / "try-packages", root / "dist"], check=True)  # noqa: S603 - our own
    except BaseException:
        for path, content in before.items():
            path.write_bytes(content)
        raise
    _git(root, "commit", "--quiet", "--all", "--allow-empty", "--message", f"Release {version}")
    _git(root, "tag", "--annotate", f"v{version}", "--message", f"kplan {version}")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(  # noqa: S603 - git, with our own words
        ["git", *arguments],  # noqa: S607 - the git of whoever makes the release
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def main() -> int:
    """Make the release that is named, and return the exit code."""
    if len(sys.argv) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        make(sys.argv[1])
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{error}\n{error.stderr or ''}")
        return 1
    sys.stdout.write(f"kplan {sys.argv[1]} is committed and tagged; `git push --follow-tags` publishes it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
