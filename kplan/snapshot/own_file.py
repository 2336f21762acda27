"""kplan's snapshot file: one JSON document with the objects by kind and metadata of the cluster, written atomically.

It holds only fields that scheduling reads and that are not empty: no environment, no arguments, only few annotations
and little status. Defaults are filled in only where it was written by hand. A redacted snapshot lists under ``kept``
what was not redacted, and one that was changed on paper its changes.

::

    {"apiVersion": "kplan/v1", "kind": "Snapshot", "formatVersion": "1.1",
     "metadata": {"source": …, "serverVersion": …, "takenAt": …, "digest": "sha256:…", "missing": […], "skipped": {…},
                  "kept": […], "changes": […]},
     "objects": {"nodes": […], "pods": […], …}}

`lean` removes contents that do not affect scheduling, so that snapshots stay small and their digests comparable:
annotations of other programs, volumes without a source that storage plugins know, statuses of containers that run as
the spec says, and unread conditions. Messages go, as they may hold anything; of the kubelet's stays which resource was
short and why its node is not ready, and of the API server's which webhook or policy refuses pods, and why.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from kplan.api import core
from kplan.api.kinds import KINDS, Kind
from kplan.api.meta import KubeStruct, ObjectMeta, PlainMeta, ResourceList
from kplan.api.pod import SCHEDULED, ContainerState, ContainerStatus, PodMeta
from kplan.api.storage import Volume
from kplan.errors import UsageError
from kplan.facts import CHANGES, ClusterChange, MissingKind
from kplan.snapshot.model import LIVE, Snapshot
from kplan.visible import as_yaml, json_bytes

S = TypeVar("S", bound=msgspec.Struct)

#: Annotations that affect scheduling; snapshots hold no others.
DECIDING_ANNOTATIONS = frozenset(
    """
    karpenter.sh/do-not-disrupt karpenter.sh/nodepool-hash karpenter.sh/nodepool-hash-version
    pv.kubernetes.io/bind-completed pv.kubernetes.io/bound-by-controller pv.kubernetes.io/migrated-to
    pv.kubernetes.io/provisioned-by resource.kubernetes.io/extended-resource-claim resource.kubernetes.io/pod-claim-name
    storage.alpha.kubernetes.io/migrated-plugins storageclass.beta.kubernetes.io/is-default-class
    storageclass.kubernetes.io/is-default-class volume.alpha.kubernetes.io/node-affinity
    volume.beta.kubernetes.io/storage-class volume.beta.kubernetes.io/storage-provisioner
    volume.kubernetes.io/selected-node volume.kubernetes.io/storage-provisioner
    """.split()  # noqa: SIM905 - a list would take a line for each
)

#: Conditions of a pod's start, which do not affect where it can run.
_IDLE_POD_CONDITIONS = frozenset({"ContainersReady", "Initialized", "PodReadyToStartContainers"})

_N_SOURCES = len(Volume.__struct_fields__) - 1
_CALL = r'failed to call webhook: \w+ "[^"]*": '
_REFUSAL = (
    r"""failed calling webhook "|admission webhook "[^"]+" denied the request|ValidatingAdmissionPolicy '[^']+' with """
    r"""|(?<= is forbidden: )(?!(?:exceeded|failed|status unknown for) quota: )"""
)
LONGEST_MESSAGE = 240  #: characters that are kept, and told, of what a server or a kubelet says
API_VERSION = "kplan/v1"
KIND = "Snapshot"
FORMAT_VERSION = "1.1"
_JSON = ".json"
_YAML = (".yaml", ".yml")
_GZIP = ".gz"
_GZIP_LEVEL = 6  #: files are little larger than with the highest level, and several times quicker to write


def lean(obj: S) -> S:
    """Return the object without contents that do not affect scheduling; the same object where it has none."""
    changes: dict[str, object] = {}
    metadata = getattr(obj, "metadata", None)
    if isinstance(metadata, PlainMeta) and (changed := _lean_metadata(metadata)):
        changes["metadata"] = replace(metadata, **changed)
    if isinstance(obj, core.Pod):
        if volumes := obj.spec.volumes:
            # Projected volumes and the like have no source that storage plugins know.
            reduced = tuple(volume for volume in volumes if astuple(volume).count(None) < _N_SOURCES)
            if len(reduced) < len(volumes):
                changes["spec"] = replace(obj.spec, volumes=reduced)
        status = obj.status
        if (status.conditions or status.container_statuses or status.init_container_statuses or status.message) and (
            changed := _lean_pod_status(obj)
        ):
            changes["status"] = replace(status, **changed)
    elif isinstance(obj, core.Node) and (conditions := _lean_node_conditions(obj.status.conditions)) is not None:
        changes["status"] = replace(obj.status, conditions=conditions)
    elif lean_status := _lean_workload_status(getattr(obj, "status", None)):
        changes["status"] = lean_status
    return replace(obj, **changes) if changes else obj


