"""What an API server refuses in requests and limits (pkg/apis/core/validation ValidateResourceRequirements, v1.36)."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.api.base import QuantityLike, ResourceList
from kplan.api.core import PodSpec, ResourceRequirements
from kplan.api.names import label_key_problems
from kplan.api.quantity import MAX_INT64, InvalidQuantity, Quantity, parse
from kplan.errors import Problem
from kplan.snapshot.podresources import HUGE_PAGES, container_totals, is_pod_level_resource

__all__ = ["resource_problems"]

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_NANOS = 10**9
_MOST_NANOS = MAX_INT64 * _NANOS
#: The scheduler counts cpu in thousandths.
_MOST_CPU_NANOS = MAX_INT64 // 1000 * _NANOS


def resource_problems(spec: PodSpec, path: str) -> Iterator[Problem]:
    """Yield what is wrong with the resources of all containers and of the pod as a whole."""
    found_any = False
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            for problem in _requirement_problems(container.resources, f"{path}.{field}[{index}].resources"):
                found_any = True
                yield problem
    if spec.resources is None:
        return
    place = f"{path}.resources"
    for problem in _requirement_problems(spec.resources, place):
        found_any = True
        yield problem
    for kind, amounts in (("requests", spec.resources.requests), ("limits", spec.resources.limits)):
        for name in amounts:
            if not is_pod_level_resource(name):
                message = f"{name} cannot be asked for by a pod as a whole; only cpu, memory and hugepages-* can"
                yield Problem(message, json_path=f"{place}.{kind}")
    if not found_any:
        yield from _outgrown(spec, place)


def _outgrown(spec: PodSpec, place: str) -> Iterator[Problem]:
    """Yield pod-level requests that are below what the containers ask for together."""
    if spec.resources is None:
        return
    totals = container_totals(spec, lambda container: container.resources.requests)
    for name, amount in spec.resources.requests.items():
        if name in totals and totals[name].nanos > parse(amount).nanos:
            message = f"{amount} is less than the {totals[name]} that its containers request together"
            yield Problem(message, json_path=f"{place}.requests.{name}")


def _requirement_problems(resources: ResourceRequirements, path: str) -> Iterator[Problem]:
    requests = dict(_amounts(resources.requests, f"{path}.requests"))
    limits = dict(_amounts(resources.limits, f"{path}.limits"))
    for kind, amounts in (("requests", requests), ("limits", limits)):
        for name, amount in amounts.items():
            if isinstance(amount, Problem):
                yield amount
            else:
                written = getattr(resources, kind)[name]
                yield from _amount_problems(name, written, amount, f"{path}.{kind}")
    for name, request in requests.items():
        limit = limits.get(name)
        if isinstance(request, Problem) or isinstance(limit, Problem):
            continue
        yield from _pair_problems(name, request, limit, f"{path}.requests")
    names = requests.keys() | limits.keys()
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"} and ".containers[" in path:
        yield Problem("huge pages need a request for cpu or memory beside them", json_path=path)


def _amounts(resources: ResourceList, path: str) -> Iterator[tuple[str, Quantity | Problem]]:
    for name, amount in resources.items():
        try:
            yield name, parse(amount)
        except InvalidQuantity:
            hint = 'a quantity is a number with an optional suffix, such as "500m", "2", "1.5Gi" or "2e3"'
            yield name, Problem(f"{amount!r} is not a quantity", json_path=_at(path, name), hint=hint)


def _amount_problems(name: str, written: QuantityLike, amount: Quantity, path: str) -> Iterator[Problem]:
    place = _at(path, name)
    for text in label_key_problems(name):
        yield Problem(f'"{name}": {text}', json_path=path)
    if "/" not in name and name not in _STANDARD and not name.startswith(HUGE_PAGES):
        hint = "resources of a device plugin have a domain, such as nvidia.com/gpu"
        yield Problem(f'"{name}" is not a resource that containers can ask for', json_path=path, hint=hint)
    if amount.nanos < 0:
        yield Problem(f"{amount} is negative", json_path=place, hint="amounts start at 0")
    if amount.nanos > (_MOST_CPU_NANOS if name == "cpu" else _MOST_NANOS):
        hint = "check the suffix: m is a thousandth, M is a million, E is 10^18"
        yield Problem(f"{str(written)[:60]!r} is more than Kubernetes can count", json_path=place, hint=hint)
    if _is_countable(name) and amount.nanos % _NANOS:
        yield Problem(f"{amount} is not a whole number, as {name} needs", json_path=place)


def _pair_problems(name: str, request: Quantity, limit: Quantity | None, path: str) -> Iterator[Problem]:
    place = _at(path, name)
    is_exact = _is_countable(name) or name.startswith(HUGE_PAGES)
    if limit is None:
        if is_exact:
            message = f"a limit must be set, too, since {name} cannot be overcommitted"
            yield Problem(message, json_path=place, hint="set the limit alone: the request then equals it")
    elif is_exact and request.nanos != limit.nanos:
        yield Problem(
            f"{request} must equal the limit of {limit}, since {name} cannot be overcommitted", json_path=place
        )
    elif request.nanos > limit.nanos:
        yield Problem(f"{request} is more than the limit of {limit}", json_path=place)


def _is_countable(name: str) -> bool:
    """Tell whether the resource comes in pieces: an extended resource."""
    return "/" in name and "kubernetes.io/" not in name


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isalnum() else f"{path}[{name!r}]"
