"""The clusters of the incidents, and how to ask about them."""

import json
from pathlib import Path
from typing import Any

from tests.cli.commands import invoke

HERE = Path(__file__).parent


def cluster(name: str) -> Path:
    """Return the file of a cluster, as ``kubectl get -o json`` wrote it."""
    return HERE / "clusters" / f"{name}.json.gz"


def manifest(name: str) -> Path:
    """Return a manifest."""
    return HERE / "manifests" / f"{name}.yaml"


def answer(name: str, *args: str | Path, exit_code: int | None = None) -> dict[str, Any]:
    """Ask about a cluster and return the document."""
    result = invoke(*args, "-s", cluster(name), "-o", "json")
    assert result.exit_code == exit_code or (exit_code is None and result.exit_code < 2), result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def text(name: str, *args: str | Path) -> str:
    """Ask about a cluster and return what a terminal shows, with single spaces."""
    return " ".join(invoke(*args, "-s", cluster(name)).stdout.split())


def remedies(name: str, pod: str) -> list[dict[str, Any]]:
    """Return what would help a pending pod."""
    (placement,) = answer(name, "explain", pod)["placements"]
    listed: list[dict[str, Any]] = placement["remedies"]
    return listed
