"""The selector of default constraints: the pods of the pod's services and controller.

Upstream: plugins/helper/spread.go.
"""

from __future__ import annotations

from kplan.api.labels import EVERYTHING, Selector, selector_from_map, valid_selector
from kplan.api.meta import LabelSelector
from kplan.framework.listers import Listers
from kplan.rules.pod_info import PodInfo


def default_selector(pod: PodInfo, listers: Listers) -> Selector:
    """Return the selectors of the pod's services and controller, joined; empty when there are none."""
    labels: dict[str, str] = {}
    for service in listers.services_by_namespace.get(pod.namespace, ()):
        selector_labels = service.spec.selector
        if all(pod.labels.get(key) == value for key, value in selector_labels.items()):
            labels.update(selector_labels)
    if pod.controller is None:
        return selector_from_map(labels) if labels else EVERYTHING
    api_version, kind, name = pod.controller
    key = (pod.namespace, name)
    if (api_version, kind) == ("v1", "ReplicationController"):
        controller = listers.replication_controllers.get(key)
        return selector_from_map(labels | controller.spec.selector if controller is not None else labels)
    selector = selector_from_map(labels)
    if (api_version, kind) == ("apps/v1", "ReplicaSet"):
        replica_set = listers.replica_sets.get(key)
        return selector if replica_set is None else _joined(selector, replica_set.spec.selector)
    if (api_version, kind) == ("apps/v1", "StatefulSet"):
        stateful_set = listers.stateful_sets.get(key)
        return selector if stateful_set is None else _joined(selector, stateful_set.spec.selector)
    return selector


def _joined(selector: Selector, label_selector: LabelSelector | None) -> Selector:
    """Return a selector with the requirements of a controller's; one that is invalid or matches nothing adds none."""
    return selector.plus(*valid_selector(label_selector).requirements)
