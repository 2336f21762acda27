"""Objects, their metadata and label selectors (k8s.io/apimachinery meta/v1)."""

from typing import ClassVar

from kplan.api.base import KubeStruct

#: A number or a percentage, as in ``maxUnavailable``.
IntOrString = int | str


class OwnerReference(KubeStruct, frozen=True):
    """An owner of an object; at most one owner is its controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class PlainMeta(KubeStruct, frozen=True):
    """Metadata of kinds whose annotations scheduling does not read: pods, nodes, workloads.

    Annotations are the bulk of many objects (``last-applied-configuration``), so they are not even decoded here.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class ObjectMeta(PlainMeta, frozen=True):
    """Metadata of kinds of which scheduling reads some annotations: volumes, claims, storage classes, CSI nodes."""

    annotations: dict[str, str] = {}


class ApiObject(KubeStruct, frozen=True):
    """Base of the kinds that an API server serves; `kind` is the name of the class, not a field of the object."""

    kind: ClassVar[str] = ""

    metadata: PlainMeta = PlainMeta()

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__


class LabelSelectorRequirement(KubeStruct, frozen=True):
    """One expression of a label selector; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(KubeStruct, frozen=True):
    """A label selector as written; :func:`kplan.api.labels.selector_from` compiles it."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class TypedObjectReference(KubeStruct, frozen=True):
    """A reference to an object by kind and name, as in ``targetRef``, ``claimRef`` and ``dataSourceRef``."""

    api_version: str = ""
    api_group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


def controller_of(metadata: PlainMeta) -> OwnerReference | None:
    """Return the owner that is the controller, or None."""
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None
