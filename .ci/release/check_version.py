"""Check that a tag, the version of the package and the newest release in the changelog are the same.

usage: check_version.py TAG      (such as v0.2.0)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what does not fit together, a sentence each."""
    source = (root / "kplan" / "version.py").read_text(encoding="utf-8")
    versions = re.findall(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    releases = re.findall(r"^## \[(\d[^]]*)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    version = versions[0] if versions else ""
    newest = releases[0] if releases else ""
    wrong = []
    if tag != f"v{version}":
        wrong.append(f"the tag is {tag}, and kplan/version.py has the version {version}")
    if newest != version:
        wrong.append(f"the newest release in CHANGELOG.md is {newest or 'missing'}, and the version is {version}")
    return wrong


def main() -> int:
    """Print the problems, and return the exit code."""
    if len(sys.argv) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    wrong = problems(sys.argv[1])
    sys.stderr.writelines(f"{problem}\n" for problem in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
