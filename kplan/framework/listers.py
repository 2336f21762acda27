"""All objects of a snapshot besides nodes and pods, indexed as plugins look them up."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController, Service
from kplan.api.kinds import by_kind_and_name
from kplan.api.resource import RESOURCE_DEVICE_CLASS_PREFIX, DeviceClass, ResourceClaim
from kplan.api.scheduling import PodGroup
from kplan.api.storage import CSIDriver, CSINode, StorageClass
from kplan.api.time import to_micros
from kplan.api.workloads import PodDisruptionBudget, ReplicaSet, StatefulSet
from kplan.rules.nodes import without_published
from kplan.snapshot.model import Snapshot

T = TypeVar("T", bound=Any)
Key = tuple[str, str]  #: (namespace, name)


def by_name(objects: Iterable[T]) -> dict[str, T]:
    return {obj.metadata.name: obj for obj in objects}


def key_of(obj: Any) -> Key:
    return obj.metadata.namespace, obj.metadata.name


def by_key(objects: Iterable[T]) -> dict[Key, T]:
    return {key_of(obj): obj for obj in objects}


class Listers:
    """Indexes over a snapshot, each built when first used; only a fork of one session changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        #: resource claims that controllers created since the snapshot, in order
        self.device_claims: list[ResourceClaim] = []
        #: the objects of `catalogue`, with the inputs that they were built from
        self.catalogues: dict[Callable[..., Any], tuple[tuple[object, ...], Any]] = {}

    def fork(self) -> Listers:
        """Return listers to which objects can be added without changing these; unchanged indexes are shared."""
        forked = copy.copy(self)
        forked.device_claims = []
        forked.catalogues = {}
        for name in ("replica_sets", "stateful_sets", "replication_controllers", "persistent_volume_claims"):
            forked.__dict__[name] = getattr(self, name).copy()
        return forked

    def store(self, objects: Iterable[msgspec.Struct]) -> None:
        """Replace claims, volumes and what nodes publish by what they are now; only for a fork.

        Resource claims that controllers created since the snapshot belong to it from now on.
        """
        newer = by_kind_and_name([*self.device_claims, *objects])
        self.device_claims = []
        self.catalogues = {}
        for attribute in ("persistent_volumes", "resource_claims", "resource_slices", "csi_nodes"):
            own = newer.get(attribute, {})
            there: tuple[Any, ...] = getattr(self.snapshot, attribute)
            names = set(map(key_of, there))
            fresh = (obj for name, obj in own.items() if name not in names)
            if own:
                held = (*(own.get(key_of(obj), obj) for obj in there), *fresh)
                changes: dict[str, Any] = {attribute: held}
                self.snapshot = replace(self.snapshot, **changes)
        for attribute in ("persistent_volumes", "csi_nodes"):
            self.__dict__.pop(attribute, None)
        self.persistent_volume_claims |= newer.get("persistent_volume_claims", {})

    def forget_node(self, node: Node) -> None:
        """Take away what is about a node that is gone for good; only for a fork."""
        self.snapshot = without_published(self.snapshot, [node])
        self.__dict__.pop("csi_nodes", None)

    def catalogue(self, kind: Callable[..., T], *inputs: object) -> T:
        """Return ``kind(*inputs, listers)``: what plugins derive from the objects, shared by all sessions with them.

        It is built when first used, and again when an input is another object than before.
        """
        cached = self.catalogues.get(kind)
        if cached is None or any(map(operator.is_not, cached[0], inputs)):
            cached = self.catalogues[kind] = inputs, kind(*inputs, self)
        catalogue: T = cached[1]
        return catalogue

    @cached_property
    def namespaces(self) -> dict[str, Namespace]:
        return by_name(self.snapshot.namespaces)

    def namespace_labels(self, namespace: str) -> dict[str, str]:
        """Return the labels of a namespace; none for an unknown namespace, as upstream."""
        known = self.namespaces.get(namespace)
        return {} if known is None else known.metadata.labels

    @cached_property
    def services_by_namespace(self) -> dict[str, list[Service]]:
        services: dict[str, list[Service]] = {}
        for service in self.snapshot.services:
            services.setdefault(service.metadata.namespace, []).append(service)
        return services

    @cached_property
    def pod_groups(self) -> dict[Key, PodGroup]:
        return by_key(self.snapshot.pod_groups)

    @cached_property
    def replication_controllers(self) -> dict[Key, ReplicationController]:
        return by_key(self.snapshot.replication_controllers)

    @cached_property
    def replica_sets(self) -> dict[Key, ReplicaSet]:
        return by_key(self.snapshot.replica_sets)

    @cached_property
    def stateful_sets(self) -> dict[Key, StatefulSet]:
        return by_key(self.snapshot.stateful_sets)

    @cached_property
    def persistent_volumes(self) -> dict[str, PersistentVolume]:
        return by_name(self.snapshot.persistent_volumes)

    @cached_property
    def persistent_volume_claims(self) -> dict[Key, PersistentVolumeClaim]:
        return by_key(self.snapshot.persistent_volume_claims)

    @cached_property
    def storage_classes(self) -> dict[str, StorageClass]:
        return by_name(self.snapshot.storage_classes)

    @cached_property
    def csi_nodes(self) -> dict[str, CSINode]:
        return by_name(self.snapshot.csi_nodes)

    @cached_property
    def csi_drivers(self) -> dict[str, CSIDriver]:
        return by_name(self.snapshot.csi_drivers)

    @cached_property
    def pod_disruption_budgets(self) -> tuple[PodDisruptionBudget, ...]:
        return tuple(sorted(self.snapshot.pod_disruption_budgets, key=key_of))

    @cached_property
    def extended_resource_classes(self) -> dict[str, DeviceClass]:
        """Device classes by extended resource: the one that the spec names, and the implicit one of the class's name.

        Of two classes that name the same resource the younger wins, then the first by name; a class that loses to an
        earlier one has no implicit resource either. Classes are read in the order of their names.
        Upstream: dynamic-resource-allocation/deviceclass/extendedresourcecache updateResourceName2class.
        """
        classes: dict[str, DeviceClass] = {}
        for device_class in sorted(self.snapshot.device_classes, key=lambda device_class: device_class.metadata.name):
            resource = device_class.spec.extended_resource_name
            if resource is not None:
                rival = classes.get(resource)
                if rival is not None and _created(device_class) <= _created(rival):
                    continue
                classes[resource] = device_class
            classes[RESOURCE_DEVICE_CLASS_PREFIX + device_class.metadata.name] = device_class
        return classes


def _created(device_class: DeviceClass) -> int:
    created = device_class.metadata.creation_timestamp
    return 0 if created is None else to_micros(created)
