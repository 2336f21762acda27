"""Pods and workloads for tests of validation: good ones, with something else said where a test wants it."""

import copy
from typing import Any

from kplan.admission.defaults import default_pod
from kplan.admission.validation.pods import pod_errors
from tests.objects import Object


def container(**fields: Any) -> Object:
    return {"name": "c", "image": "x", "resources": {}, **fields}


def errors_of_spec(spec: Object | None = None, **metadata: Any) -> list[str]:
    """Return what is invalid in a pod whose spec says this besides one good container."""
    whole = {"containers": [container()], **copy.deepcopy(spec or {})}
    pod = {"metadata": {"name": "p", "namespace": "default", **metadata}, "spec": whole}
    return [str(error) for error in pod_errors(default_pod(pod))]
