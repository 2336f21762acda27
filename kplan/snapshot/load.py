"""Loading a cluster: from files in any common form, from objects in memory, or the built-in demo; and several at once.

Which defaults are filled in depends on the source. Objects with a uid were served by an API server, and stay as the
real scheduler sees them. Objects without one are completed as an API server does on creation.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.decode import DecodeError, convert, decode, decode_sound
from kplan.api.kinds import KINDS, POD_MAKERS, Kind, kind_of, metadata_of, type_of
from kplan.api.names import object_name
from kplan.errors import ManifestError, Problem, UsageError
from kplan.reading.arguments import listed, refuse_empty
from kplan.reading.files import GZIP_MAGIC, SNAPSHOTS, STANDARD_INPUT, ReadProgress, files_below, is_archive
from kplan.reading.items import Item, NotInPieces, Run, is_too_large, read_items, read_pieces, read_runs, too_large
from kplan.snapshot import own_file
from kplan.snapshot.build import TIME_HINT, QuantityCheck, SnapshotBuilder, is_time, time_problems
from kplan.snapshot.defaults import DEFAULT_NAMESPACE, complete
from kplan.snapshot.model import Snapshot, Warning  # noqa: A004 - the contract's word

DEMO = "demo"  #: the name of the cluster that ships inside the package
_DEMO_FILE = Path(__file__).with_name("demo.json")
"""An object a line: nodes, what every cluster has, a web shop, databases, batch, machine learning, and pods that wait.

