"""LimitRanger: default requests and limits in a namespace, and their bounds (plugin/pkg/admission/limitranger)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kplan.admission.rejection import Rejection
from kplan.api.core import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, PodSpec
from kplan.api.meta import ResourceList
from kplan.api.pod_totals import LIMITS, REQUESTS, container_totals, parsed
from kplan.api.quantity import MAX_INT64, Quantity

_MAX_MILLI_VALUE = MAX_INT64 // 1000
_POD_LEVEL = ("cpu", "memory")
_ABSENT = Quantity(0)

Amounts = Mapping[str, Quantity]


def apply_defaults(pod: Pod, limit_range: LimitRange) -> Pod:
    """Return the pod with default requests and limits for containers without their own."""
    requests: ResourceList = {}
    limits: ResourceList = {}
    for item in limit_range.spec.limits:
        if item.type == "Container":
            requests |= item.default_request
            limits |= item.default
    if not requests and not limits:
        return pod
    containers = _with_defaults(pod.spec.containers, requests, limits)
    init_containers = _with_defaults(pod.spec.init_containers, requests, limits)
    return replace(pod, spec=replace(pod.spec, containers=containers, init_containers=init_containers))


def _with_defaults(
    containers: Sequence[Container], requests: ResourceList, limits: ResourceList
) -> tuple[Container, ...]:
    return tuple(
        replace(
            container,
            resources=replace(
                container.resources,
                requests={**requests, **container.resources.requests},
                limits={**limits, **container.resources.limits},
            ),
        )
        for container in containers
    )


def check(pod: Pod, limit_ranges: Iterable[LimitRange]) -> None:
    """Check a pod against the bounds of its namespace.

    Raises Rejection with all violations of the first limit range that has any.
    """
    for limit_range in of_namespace(pod, limit_ranges):
        _refuse(problem for item in limit_range.spec.limits for problem in _problems(item, pod.spec))


def check_claim(claim: PersistentVolumeClaim, limit_ranges: Iterable[LimitRange]) -> None:
    """Check a claim's requests against the bounds of its namespace; raises Rejection as `check`."""
    requests = parsed(claim.spec.resources.requests)
    for limit_range in of_namespace(claim, limit_ranges):
        items = [item for item in limit_range.spec.limits if item.type == "PersistentVolumeClaim"]
        _refuse(problem for item in items for problem in _beyond(item, [("request", requests)]))


def _beyond(item: LimitRangeItem, sides: list[tuple[str, Amounts]]) -> Iterator[str]:
    """Yield what is outside the bounds; a minimum wants a request first, and a maximum a limit."""
    for name, bound in sorted(parsed(item.min).items()):
        yield from _outside(item.type, name, bound, -1, sides)
    for name, bound in sorted(parsed(item.max).items()):
        yield from _outside(item.type, name, bound, 1, sides[::-1])


def _refuse(problems: Iterable[str]) -> None:
    distinct = list(dict.fromkeys(problems))
    if distinct:
        raise Rejection(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")


def of_namespace(obj: Pod | PersistentVolumeClaim, limit_ranges: Iterable[LimitRange]) -> list[LimitRange]:
    return [entry for entry in limit_ranges if entry.metadata.namespace == obj.metadata.namespace]


def _problems(item: LimitRangeItem, spec: PodSpec) -> Iterator[str]:
    if item.type == "Container":
        for container in (*spec.containers, *spec.init_containers):
            yield from _violations(item, parsed(container.resources.requests), parsed(container.resources.limits))
    elif item.type == "Pod":
        requests = container_totals(spec, REQUESTS)
        limits = container_totals(spec, LIMITS)
        if spec.resources is not None:
            requests |= {k: v for k, v in parsed(spec.resources.requests).items() if k in _POD_LEVEL}
            limits |= {k: v for k, v in parsed(spec.resources.limits).items() if k in _POD_LEVEL}
        yield from _violations(item, requests, limits)


def _violations(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield what is outside the bounds; resources by name, as upstream iterates over them in random order."""
    yield from _beyond(item, [("request", requests), ("limit", limits)])
    for name, bound in sorted(parsed(item.max_limit_request_ratio).items()):
        if problem := _ratio_above(item.type, name, bound, requests, limits):
            yield problem


def _outside(kind: str, name: str, bound: Quantity, sign: int, sides: list[tuple[str, Amounts]]) -> list[str]:
    """Return how an amount violates a bound: a maximum where `sign` is 1, a minimum where it is -1.

    Parameters
    ----------
    sides : ``request`` or ``limit``, with the amounts; the first has to state the resource
    """
    what = f"{'maximum' if sign > 0 else 'minimum'} {name} usage per {kind} is {bound}"
    amounts = dict(sides)
    of_side = [amounts.get(side, {}).get(name, _ABSENT) for side in ("request", "limit")]
    request, limit, most = _comparable(of_side[0], of_side[1], bound)
    comparable = {"request": request, "limit": limit}
    if name not in sides[0][1]:
        return [f"{what}.  No {sides[0][0]} is specified"]
    outside = [side for side, stated in sides if name in stated and comparable[side] * sign > most * sign]
    return [f"{what}, but {outside[0]} is {amounts[outside[0]][name]}"] if outside else []


def _ratio_above(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str | None:
    request, limit, _ = _comparable(requests.get(name, _ABSENT), limits.get(name, _ABSENT), bound)
    what = f"{name} max limit to request ratio per {kind} is {bound}"
    if request == 0:
        return f"{what}, but no request is specified or request is 0"
    if limit == 0:
        return f"{what}, but no limit is specified or limit is 0"
    ratio = limit / request
    if ratio * 1000 > bound.milli_value():
        return f"{what}, but provided ratio is {ratio:f}"
    return None


def _comparable(request: Quantity, limit: Quantity, bound: Quantity) -> tuple[int, int, int]:
    """Return the three amounts in thousandths where they are small enough (upstream requestLimitEnforcedValues)."""
    amounts = (request, limit, bound)
    if all(amount.value() <= _MAX_MILLI_VALUE for amount in amounts):
        return request.milli_value(), limit.milli_value(), bound.milli_value()
    return request.value(), limit.value(), bound.value()
