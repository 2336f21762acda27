"""Kubernetes objects as tests write them down."""

from typing import Any

from kplan.api.kinds import KINDS

_VERSIONS = {kind.name: kind.api_version for kind in KINDS}


def head(kind: str, api_version: str = "", /, **metadata: Any) -> dict[str, Any]:
    """Return apiVersion, kind and metadata of an object; kinds that kplan does not read need their version."""
    return {"apiVersion": api_version or _VERSIONS[kind], "kind": kind, "metadata": metadata}
