"""Kubernetes objects as tests write them down, and commands that several tests expect."""

from typing import Any

from kplan.api.kinds import KINDS

_VERSIONS = {kind.name: kind.api_version for kind in KINDS}


def head(kind: str, api_version: str = "", /, **metadata: Any) -> dict[str, Any]:
    """Return apiVersion, kind and metadata of an object; kinds that kplan does not read need their version."""
    return {"apiVersion": api_version or _VERSIONS[kind], "kind": kind, "metadata": metadata}


def adding(number: int, like: str) -> tuple[str, ...]:
    """Return the commands of a change that adds nodes by hand."""
    ready = "kubectl get nodes --no-headers | grep -cw Ready"
    nodes = "1 node" if number == 1 else f"{number} nodes"
    return (
        f"before=$({ready})",
        f"# add {nodes} like {like}",
        f"until [ $({ready}) -ge $((before + {number})) ]; do sleep 5; done",
    )
