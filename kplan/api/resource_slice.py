"""Dynamic resource allocation: the devices that drivers publish in slices of ``resource.k8s.io``.

The structs have the fields of ``resource.k8s.io/v1``. Those of v1beta1 (a device's content under ``basic``) are
converted to v1 while decoding, as in an API server; v1beta2 has the fields of v1.
"""

from msgspec import UNSET, UnsetType, field
from msgspec.structs import force_setattr

from kplan.api.affinity import NodeSelector
from kplan.api.base import KubeStruct, QuantityLike
from kplan.api.meta import ApiObject, ObjectMeta


class DeviceTaint(KubeStruct, frozen=True):
    """A taint of a device; only ``NoSchedule`` and ``NoExecute`` prevent its allocation."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceAttribute(KubeStruct, frozen=True):
    """One attribute of a device: exactly one of the fields is set.

    The plural fields belong to the feature DRAListTypeAttributes.
    """

    int_value: int | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    int_values: tuple[int, ...] | None = field(default=None, name="ints")
    bool_values: tuple[bool, ...] | None = field(default=None, name="bools")
    string_values: tuple[str, ...] | None = field(default=None, name="strings")
    version_values: tuple[str, ...] | None = field(default=None, name="versions")


class CapacityRequestPolicyRange(KubeStruct, frozen=True):
    """Amounts of a capacity that can be requested, from `min` on in steps."""

    min: QuantityLike | None = None
    max: QuantityLike | None = None
    step: QuantityLike | None = None


class CapacityRequestPolicy(KubeStruct, frozen=True):
    """How requests for a shareable capacity are rounded and limited."""

    default: QuantityLike | None = None
    valid_values: tuple[QuantityLike, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(KubeStruct, frozen=True):
    """One capacity of a device."""

    value: QuantityLike = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(KubeStruct, frozen=True):
    """An amount of something that devices of a pool share."""

    value: QuantityLike = 0


class CounterSet(KubeStruct, frozen=True):
    """Counters that devices of a pool consume."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(KubeStruct, frozen=True):
    """What a device consumes of one counter set when it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class NodeAllocatableResourceMapping(KubeStruct, frozen=True):
    """How much of a resource of the node an allocation of the device means (gate DRANodeAllocatableResources)."""

    capacity_key: str | None = None
    allocation_multiplier: QuantityLike | None = None


class BasicDevice(KubeStruct, frozen=True):
    """A device's content in v1beta1."""

    attributes: dict[str, DeviceAttribute] | UnsetType = UNSET
    capacity: dict[str, DeviceCapacity] | UnsetType = UNSET
    consumes_counters: tuple[DeviceCounterConsumption, ...] | UnsetType = UNSET
    node_name: str | UnsetType | None = UNSET
    node_selector: NodeSelector | UnsetType | None = UNSET
    all_nodes: bool | UnsetType | None = UNSET
    taints: tuple[DeviceTaint, ...] | UnsetType = UNSET
    binds_to_node: bool | UnsetType | None = UNSET
    binding_conditions: tuple[str, ...] | UnsetType = UNSET
    binding_failure_conditions: tuple[str, ...] | UnsetType = UNSET
    allow_multiple_allocations: bool | UnsetType | None = UNSET
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] | UnsetType = UNSET


class Device(KubeStruct, frozen=True):
    """One device of a slice; `basic` is the content in v1beta1, None after decoding."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}
    basic: BasicDevice | None = None

    def __post_init__(self) -> None:
        if self.basic is not None:
            for name in BasicDevice.__struct_fields__:
                value = getattr(self.basic, name)
                if value is not UNSET:
                    force_setattr(self, name, value)
            force_setattr(self, "basic", None)


class ResourcePool(KubeStruct, frozen=True):
    """The pool that a slice belongs to; only slices of the newest generation count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(KubeStruct, frozen=True):
    """Devices, or counters, that a driver publishes for some nodes."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiObject, frozen=True):
    """One part of a pool of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(KubeStruct, frozen=True):
    """The devices that a rule taints; what is left out matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(KubeStruct, frozen=True):
    """A taint, and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiObject, frozen=True):
    """A taint that an administrator gives to devices (gate DRADeviceTaintRules)."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
