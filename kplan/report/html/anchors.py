"""The ids of nodes and pods inside the page, and links to them."""

from __future__ import annotations

import hashlib
from html import escape


def node_anchor(index: int) -> str:
    """Return the id of a node's row, by its place in the map."""
    return f"n{index}"


def pod_anchor(key: str) -> str:
    """Return the id of the part about a pod NAMESPACE/NAME."""
    return "p" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:10]


def pod_link(key: str) -> str:
    """Return a link to the part about a pod."""
    return f'<a href="#{pod_anchor(key)}">{escape(key)}</a>'
