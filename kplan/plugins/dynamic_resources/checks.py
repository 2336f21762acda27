"""Whether the scheduler can do anything with a claim at all: its device classes and node selector are checked first."""

from __future__ import annotations

from collections.abc import Container

from kplan.api.nodeselector import compile_node_selector
from kplan.api.resource import ResourceClaim
from kplan.framework.interface import Status


def rejection_of(claim: ResourceClaim, device_classes: Container[str]) -> Status | None:
    """Return why a pod with this claim is rejected before any node is looked at; None where it is not.

    Parameters
    ----------
    device_classes : the names of the cluster's device classes
    """
    if claim.status.allocation is None:
        return _check_classes(claim, device_classes)
    errors = _selector_errors(claim)
    return Status.error(errors) if errors else None


def _check_classes(claim: ResourceClaim, known: Container[str]) -> Status | None:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            classes = [(request.name, request.exactly.device_class_name)]
        elif request.first_available:
            classes = [
                (f"{request.name}/{alternative.name}", alternative.device_class_name)
                for alternative in request.first_available
            ]
        else:
            name = claim.metadata.key
            return Status.unresolvable(f"resource claim {name}, request {request.name}: unknown request type")
        for name, class_name in classes:
            if not class_name:
                return Status.error(f"request {name}: unsupported request type")
            if class_name not in known:
                return Status.unresolvable(f"request {name}: device class {class_name} does not exist")
    return None


def _selector_errors(claim: ResourceClaim) -> str:
    """Return the errors of the node selector of an allocated claim, or empty."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return ""
    errors = compile_node_selector(allocation.node_selector).errors
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
