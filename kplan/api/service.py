"""Services (k8s.io/api core/v1), as far as spreading and the API server's rules about their changes read them."""

from msgspec import field

from kplan.api.base import Int32, KubeStruct
from kplan.api.meta import ApiObject

HEADLESS = "None"
"""The address of a service without one."""


class ServicePort(KubeStruct, frozen=True):
    """A port of a service."""

    name: str = ""
    protocol: str = ""
    port: Int32 = 0
    node_port: Int32 = 0


class ClientIPConfig(KubeStruct, frozen=True):
    """For how long the connections of a client go to the same pod."""

    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(KubeStruct, frozen=True):
    """How the session affinity of a service works."""

    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(KubeStruct, frozen=True):
    """Which pods a service selects; the other fields decide which changes of it the API server accepts."""

    selector: dict[str, str] = {}
    type: str = ""
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = field(default=(), name="clusterIPs")
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    external_ips: tuple[str, ...] = field(default=(), name="externalIPs")
    external_name: str = ""
    external_traffic_policy: str = ""
    internal_traffic_policy: str | None = None
    health_check_node_port: Int32 = 0
    load_balancer_class: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()
    allocate_load_balancer_node_ports: bool | None = None
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None


class Service(ApiObject, frozen=True):
    """A service; default topology spreading uses its selector."""

    spec: ServiceSpec = ServiceSpec()
