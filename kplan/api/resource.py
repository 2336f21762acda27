"""Dynamic resource allocation (``resource.k8s.io``): claims, classes, and the devices that drivers publish."""

from msgspec import UNSET, UnsetType, field
from msgspec.structs import force_setattr

from kplan.api.affinity import AnyTaint, AnyToleration, NodeSelector
from kplan.api.meta import ApiObject, Condition, KubeStruct, ObjectMeta, QuantityLike, ResourceList

ALLOCATION_RESULTS_MAX_SIZE = 32  #: the most devices that one claim can be allocated
#: The most alternatives of one request; scores count down from here.
FIRST_AVAILABLE_MAX_SIZE = 8
#: Annotation of the claim that the scheduler creates for extended resources of a pod.
EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
#: Every device class can be requested as an extended resource of this prefix and its name.
RESOURCE_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
MODE_EXACT_COUNT = "ExactCount"
MODE_ALL = "All"


class CELDeviceSelector(KubeStruct, frozen=True):
    expression: str = ""


class DeviceSelector(KubeStruct, frozen=True):
    cel: CELDeviceSelector | None = None


class DeviceToleration(AnyToleration, frozen=True):
    """Which taints of devices a request accepts."""


class CapacityRequirements(KubeStruct, frozen=True):
    """How much of a shareable device's capacity a request needs."""

    requests: ResourceList = {}


class ExactDeviceRequest(KubeStruct, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


_NOTHING = ExactDeviceRequest()


class DeviceSubRequest(KubeStruct, frozen=True):
    """One alternative of a ``firstAvailable`` request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(ExactDeviceRequest, frozen=True):
    """A named request: exactly one kind of device, or the first alternative that works.

    In v1beta1 it has the fields of `exactly` itself; decoding moves them there.
    """

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()

    def __post_init__(self) -> None:
        if self.exactly is None:
            own = {name: getattr(self, name) for name in ExactDeviceRequest.__struct_fields__}
            if any(own.values()) or self.admin_access is not None:
                force_setattr(self, "exactly", ExactDeviceRequest(**own))
            for name in own:
                force_setattr(self, name, getattr(_NOTHING, name))


class DeviceConstraint(KubeStruct, frozen=True):
    """What several devices of a claim must, or must not, have in common."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(KubeStruct, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


class ResourceClaimSpec(KubeStruct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaimConsumerReference(KubeStruct, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceRequestAllocationResult(KubeStruct, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: ResourceList = {}


class DeviceAllocationResult(KubeStruct, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(KubeStruct, frozen=True):
    """The devices of a claim and the nodes that can reach them (None: every node)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class DeviceStatusCondition(Condition, frozen=True):
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(KubeStruct, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[DeviceStatusCondition, ...] = ()


class ResourceClaimStatus(KubeStruct, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(KubeStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(KubeStruct, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaint(AnyTaint, frozen=True):
    """A taint of a device; only ``NoSchedule`` and ``NoExecute`` prevent its allocation."""


class DeviceAttribute(KubeStruct, frozen=True):
    """One attribute of a device: one of the fields is set, the plural ones with the gate DRAListTypeAttributes."""

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
    default: QuantityLike | None = None
    valid_values: tuple[QuantityLike, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(KubeStruct, frozen=True):
    value: QuantityLike = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(KubeStruct, frozen=True):
    value: QuantityLike = 0


class CounterSet(KubeStruct, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(KubeStruct, frozen=True):
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
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(KubeStruct, frozen=True):
    """The devices that a rule taints; what is left out matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(KubeStruct, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiObject, frozen=True):
    """A taint that an administrator gives to devices (gate DRADeviceTaintRules)."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
