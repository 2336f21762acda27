"""The contexts of a kubeconfig, without a request to a server."""

from __future__ import annotations

from pathlib import Path

from kplan.live.kubeconfig import existing_paths
from kplan.live.kubeconfig_file import read_kubeconfig
from kplan.live.options import LiveOptions
from kplan.live.small_files import read_small

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def context_names(kubeconfig: str) -> list[str]:
    """Return the names of all contexts; raises KubeconfigError."""
    paths, separator = existing_paths(kubeconfig)
    return [*read_kubeconfig(paths, separator).contexts] if paths else []


def context_namespace(options: LiveOptions) -> str:
    """Return the namespace of the context, or of the pod that kplan runs in; empty where there is none.

    Raises KubeconfigError when the kubeconfig cannot be used.
    """
    paths, separator = existing_paths(options.kubeconfig)
    if paths:
        config = read_kubeconfig(paths, separator)
        context = config.contexts.get(options.context or config.current_context)
        return context.namespace if context else ""
    try:
        return read_small(str(_POD_NAMESPACE)).decode().strip()
    except (OSError, ValueError):
        return ""
