"""Columns of a :class:`~kplan.engine.pod_table.PodTable` that are built when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kplan.api.core import Pod
from kplan.api.time import to_micros
from kplan.rules.pod_info import NO_START_TIME, PodInfo
from kplan.rules.volume_claims import storage_kinds

NONZERO_CPU, NONZERO_MEMORY = "nonzero cpu", "nonzero memory"
START, HOST_PORTS, STORAGE = "start time", "host ports", "storage volumes"
"""Keys of columns other than those of resources, whose names contain no spaces."""


def has_ports(pod: Pod) -> bool:
    """Whether a container of a pod lists any port."""
    spec = pod.spec
    for container in spec.containers:
        if container.ports:
            return True
    return bool(spec.init_containers) and any(container.ports for container in spec.init_containers)


def read_column(key: str, infos: list[PodInfo]) -> list[int]:
    """Return the values of a column for some pods; a key that is none of these columns is the name of a resource."""
    reader = _READERS.get(key)
    return reader(infos) if reader else [info.resources.requests.get(key, 0) for info in infos]


def _start_micros(infos: list[PodInfo]) -> list[int]:
    """Return start times, parsing each distinct text once: replicas start together."""
    texts = [info.pod.status.start_time for info in infos]
    micros_of = {text: NO_START_TIME if text is None else to_micros(text) for text in set(texts)}
    return [micros_of[text] for text in texts]


_READERS: Mapping[str, Callable[[list[PodInfo]], list[int]]] = {
    NONZERO_CPU: lambda infos: [info.resources.nonzero_cpu for info in infos],
    NONZERO_MEMORY: lambda infos: [info.resources.nonzero_memory for info in infos],
    START: _start_micros,
    HOST_PORTS: lambda infos: [len(info.host_ports) for info in infos],
    STORAGE: lambda infos: [sum(bool(storage_kinds(volume)) for volume in info.pod.spec.volumes) for info in infos],
}


def is_resource(key: str) -> bool:
    """Whether a column contains the requests for a resource."""
    return key not in _READERS