def lean_all(objects: Sequence[Any]) -> list[Any]:
    """Return objects of one kind as `lean` does each, but quicker where a pod plainly has nothing that is to go."""
    if type(objects[0]) is not core.Pod:
        return [lean(obj) for obj in objects]
    return [
        lean(pod)
        if (own := pod.metadata).resource_version
        or own.generate_name
        or own.finalizers
        or own.owner_references
        or pod.spec.volumes
        or (status := pod.status).conditions
        or status.container_statuses
        or status.init_container_statuses
        or status.message
        else pod
        for pod in objects
    ]


def _lean_metadata(metadata: PlainMeta) -> dict[str, object]:
    changes: dict[str, object] = {}
    if metadata.resource_version:
        changes["resource_version"] = ""
    if metadata.generate_name and metadata.name:
        changes["generate_name"] = ""
    if getattr(metadata, "finalizers", ()) and not metadata.deletion_timestamp:
        changes["finalizers"] = metadata.held_by if isinstance(metadata, PodMeta) else ()
    owners = metadata.owner_references
    if owners and any(owner.block_owner_deletion for owner in owners):
        changes["owner_references"] = tuple(replace(owner, block_owner_deletion=False) for owner in owners)
    annotations = metadata.annotations if isinstance(metadata, ObjectMeta) else None
    if annotations and not annotations.keys() <= DECIDING_ANNOTATIONS:
        changes["annotations"] = {key: text for key, text in annotations.items() if key in DECIDING_ANNOTATIONS}
    return changes


def _lean_pod_status(pod: core.Pod) -> dict[str, object]:
    status = pod.status
    lean_fields: dict[str, object] = {"message": status.message and short_resource(status.message)}
    lean_fields["conditions"] = tuple(
        _lean_pod_condition(one)
        for one in status.conditions
        if one.type not in _IDLE_POD_CONDITIONS
        # Karpenter looks at the reason alone.
        and not (one.type == SCHEDULED and one.status == "True" and one.reason != "Unschedulable")
    )
    for field, containers in (
        ("container_statuses", pod.spec.containers),
        ("init_container_statuses", pod.spec.init_containers),
    ):
        statuses: tuple[ContainerStatus, ...] = getattr(status, field)
        if statuses:
            requests = {container.name: container.resources.requests for container in containers}
            lean_fields[field] = tuple(
                _lean_container_status(one) for one in statuses if not _repeats_spec(one, requests.get(one.name))
            )
    return {field: content for field, content in lean_fields.items() if content != getattr(status, field)}


def _lean_pod_condition(condition: core.PodCondition) -> core.PodCondition:
    """Return a condition without its time, but that of readiness, and any message but the scheduler's."""
    message = condition.message if condition.type == SCHEDULED else ""
    time = condition.last_transition_time if condition.type == "Ready" else None
    return replace(condition, last_transition_time=time, message=message)


def _lean_workload_status(status: Any) -> Any:
    """Return a workload's status without messages, but those that say who refuses its pods; None where it has none."""
    conditions: Sequence[Any] = getattr(status, "conditions", ())
    if not any(isinstance(one, core.WorkloadCondition) and one.message for one in conditions):
        return None
    lean_conditions = tuple(replace(one, message=refusal_by_others(one.message)) for one in conditions)
    return replace(status, conditions=lean_conditions)


def refusal_by_others(message: str) -> str:
    """Return what the API server says about what refuses pods; empty for any other message, and for a quota's.

    A quota says what was used at that time, and what is used now is known.
    """
    match = re.search(_REFUSAL, message)
    return "" if match is None else re.sub(_CALL, "", message[match.start() :])[:LONGEST_MESSAGE]


def short_resource(message: str) -> str:
    """Return what the kubelet's message about an eviction begins with: which resource its node was short of."""
    match = re.match(r"The node was low on resource: [a-z][a-z0-9./-]{0,62}", message)
    return match[0].rstrip(".") if match else ""


def named_as_missing(message: str) -> tuple[str, str] | None:
    """Return kind and name of what a container lacks, as the kubelet says (upstream makeEnvironmentVariables)."""
    match = re.match(r'(secret|configmap) "([a-z0-9][a-z0-9.-]{0,252})" not found', message)
    return None if match is None else ("Secret" if match[1] == "secret" else "ConfigMap", match[2])


def _lean_container_status(status: ContainerStatus) -> ContainerStatus:
    """Return a status with no more of its messages than what says why it does not start."""
    state, last = map(_lean_container_state, (status.state, status.last_state))
    is_lean = (state, last) == (status.state, status.last_state)
    return status if is_lean else replace(status, state=state, last_state=last)


def _lean_container_state(state: ContainerState) -> ContainerState:
    waiting, ended = state.waiting, state.terminated
    return ContainerState(
        waiting=waiting and replace(waiting, message=waiting.failure),
        terminated=ended and replace(ended, message=ended.failure),
    )


def _repeats_spec(status: ContainerStatus, requests: ResourceList | None) -> bool:
    """Tell whether a container runs with the resources of the spec, and never restarted."""
    state = status.state
    has_failed = state.terminated and state.terminated.exit_code
    if status.restart_count or state.waiting is not None or has_failed or status.ready is False:
        return False
    if status.resources is None:
        return True
    return status.resources.requests == requests and status.allocated_resources in ({}, requests)


