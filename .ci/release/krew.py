"""Print the manifest of a release for krew, the plugin manager of kubectl.

usage: krew.py OWNER/NAME TAG DIRECTORY      (the directory with the archives of build-program)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from programs import SUMMARY, programs_of

_DESCRIPTION = """\
kplan runs the complete pipeline of kube-scheduler on a snapshot of the cluster, or read-only on the live cluster,
and explains every decision: where pods would land, whom they would evict, what a drain moves and which budgets
block it. It sends nothing but GET requests.
"""


def manifest(repository: str, tag: str, directory: Path) -> dict[str, Any]:
    """Return the manifest as plain values."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": program.system, "arch": program.machine}},
            "uri": program.url,
            "sha256": program.sha256,
            "files": [{"from": "kplan/*", "to": "."}],
            "bin": "kubectl-kplan",
        }
        for program in programs_of(repository, tag, directory)
    ]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "kplan"},
        "spec": {
            "version": tag,
            "homepage": f"https://github.com/{repository}",
            "shortDescription": SUMMARY,
            "description": _DESCRIPTION,
            "platforms": platforms,
        },
    }


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    yaml.safe_dump(manifest(sys.argv[1], sys.argv[2], Path(sys.argv[3])), sys.stdout, sort_keys=False, width=120)
