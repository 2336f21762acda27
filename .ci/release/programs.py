"""The archives of a release, as krew and Homebrew name them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

PLATFORMS = ("darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64")
SUMMARY = "Why is my pod pending, and what if a node goes"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_TAG = re.compile(r"v\d+\.\d+\.\d+")


class Program(NamedTuple):
    """An archive of one platform."""

    system: str  #: ``darwin`` or ``linux``
    machine: str  #: ``amd64`` or ``arm64``
    url: str
    sha256: str


def programs_of(repository: str, tag: str, directory: Path) -> list[Program]:
    """Return the archives of a release, with their checksums; all platforms must be there.

    Parameters
    ----------
    repository : OWNER/NAME on GitHub
    tag : of the release, such as ``v0.2.0``
    directory : holds the archives as ``build-program`` writes them
    """
    if not _REPOSITORY.fullmatch(repository) or not _TAG.fullmatch(tag):
        raise SystemExit(f"expected OWNER/NAME and a tag such as v0.2.0, not {repository!r} and {tag!r}")
    missing = [platform for platform in PLATFORMS if not (directory / f"kplan-{platform}.tar.gz").is_file()]
    if missing:
        raise SystemExit(f"{directory} lacks the archives of {', '.join(missing)}")
    programs = []
    for platform in PLATFORMS:
        name = f"kplan-{platform}.tar.gz"
        system, machine = platform.split("-")
        digest = hashlib.sha256((directory / name).read_bytes()).hexdigest()
        programs.append(
            Program(system, machine, f"https://github.com/{repository}/releases/download/{tag}/{name}", digest)
        )
    return programs
