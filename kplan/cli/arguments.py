"""What the arguments of a command name, as kubectl takes them: manifests, pods, workloads and nodes."""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kplan.api.labels import BETA_ZONE, POOL_LABELS, ZONE, InvalidSelector, parse_selector
from kplan.api.quantity import enumerated
from kplan.cli.options import OPTIONS, Flags, flag, switch
from kplan.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from kplan.api.core import Pod
    from kplan.api.labels import Selector
    from kplan.snapshot.model import Snapshot
STANDARD_INPUT = "-"
_NAME = r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?"
_PATH_TO_POD = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?"
_FILE_ENDINGS = (".yaml", ".yml", ".json", ".gz")
_NODES = frozenset({"node", "nodes", "no"})


def check_read_once(sources: Iterable[str]) -> None:
    """Raise UsageError where more than one source is standard input."""
    if [*sources].count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once", hint="pass all but one of them as files")


def refuse_beside(option: str, others: Mapping[str, object]) -> None:
    """Raise UsageError where others of a command's options or arguments are set that an option excludes."""
    if excluded := [name for name, is_set in others.items() if is_set]:
        names = enumerated(excluded)
        raise UsageError(f"{option} does not go with {names}", hint=f"leave {names} out, or {option}")


def split_arguments(what: Sequence[str], filenames: Sequence[str], namespace: str = "") -> tuple[list[str], list[str]]:
    """Return the manifests and the names of pods and workloads among arguments.

    A name of an existing file, or with its ending, is a manifest. ``po NAME…`` becomes ``po/NAME`` for each, and in the
    `namespace` of ``--namespace`` a name alone is a pod. Raises UsageError for an argument that is neither.
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
    from kplan.cluster.workload_pods import kind_with_pods

    return kind_with_pods(text)


def _exists(path: str) -> bool:
    """Tell whether a file exists; False for an invalid name."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


ZONES = (ZONE, BETA_ZONE)  #: labels for the zone of a node


class PodChoiceFlags(Flags, panel="Pods"):
    """Options that choose pods of the snapshot."""

    all_namespaces: bool = switch("--all-namespaces -A", "Pods of all namespaces; overrides --namespace.")
    selector: str = flag("--selector -l SELECTOR", "Pods with these labels, as in kubectl.")

    def of(self, pods: "Iterable[Pod]", namespace: str) -> "list[Pod]":
        """Return the chosen pods of a namespace, "" or with ``-A`` of all, in their order; raises UsageError."""
        wanted, where = read_selector(self.selector), "" if self.all_namespaces else namespace
        own = (pod for pod in pods if not where or pod.metadata.namespace == where)
        return [pod for pod in own if wanted.matches(pod.metadata.labels)]

    def among(self, keys: Iterable[str], snapshot: "Snapshot", namespace: str) -> list[str]:
        """Return the chosen ones among pods, NAMESPACE/NAME; as `of`."""
        return [pod.metadata.key for pod in self.of(map(snapshot.pod_by_key.__getitem__, keys), namespace)]

    def workloads_of(self, snapshot: "Snapshot", namespace: str) -> frozenset[str]:
        """Return the workloads whose pods are chosen, as KIND/NAMESPACE/NAME; only those that no other one controls."""
        from kplan.api.core import Pod
        from kplan.api.kinds import POD_MAKERS
        from kplan.api.meta import controller_of
        from kplan.api.names import object_name
        from kplan.api.pod import PodMeta

        chosen = set[str]()
        for name, kind in POD_MAKERS.items():
            objects: Sequence[Any] = snapshot.objects(kind.attribute)
            for obj in objects:
                spec = getattr(obj.spec, "job_template", obj).spec
                labels = {} if spec.template is None else spec.template.metadata.labels
                like = Pod(metadata=PodMeta(namespace=obj.metadata.namespace, labels=labels))
                if controller_of(obj.metadata) is None and self.of([like], namespace):
                    chosen.add(object_name(name, obj.metadata.namespace, obj.metadata.name))
        return frozenset(chosen)


class NodeChoiceFlags(Flags, panel=OPTIONS):
    """Options that choose nodes of the snapshot."""

    selector: str = flag("--selector -l SELECTOR", "Nodes with these labels, as in kubectl.")
    zone: str = flag("--zone ZONE", "All nodes of this zone.")
    pool: str = flag("--pool POOL", "All nodes of this node pool.")

    def of(self, snapshot: "Snapshot", names: Sequence[str], *, or_all: bool) -> list[str]:
        """Return the chosen nodes: those named, in that order, then those of the options, by name.

        `names`: nodes, or globs.
        `or_all`: without any choice all nodes are chosen.
        Raises UsageError for an invalid selector, and NotFoundError when there is no such node.
        """
        from kplan.cluster.workload_pods import no_node

        known = sorted(snapshot.node_by_name)
        chosen: list[str] = []
        unknown: list[str] = []
        for name in names:
            matching = [name] if name in snapshot.node_by_name else fnmatch.filter(known, name)
            chosen += matching
            unknown += [] if matching else [name]
        if unknown:
            raise no_node(unknown, known)
        labels = {name: snapshot.node_by_name[name].metadata.labels for name in known}
        if self.selector:
            wanted = read_selector(self.selector)
            matching = [name for name in known if wanted.matches(labels[name])]
            if not matching:
                hint = "kubectl get nodes --show-labels lists them"
                raise NotFoundError(f"no node has labels {self.selector}", hint=hint)
            chosen += matching
        if self.zone:
            chosen += _labelled(labels, ZONES, self.zone, "zone")
        if self.pool:
            chosen += _labelled(labels, pool_labels(snapshot), self.pool, "pool")
        return known if or_all and not chosen else list(dict.fromkeys(chosen))


def pool_labels(snapshot: "Snapshot") -> tuple[str, ...]:
    present = {key for node in snapshot.nodes for key in node.metadata.labels}
    return tuple(label for label in POOL_LABELS if label in present)[:1]


def _labelled(labels: Mapping[str, Mapping[str, str]], keys: Sequence[str], value: str, thing: str) -> list[str]:
    """Return the nodes with a value in one of these labels; raises NotFoundError where there is none."""
    matching = [name for name, own in labels.items() if value in [own.get(key) for key in keys]]
    if not matching:
        there = sorted({own[key] for own in labels.values() for key in keys if key in own})
        hint = f"there are {', '.join(there)}" if there else f"no node says in which {thing} it is"
        raise NotFoundError(f"no node is in {thing} {value}", hint=hint)
    return matching


def read_selector(text: str) -> "Selector":
    """Parse the value of ``--selector``; raises UsageError for an invalid one."""
    try:
        return parse_selector(text)
    except InvalidSelector as error:
        raise UsageError(f"--selector {text}: {error}", hint="for example -l pool=gpu,!spot") from None