def _lean_node_conditions(conditions: tuple[core.NodeCondition, ...]) -> tuple[core.NodeCondition, ...] | None:
    """Return Ready, whose heartbeat counts, and what is not False; None where these are all, as they are."""
    if not conditions:
        return None
    reduced = tuple(_lean_node_condition(one) for one in conditions if one.type == "Ready" or one.status != "False")
    return reduced if reduced != conditions else None


def _lean_node_condition(condition: core.NodeCondition) -> core.NodeCondition:
    if condition.type != "Ready":
        return replace(condition, message="", last_heartbeat_time=None)
    if condition.status == "True":
        return replace(condition, reason="", message="")
    return replace(condition, message=condition.message[:LONGEST_MESSAGE])


class ChangeEntry(KubeStruct, frozen=True):
    """Something that was changed on paper before the snapshot was saved."""

    change: str = ""
    what: str = ""
    count: int = 0
    objects: tuple[str, ...] = ()


class SnapshotMetadata(KubeStruct, frozen=True):
    """Where and when the snapshot was taken."""

    source: str = ""
    server_version: str | None = None
    taken_at: str | None = None
    digest: str = ""
    missing: tuple[MissingKind, ...] = ()
    skipped: dict[str, int] = {}
    unredacted: tuple[str, ...] = msgspec.field(default=(), name="kept")
    changes: tuple[ChangeEntry, ...] = ()


class SnapshotDocument(KubeStruct, frozen=True):
    """The file before its objects are decoded, kind by kind."""

    api_version: str = ""
    kind: str = ""
    format_version: str = ""
    metadata: SnapshotMetadata = SnapshotMetadata()
    objects: dict[str, msgspec.Raw] = {}


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    metadata = SnapshotMetadata(
        source=(LIVE if snapshot.from_server and not snapshot.source.startswith(LIVE) else "") + snapshot.source,
        server_version=snapshot.server_version,
        taken_at=snapshot.taken_at,
        digest=snapshot.digest,
        missing=snapshot.missing,
        skipped=snapshot.skipped,
        unredacted=snapshot.unredacted,
        changes=tuple(
            ChangeEntry(change.change, change.what, change.count, change.objects) for change in snapshot.changes
        ),
    )
    objects = {field_name(kind): tuple(map(lean, own)) for kind in KINDS if (own := snapshot.objects(kind.attribute))}
    version = {"apiVersion": API_VERSION, "kind": KIND, "formatVersion": FORMAT_VERSION}
    return {**version, "metadata": metadata, "objects": objects}


def to_bytes(snapshot: Snapshot) -> bytes:
    return msgspec.json.encode(to_document(snapshot)) + b"\n"


def field_name(kind: Kind) -> str:
    """Return the name of a kind's list in the file: ``persistentVolumeClaims``."""
    first, *rest = kind.attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def read_metadata(metadata: SnapshotMetadata) -> Snapshot:
    """Return what a file says of a snapshot besides its objects, without changes on paper that are not known."""
    return Snapshot(
        from_server=metadata.source.startswith(LIVE),
        taken_at=metadata.taken_at,
        server_version=metadata.server_version,
        missing=metadata.missing,
        skipped=metadata.skipped,
        unredacted=metadata.unredacted,
        changes=tuple(
            ClusterChange(change=word, what=entry.what, count=max(entry.count, 0), objects=entry.objects)
            for entry in metadata.changes
            for word in CHANGES
            if word == entry.change
        ),
    )


def save_snapshot(snapshot: Snapshot, path: str | Path) -> int:
    """Write the snapshot to a file and return how many bytes it has.

    Its name ends in ``.json``, ``.yaml`` or ``.yml``, each also with ``.gz``. Only the owner can read a new file, as it
    describes a whole cluster. Raises UsageError for another name, or when the file cannot be written.
    """
    from kplan.writing import PRIVATE, write_file

    target = Path(path)
    content = encode_snapshot(snapshot, target.name)
    write_file(target, content, mode=PRIVATE)
    return len(content)


def encode_snapshot(snapshot: Snapshot, name: str) -> bytes:
    """Return the content of a snapshot file, the same for equal ones; raises UsageError for an unknown ending."""
    check_name(name)
    stem = name.lower().removesuffix(_GZIP)
    if stem.endswith(_YAML):
        content = as_yaml(msgspec.to_builtins(to_document(snapshot))).encode()
    else:
        content = json_bytes(to_bytes(snapshot))
    return gzip.compress(content, _GZIP_LEVEL, mtime=0) if name.lower().endswith(_GZIP) else content


def check_name(name: str) -> None:
    """Raise UsageError for the name of a file without a known ending."""
    if not name.lower().removesuffix(_GZIP).endswith((_JSON, *_YAML)):
        hint = "end it in .json, .yaml, .json.gz or .yaml.gz"
        raise UsageError(f"{name}: the name has no known extension", hint=hint)
