"""What the arguments of a command name, as kubectl takes them: manifests, pods, workloads and nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kplan.errors import UsageError

STANDARD_INPUT = "-"
_NAME = r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?"
_PATH_TO_POD = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?"
_FILE_ENDINGS = (".yaml", ".yml", ".json", ".gz")
_NODES = frozenset({"node", "nodes", "no"})


def split_arguments(what: Sequence[str], filenames: Sequence[str], namespace: str = "") -> tuple[list[str], list[str]]:
    """Return the manifests and the names of pods and workloads among arguments.

    A name of an existing file, or with its ending, is a manifest. ``po NAME…`` becomes ``po/NAME`` for each. Raises
    UsageError for an argument that is neither.

    Parameters
    ----------
    namespace : that of ``--namespace``, where a name alone is a pod
    """
    files: list[str] = [*filenames]
    names: list[str] = []
    for argument in spelled_out(what):
        is_file = argument == STANDARD_INPUT or argument.endswith(_FILE_ENDINGS) or _exists(argument)
        is_name = not is_file and _is_name(argument, namespace)
        if not is_file and not is_name and "/" not in argument:
            raise UsageError(
                f"{argument}: no such file or directory",
                hint="check the path, or name a pod of the snapshot as NAMESPACE/NAME, or a workload as KIND/NS/NAME",
            )
        (names if is_name else files).append(argument)
    return files, names


def spelled_out(what: Sequence[str]) -> Iterator[str]:
    """Yield arguments, with ``KIND NAME…`` written as ``KIND/NAME``; raises UsageError for a kind without a name."""
    kind, is_followed = "", True
    for argument in what:
        if "/" not in argument and _kind(argument) and not _exists(argument):
            if not is_followed:
                break
            kind, is_followed = argument, False
            continue
        yield f"{kind}/{argument}" if kind and not argument.endswith(_FILE_ENDINGS) else argument
        is_followed = True
    if not is_followed:
        raise UsageError(f"{kind}: which one?", hint=f"name it as {kind}/NAME or {kind}/NAMESPACE/NAME")


def node_names(what: Sequence[str]) -> list[str]:
    """Return the nodes of ``NODE``, ``node/NODE`` and ``node NODE``."""
    is_spelled = len(what) > 1 and what[0].lower() in _NODES
    parts = [name.partition("/") for name in what[is_spelled:]]
    return [name if slash and kind.lower() in _NODES else kind + slash + name for kind, slash, name in parts]


def _is_name(argument: str, namespace: str) -> bool:
    first, *rest = argument.split("/")
    if rest and _kind(first):
        return len(rest) <= 2 and all(re.fullmatch(_NAME, part) for part in rest)
    return re.fullmatch(_PATH_TO_POD, argument) is not None or (
        bool(namespace) and re.fullmatch(_NAME, argument) is not None
    )


def _kind(text: str) -> str:
    from kplan.subjects.workload_pods import kind_named

    return kind_named(text)


def _exists(path: str) -> bool:
    """Tell whether a file exists; False for an invalid name."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False
