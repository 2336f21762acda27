"""Find the field of a pod that a diagnosis points at: the one place to change something, if there is only one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.api.affinity import REQUIRED, Affinity
from kplan.api.core import Container, Pod
from kplan.changes import remedy as r
from kplan.diagnosis import causes as c
from kplan.diagnosis.intended import key_of_taint, states_condition
from kplan.engine import details as d
from kplan.framework.listers import Listers
from kplan.reading.positions import Step, path_of
from kplan.remedies.requests import largest_requester
from kplan.rules.resources import PODS
from kplan.rules.volumes import claim_name

Field = tuple[Step, ...]  #: a path into the pod's JSON

_NODE_AFFINITY: Field = ("spec", "affinity", "nodeAffinity", REQUIRED)
_TOLERATIONS: Field = ("spec", "tolerations")
_SPREAD, _TOGETHER, _APART = "topologySpreadConstraints", "podAffinity", "podAntiAffinity"


def field_of(causes: c.Causes, remedies: Sequence[r.Remedy], pod: Pod, listers: Listers) -> str:
    """Return the JSON path of the field that is at fault; empty where it is not a single field of the pod.

    A cause that alone keeps the pod from running determines it; else the groups of rejected nodes if they all agree;
    else the first remedy that changes one.
    """
    if causes.whole:
        field = _of_whole(causes.whole[0], pod)
    else:
        of_details = ((_of_detail(detail, pod, listers) for detail in group.details) for group in causes.out)
        fields = {next(filter(None, own), ()) for own in of_details}
        field = fields.pop() if len(fields) == 1 else ()
        field = field or next(filter(None, (_of_remedy(remedy, pod) for remedy in remedies)), ())
    return path_of(field) if field else ""


def _of_whole(cause: c.Whole, pod: Pod) -> Field:  # noqa: C901, PLR0911 - one case a cause, in one place
    match cause:
        case c.Refused(lacks=lacks) if lacks is not None:
            return ("spec", lacks.field)
        case c.MissingNamespace():
            return ("metadata", "namespace")
        case c.Gated():
            return ("spec", "schedulingGates")
        case c.OtherScheduler():
            return ("spec", "schedulerName")
        case c.MissingClaim() | c.UnboundClaim() | c.LostClaim() | c.LeavingClaim():
            return _volume(pod, cause.claim)
        case c.NoSuchLabel(label=label):
            return _label(pod, label)
        case c.NoSuchCombination():
            return ("spec", "nodeSelector") if len(pod.spec.node_selector) == len(cause.labels) else _NODE_AFFINITY
        case c.NoSuchNode() if pod.spec.node_name:
            return ("spec", "nodeName")
        case c.NoSuchNode():
            return _NODE_AFFINITY
        case c.TooLarge(resource=resource):
            return _request(pod, resource)
        case _:
            return ()


def _of_detail(  # noqa: C901, PLR0911, PLR0912 - one case a kind, in one place
    detail: d.Detail, pod: Pod, listers: Listers
) -> Field:
    match detail:
        case d.InsufficientResource(resource=resource) if resource != PODS:
            return _request(pod, resource)
        case d.UntoleratedTaint(taint=taint):
            return () if states_condition(key_of_taint(taint)) or detail.unschedulable else _TOLERATIONS
        case d.UnmatchedNodeSelector(node_selector=label):
            return _label(pod, label.partition("=")[0])
        case d.UnmatchedNodeAffinity():
            return _NODE_AFFINITY
        case d.OtherNodeName():
            return ("spec", "nodeName")
        case d.TakenHostPort(host_port=port):
            return _host_port(pod, port)
        case d.TooMuchSkew(topology_key=key) | d.SpreadLabelMissing(topology_key=key):
            return _rule(pod, _SPREAD, key)
        case d.UnmetAffinity(topology_key=key) | d.AffinityLabelMissing(topology_key=key):
            return _rule(pod, _TOGETHER, key)
        case d.OwnAntiAffinity(topology_key=key):
            return _rule(pod, _APART, key)
        case d.UnreachableVolume() | d.LostVolume() | d.UnboundClaim() | d.ClaimInUse():
            return _volume(pod, detail.claim)
        case d.OtherVolumeZone(volume=volume):
            return _bound_volume(pod, volume, listers)
        case d.MissingDevices() | d.UnavailableClaim():
            return ("spec", "resourceClaims")
        case _:
            return ()


def _of_remedy(  # noqa: C901, PLR0911, PLR0912 - one case a kind, in one place
    remedy: r.Remedy, pod: Pod
) -> Field:
    match remedy:
        case r.LowerRequest(change=change):
            return _container(pod, change.container, ("resources", "requests", change.resource))
        case r.DropHostPorts(change=change):
            return _host_port(pod, int(change.ports[0].partition("/")[0]))
        case r.TolerateTaint():
            return _TOLERATIONS
        case r.CorrectSelector(change=change) if change.where == "nodeSelector":
            return ("spec", change.where, change.old.partition("=")[0])
        case r.CorrectSelector():
            return _NODE_AFFINITY
        case r.CorrectName(change=change) if change.what == r.RESOURCE:
            return _request(pod, change.old)
        case r.CorrectName(change=change) if change.what == r.TOLERATION:
            return _TOLERATIONS
        case r.CorrectName(change=change) if change.what == r.TOPOLOGY_KEY:
            return _rule(pod, change.of, change.old)
        case r.SearchNamespace(change=change):
            return _rule(pod, _TOGETHER, change.topology_key)
        case r.HonorPolicy(change=change):
            return _rule(pod, _SPREAD, change.topology_key)
        case r.RelaxRule(change=change):
            return _rule(pod, change.rule, change.topology_key)
        case r.Together(changes=changes):
            return _of_remedy(changes[0], pod)
        case _:
            return ()


def _request(pod: Pod, resource: str) -> Field:
    container = largest_requester(pod, resource)
    return () if container is None else _container(pod, container.name, ("resources", "requests", resource))


def _container(pod: Pod, name: str, below: Field) -> Field:
    if not name:
        return ("spec", *below)
    return next(((*field, *below) for field, container in _containers(pod) if container.name == name), ())


def _containers(pod: Pod) -> Iterator[tuple[Field, Container]]:
    for kind, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        yield from ((("spec", kind, index), container) for index, container in enumerate(containers))


def _host_port(pod: Pod, number: int) -> Field:
    ports = ((field, *entry) for field, container in _containers(pod) for entry in enumerate(container.ports))
    return next(((*field, "ports", index) for field, index, port in ports if port.host_port == number), ())


def _label(pod: Pod, key: str) -> Field:
    return ("spec", "nodeSelector", key) if key in pod.spec.node_selector else _NODE_AFFINITY


def _rule(pod: Pod, rule: str, topology_key: str) -> Field:
    field: Field = ("spec", rule)
    keys = [constraint.topology_key for constraint in pod.spec.topology_spread_constraints]
    if rule != _SPREAD:
        field, affinity = ("spec", "affinity", rule, REQUIRED), pod.spec.affinity or Affinity()
        rules = affinity.pod_affinity if rule == _TOGETHER else affinity.pod_anti_affinity
        terms = () if rules is None else rules.required_during_scheduling_ignored_during_execution
        keys = [term.topology_key for term in terms]
    return (*field, keys.index(topology_key)) if topology_key in keys else ()


def _volume(pod: Pod, claim: str) -> Field:
    name = claim.rpartition("/")[2]
    for index, volume in enumerate(pod.spec.volumes):
        if claim_name(pod, volume) == name:
            below: Field = () if volume.persistent_volume_claim is None else ("persistentVolumeClaim", "claimName")
            return ("spec", "volumes", index, *below)
    return ()


def _bound_volume(pod: Pod, volume_name: str, listers: Listers) -> Field:
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        claim = None if name is None else listers.persistent_volume_claims.get((pod.metadata.namespace, name))
        if claim is not None and claim.spec.volume_name == volume_name:
            return _volume(pod, claim.metadata.name)
    return ()
