"""Pod groups. Upstream: pkg/apis/scheduling/v1alpha2 declarative validation, ValidatePodGroup."""

from __future__ import annotations

from kplan.admission.validation.checks import Check, Object, at_most_items, field, in_list, must, needed, one_of
from kplan.admission.validation.errors import Errors, invalid
from kplan.admission.validation.metadata import metadata, of_kind
from kplan.admission.validation.texts import KEY, dns_subdomain


def _one_member(*names: str) -> Check:
    """Return the check that exactly one of some fields is set. Upstream: apimachinery api/validate/union.go."""
    all_names = ", ".join(f"`{name}`" for name in names)

    def check(value: Object, path: str) -> Errors:
        there = [name for name in names if value.get(name) is not None]
        if not there:
            yield invalid(path, "", f"must specify one of: {all_names}")
        elif len(there) > 1:
            shown = ", ".join(f"`{name}`" for name in there)
            yield invalid(path, f"{{{shown}}}", f"must specify exactly one of: {all_names}")

    return check


def _limited(most: int, *checks: Check) -> Check:
    """Return the checks of the items of a list, which are made only if it is not too long."""
    is_short, of_items = at_most_items(most), in_list(*checks)

    def check(listed: list[Object], path: str) -> Errors:
        yield from is_short(listed, path) or of_items(listed, path)

    return check


_topology_errors = _limited(1, needed("key", KEY))
_claims_errors = _limited(4, _one_member("resourceClaimName", "resourceClaimTemplateName"))

pod_group_errors = of_kind(
    metadata(dns_subdomain),
    field(
        "schedulingPolicy",
        _one_member("basic", "gang"),
        field("gang", needed("minCount", must(lambda n: n >= 1, "must be greater than or equal to 1"))),
        absent={},
    ),
    field("schedulingConstraints", field("topology", _topology_errors)),
    field("resourceClaims", _claims_errors),
    field("disruptionMode", one_of("Pod", "PodGroup")),
)