JSON, since its YAML took longer to read than everything else that an answer about it needs.
"""
_OBJECTS_A_STEP = 1000

_OWN_LISTS = {own_file.field_name(kind): kind for kind in KINDS}
_GIVES_NODES = frozenset({"Node", "NodePool", "ConfigMap", "MachineDeployment", "MachinePool", "MachineSet"})
"""Kinds of which a cluster has at least one object: an autoscaler may begin without any node."""
_NO_NODES_HINT = (
    "take one with kplan snapshot save, or with kubectl get -A -o json"
    " nodes,pods,namespaces,services,rs,sts,rc,pdb,pc,pv,pvc,sc,csinodes"
)

_WHOLE = frozenset({*POD_MAKERS, "ControllerRevision", "Service"} - {"CronJob"})
"""Kinds whose objects a snapshot holds with all fields while it is in memory."""

_OWN_HEAD = rb"""(?s)(?=.*?\bkplan/v1\b).*?\bkind["']?\s*:\s*["']?Snapshot\b"""
_HEAD_BYTES = 4096


def load_snapshot(
    source: str | Path | Iterable[Mapping[str, Any] | msgspec.Struct],
    *,
    stdin: BinaryIO | None = None,
    progress: ReadProgress | None = None,
    needs_nodes: bool = True,
) -> Snapshot:
    """Load a cluster.

    Parameters
    ----------
    source : a file, a directory (read recursively), ``-`` for standard input, ``demo`` for the built-in cluster, or
        objects as dicts. Files may be JSON or YAML, one or many documents, lists, kplan's own snapshot, each also
        gzipped, and tar archives of them.
    stdin : the stream behind ``-``; standard input if not given
    progress : called now and then with what is being read, how much of it has been, and how much there is, where that
        is known
    needs_nodes : files without a node are refused, unless they say what makes some; objects in memory never are

    Raises
    ------
    SnapshotError
        With all problems, each with file, document and JSON path.

    Notes
    -----
    Objects with a ``uid`` are taken as they are, but for an absent namespace or schedulerName; others are completed as
    an API server does (see :mod:`kplan.snapshot.defaults`). In files that people write, negative and absurd quantities
    are errors; objects in memory and kplan's own files may hold them.
    """
    refuse_empty(source)
    if not isinstance(source, str | Path):
        loader = _Loader(SnapshotBuilder())
        for index, obj in enumerate(listed(source)):
            path = f"$[{index}]"
            if isinstance(obj, msgspec.Struct):
                loader.builder.add([obj], type_of(obj), Run(None, path, "", "", [obj]))
            elif isinstance(obj, Mapping):
                loader.take_mapping(dict(obj), path)
            else:
                loader.builder.problems.append(Problem("expected an object with apiVersion and kind", json_path=path))
        return loader.finish("objects")
    name = str(source)
    if name == DEMO:
        return _load_files(_DEMO_FILE, DEMO, None, None)
    shown = "standard input" if name == STANDARD_INPUT else name
    return _load_files(source, shown, stdin, progress, needs_nodes=needs_nodes)


def _load_files(
    source: str | Path, name: str, stdin: BinaryIO | None, progress: ReadProgress | None, *, needs_nodes: bool = True
) -> Snapshot:
    loader = _Loader(SnapshotBuilder(refuses_odd=True))
    try:
        loader.take_all(read_pieces(source, loader.builder.problems, progress=progress))
    except (NotInPieces, msgspec.DecodeError):
        loader = _Loader(SnapshotBuilder(refuses_odd=True))
        parts = read_runs(source, loader.builder.problems, stdin=stdin, progress=progress, notes=loader.notes)
        loader.take_all(parts, progress)
    if needs_nodes and not loader.builder.problems and not loader.has_nodes:
        loader.builder.problems.append(Problem("no nodes in the snapshot", path=name, hint=_NO_NODES_HINT))
    return loader.finish(name)


class LoadedObjects(msgspec.Struct, frozen=True):
    """Objects to change a cluster with."""

    objects: tuple[msgspec.Struct, ...]  #: with an API server's defaults, in reading order
    whole: Mapping[str, msgspec.Raw | dict[str, Any]]  #: as `Snapshot.whole`


def load_objects(source: str | Mapping[str, Any]) -> LoadedObjects:
    """Read a file, a directory, ``-``, or take one object; raises SnapshotError with all problems."""
    refuse_empty(source)
    loader = _Loader(SnapshotBuilder(refuses_odd=isinstance(source, str)))
    if isinstance(source, str):
        loader.take_all(read_items(source, loader.builder.problems, limits=SNAPSHOTS))
    else:
        loader.take_mapping(dict(source), "$[0]")
    return LoadedObjects(loader.builder.objects(), loader.whole)


class _Loader:
    """Sorts objects by kind on their way into the builder."""

    def __init__(self, builder: SnapshotBuilder) -> None:
        self.builder = builder
        self.has_nodes = False
        self._skipped: Counter[str] = Counter()
        self._unread: Counter[tuple[str, str]] = Counter()
        self._metadata = own_file.SnapshotMetadata()
        self.whole: dict[str, msgspec.Raw | dict[str, Any]] = {}  #: as `Snapshot.whole`
        self.notes: list[Problem] = []  #: about files that are passed over

    def take_all(self, parts: Iterable[Item | Run], progress: ReadProgress | None = None) -> None:
        n_taken = 0
        for part in parts:
            if isinstance(part, Run) and part.kind != own_file.KIND:
                self._take(part)
                n_taken += len(part.contents)
                continue
            for item in part.items() if isinstance(part, Run) else (part,):
                self.take(item)
                n_taken += 1
            if progress and n_taken % _OBJECTS_A_STEP == 0:
                progress("objects", n_taken, None)

    def take(self, item: Item) -> None:
        if (item.api_version, item.kind) == (own_file.API_VERSION, own_file.KIND):
            self._take_own(item)
        else:
            self._take(Run(item.origin, item.json_path, item.api_version, item.kind, [item.content]))

    def take_mapping(self, obj: dict[str, Any], path: str) -> None:
        api_version, kind_name = obj.get("apiVersion", ""), obj.get("kind")
        if isinstance(api_version, str) and isinstance(kind_name, str):
            self._take(Run(None, path, api_version, kind_name, [obj]))
        elif not self.builder.has_enough_problems():
            hint = "a Kubernetes object has apiVersion, kind and metadata"
            self.builder.problems.append(Problem("has no kind", json_path=f"{path}.kind", hint=hint))

    def _take(self, run: Run, *, is_own: bool = False) -> None:
        """Take objects of one kind: all at once where each can be decoded, else one by one.

        Those of a file of kplan's own hold nothing that scheduling does not read.
        """
        if (kind := kind_of(run.api_version, run.kind)) is None:
            self._skipped[run.kind] += len(run.contents)
            return
        if not kind.reads(run.api_version):
            self._unread[run.api_version, run.kind] += len(run.contents)
            return
        if objects := decode_sound(run.contents, kind.type):
            self._add(objects, run, kind, is_own=is_own)
            return
        for index, content in enumerate(run.contents):
            if self.builder.has_enough_problems():
                continue
            try:
                obj = decode(content, kind.type) if isinstance(content, msgspec.Raw) else convert(content, kind.type)
            except DecodeError as error:
                if kind.is_open and not is_own:
                    self._skipped[kind.name] += 1
                else:
                    self.builder.problems += [run.locate(index, problem) for problem in error.problems]
            else:
                self._add([obj], run.part(index), kind, is_own=is_own)

    def _add(self, objects: Sequence[Any], run: Run, kind: Kind, *, is_own: bool) -> None:
        if kind.names or kind.namespace:
            wanted = [index for index, obj in enumerate(objects) if kind.wants(metadata_of(obj))]
            if len(wanted) < len(objects):
                self._skipped[kind.name] += len(objects) - len(wanted)
                for index in wanted:
                    self._add([objects[index]], run.part(index), kind, is_own=is_own)
                return
        self.has_nodes = self.has_nodes or kind.name in _GIVES_NODES
        self.builder.add(objects, kind, run)
        if kind.name in _WHOLE and not is_own:
            for obj, content in zip(objects, run.contents, strict=True):
                # With all its fields: a manifest may change any of them.
                key = object_name(kind.name, obj.metadata.namespace or DEFAULT_NAMESPACE, obj.metadata.name)
                self.whole[key] = content.copy() if isinstance(content, msgspec.Raw) else content

    def _take_own(self, item: Item) -> None:
        """Read a snapshot file of kplan: lists by kind."""
        problems = self.builder.problems
        if not isinstance(item.content, msgspec.Raw):
            # From YAML: the lists are decoded from JSON text, kind by kind.
            item = replace(item, content=msgspec.Raw(msgspec.json.encode(item.content)))
        try:
            document = item.decode(own_file.SnapshotDocument)
        except DecodeError as error:
            problems += map(item.locate, error.problems)
            return
        if wrong := list(_version_problems(document)):
            problems += map(item.locate, wrong)
            return
        self._metadata = document.metadata
        for field, raw in document.objects.items():
            if (kind := _OWN_LISTS.get(field)) is None:
                self._skipped[field] += 1
                continue
            path = f"$.objects.{field}"
            try:
                elements = msgspec.json.decode(raw, type=list[msgspec.Raw])
            except msgspec.ValidationError:
                hint = "a snapshot holds a list of objects for each kind; save it anew with kplan snapshot save"
                problems.append(item.locate(Problem("expected a list", json_path=path, hint=hint)))
                continue
            if large := [index for index, element in enumerate(elements) if is_too_large(element)]:
                problems += [item.locate(too_large(f"{path}[{index}]")) for index in large]
                continue
            for first in range(0, len(elements), _OBJECTS_A_STEP):
                few = elements[first : first + _OBJECTS_A_STEP]
                self._take(Run(item.origin, path, kind.api_version, kind.name, few, first), is_own=True)

    def finish(self, source: str) -> Snapshot:
        unread = (
            Warning("UnreadVersion", kind, f"{count} of {api_version} left out; kplan does not read that version")
            for (api_version, kind), count in sorted(self._unread.items())
        )
        passed_over = (
            Warning("EmptyFile", note.path, f"{note.message}, and was passed over: was it meant to hold objects?")
            for note in self.notes
        )
        about = replace(
            own_file.read_metadata(self._metadata),
            source=source,
            whole=self.whole,
            skipped=dict(sorted((Counter(self._metadata.skipped) + self._skipped).items())),
            warnings=(*unread, *passed_over),
        )
        return self.builder.finish(about)


def _version_problems(document: own_file.SnapshotDocument) -> Iterator[Problem]:
    """Yield why this version of kplan cannot read a snapshot file of kplan."""
    ours, theirs = own_file.FORMAT_VERSION.partition(".")[0], document.format_version
    if theirs and theirs.partition(".")[0] != ours:
        message = f"format version {theirs!r} is not {ours}.x"
        yield Problem(message, json_path="$.formatVersion", hint="read it with the kplan that wrote it")
    if (taken_at := document.metadata.taken_at) and not is_time(taken_at):
        message = f"{taken_at[:60]!r} is not a time"
        yield Problem(message, json_path="$.metadata.takenAt", hint=TIME_HINT)


def as_snapshot(source: object) -> Snapshot:
    """Return a snapshot as it is, or load that of a path or ``demo``; raises UsageError for anything else."""
    if isinstance(source, Snapshot):
        return source
    if not isinstance(source, str | Path):
        hint = 'for example kplan.Planner(kplan.load_snapshot("demo"))'
        raise UsageError(f"expected a snapshot, got {type(source).__name__}", hint=hint)

    return load_snapshot(source)


def decode_pod(obj: Pod | Mapping[str, Any]) -> Pod:
    """Decode a pod, with an API server's defaults where it has no uid; a `Pod` is returned as it is.

    Raises ManifestError with every problem and its JSON path, and UsageError when it is no object.
    """
    if isinstance(obj, Pod):
        return obj
    if not isinstance(obj, Mapping):
        raise UsageError(f"{obj!r} is not a pod", hint="name a pod as NAMESPACE/NAME, or give it as a dict")
    kind = kind_of(str(obj.get("apiVersion", "v1")), str(obj.get("kind", "Pod")))
    if kind is None or kind.type is not Pod:
        problem = Problem(f"expected a Pod, got {obj.get('kind')!r} of {obj.get('apiVersion')!r}", json_path="$.kind")
        raise ManifestError([problem])
    try:
        pod = convert(dict(obj), Pod)
    except DecodeError as error:
        raise ManifestError(error.problems) from None
    problems = [] if pod.spec.containers else [Problem("a pod needs a container", json_path="$.spec.containers")]
    problems += [*QuantityCheck(refuses_odd=False).problems(pod), *time_problems(pod)]
    if problems:
        raise ManifestError(problems)
    completed: Pod = complete(pod, kind)
    return completed


def snapshots_of(directory: Path) -> list[str]:
    """Return the snapshots of several clusters in a directory; the directory itself where it holds one cluster.

    Each is a file of kplan's own, or an archive: other files are parts of one cluster.
    """
    problems: list[Problem] = []
    paths = [*files_below(directory, problems), *filter(is_archive, directory.iterdir())]
    if problems or len(paths) < 2 or not all(is_archive(path) or _is_own(path) for path in paths):
        return [str(directory)]
    return [str(path) for path in sorted(paths)]


def _is_own(path: Path) -> bool:
    """Tell by its beginning whether a file is a snapshot of kplan."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if head.startswith(GZIP_MAGIC):
            with gzip.open(path) as packed:
                head = packed.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return re.match(_OWN_HEAD, head) is not None
