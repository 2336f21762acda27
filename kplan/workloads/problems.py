"""Errors in fields of manifests as problems with a location and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kplan.admission.decoding import Fault
from kplan.admission.validation.errors import FieldError
from kplan.errors import Problem
from kplan.reading import Item


def field_problem(item: Item, error: FieldError, path: str) -> Problem:
    """Return a validation error of the API server as a problem in the manifest's file."""
    return item.locate(Problem(error.body, json_path=f"$.{path}", hint=_explain(item.kind, path)))


def fault_hint(fault: Fault, kind: str) -> str:
    """Return a hint about a field that does not decode."""
    if fault.is_strict:
        return "leave it out, or pass over such fields with --validate ignore"
    if "quantit" in fault.message:
        return 'a quantity is a number with an optional suffix, such as "500m", "2", "1.5Gi" or "2e3"'
    return _explain(kind, fault.path)


def other_namespace(item: Item, namespace: str, wanted: str) -> Iterator[Problem]:
    """Yield what kubectl says of an object in another namespace than the one that its command names.

    Upstream: staging/src/k8s.io/cli-runtime/pkg/resource/visitor.go RequireNamespace.
    """
    if namespace != wanted:
        message = f'the namespace from the provided object "{namespace}" does not match the namespace "{wanted}"'
        hint = f"pass --namespace={namespace}, or leave --namespace out: then each object goes where it says"
        yield item.locate(Problem(message, json_path="$.metadata.namespace", hint=hint))


def _explain(kind: str, path: str) -> str:
    """Return the kubectl command that describes the field; indices and map keys are left out of its path."""
    fields = re.sub(r"\[[^\]]*\]|\.?\{.*", "", path)
    return f"kubectl explain {kind.lower()}.{fields} describes this field"
