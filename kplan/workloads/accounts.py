"""Service accounts that pods name: whether they exist is unknown where the snapshot holds none.

Upstream: plugin/pkg/admission/serviceaccount refuses pods whose account is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kplan.api.references import object_name
from kplan.documents.base import InputWarning

_DEFAULT = "default"
"""The account that every namespace gets."""


def account_warnings(pods: Iterable[tuple[str, dict[str, Any]]], created: set[str]) -> Iterator[InputWarning]:
    """Yield a warning for each service account that pods name and that the same manifests do not create.

    Parameters
    ----------
    pods : namespace and spec of each pod
    created : NAMESPACE/NAME of the accounts that the same manifests create
    """
    known = set(created)
    for namespace, spec in pods:
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or _DEFAULT
        if name == _DEFAULT or f"{namespace}/{name}" in known:
            continue
        known.add(f"{namespace}/{name}")
        message = "the snapshot holds no service accounts; the API server refuses pods that name one that is not there"
        yield InputWarning("UnknownServiceAccount", object_name("ServiceAccount", namespace, name), message)
