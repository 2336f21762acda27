"""The kinds of the group coordination.k8s.io that are read."""

from kplan.api.meta import ApiObject, KubeStruct


class LeaseSpec(KubeStruct, frozen=True):
    """Since when a lease holds."""

    renew_time: str | None = None


class Lease(ApiObject, frozen=True):
    """The heartbeat of a kubelet; it has the name of the node."""

    spec: LeaseSpec = LeaseSpec()
