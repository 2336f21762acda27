"""Hostile documents: questions, checks, configurations, kubeconfigs and saved reports."""

import copy
from collections.abc import Callable
from typing import Any

from msgspec import inspect

from kplan.catalogue import QUESTIONS
from kplan.config.model import KubeSchedulerConfiguration
from kplan.questions.base import question_type
from tests.fuzz.objects import NAMES, NUMBERS, TEXTS, WRONG, Maker

_PLUGINS = ["NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "DefaultPreemption", "VolumeBinding", "Other"]
_FEW = 3
_CHECKS: list[dict[str, Any]] = [
    {"name": "a", "drain": {"each": "node"}, "expect": {"blocked": 0}},
    {"name": "b", "drain": {"nodes": ["node-1"], "how": "one-by-one"}},
    {"name": "c", "lose": {"zones": 1}, "expect": {"pending": 1}},
    {"name": "d", "headroom": {"selector": "app=web", "replicas": 2}},
    {"name": "e", "surge": "all", "expect": {"ready": {"min": "80%"}}},
    {"name": "f", "autoscalersAtMax": "together"},
    {"name": "g", "budgets": "all"},
    {"name": "h", "poolRoom": "all", "expect": {"within": "20m"}},
    {"name": "i", "question": {"kind": "PlanQuestion"}, "expect": {"placed": "all", "newNodes": {"max": 1}}},
]


def question(maker: Maker, depth: int = 0) -> dict[str, Any]:
    """Return a question of any kind, most of it right."""
    kind = maker.random.choice(list(QUESTIONS))
    info = inspect.type_info(question_type(kind))
    assert isinstance(info, inspect.StructType)
    content: dict[str, Any] = {"apiVersion": "kplan/v1", "kind": kind}
    for field in info.fields:
        if field.name == "api_version" or not (field.required or maker.random.random() < 0.3):
            continue
        if field.name in ("question", "questions") and depth < _FEW:
            inner = question(maker, depth + 1)
            content[field.encode_name] = inner if field.name == "question" else [inner]
        elif field.name == "manifests":
            content[field.encode_name] = maker.objects()[:_FEW]
        else:
            content[field.encode_name] = maker.value(field.type, field.name)
    return content


def manifests(maker: Maker) -> list[dict[str, Any]]:
    """Return manifests: workloads that are right but for a few values, or objects of any kind."""
    if maker.random.random() < 0.3:
        return maker.objects()[:2]
    chosen = maker.random.sample(_WORKLOADS, 2)
    return [mutated(maker, make(maker.random.choice(NAMES)), maker.random.choice([0, 0.01, 0.03])) for make in chosen]


def _workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], "nodeSelector": {"a": "b"}}}
    version = "batch/v1" if kind.endswith("Job") else "apps/v1"
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": name}}
    written = {"template": template, **spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": written}


_DATA = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
_WORKLOADS: list[Callable[[str], dict[str, Any]]] = [
    lambda name: _workload("Deployment", name, replicas=3, strategy={"rollingUpdate": {"maxSurge": "25%"}}),
    lambda name: _workload("Deployment", name, replicas=2, paused=True),
    lambda name: _workload("StatefulSet", name, replicas=2, serviceName=name, volumeClaimTemplates=[_DATA]),
    lambda name: _workload("DaemonSet", name, updateStrategy={"rollingUpdate": {"maxUnavailable": 1}}),
    lambda name: _workload("Job", name, completions=3, parallelism=2, completionMode="Indexed", backoffLimit=1),
]


def checks(maker: Maker) -> dict[str, Any]:
    """Return checks."""
    return mutated(maker, {"apiVersion": "kplan/v1", "kind": "Checks", "checks": maker.random.choices(_CHECKS, k=_FEW)})


def configuration(maker: Maker) -> dict[str, Any]:
    """Return a scheduler configuration, with arguments for plugins."""
    content = maker.value(inspect.type_info(KubeSchedulerConfiguration), "")
    content = content if isinstance(content, dict) else {}
    arguments = [
        {"name": name, "args": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{name}Args"}}
        for name in maker.random.sample(_PLUGINS, 2)
    ]
    for entry in arguments if maker.random.random() < 0.5 else ():
        entry["args"] |= {maker.random.choice(TEXTS): maker.random.choice(WRONG), "defaultingType": "List"}
    profile = {"schedulerName": maker.random.choice(NAMES), "pluginConfig": arguments}
    return {
        "percentageOfNodesToScore": maker.random.choice(NUMBERS if maker.random.random() < 0.1 else NUMBERS[:5]),
        "profiles": [profile],
        **(content if maker.random.random() < 0.3 else {}),
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }


def mutated(maker: Maker, content: Any, share: float = 0.03) -> Any:
    """Return a document with some of its values replaced by odd ones, or left out."""
    chance = maker.random.random()
    if chance < share:
        return copy.deepcopy(maker.random.choice([*WRONG, *TEXTS, *NUMBERS]))
    if isinstance(content, dict):
        kept = {key: item for key, item in content.items() if maker.random.random() >= share / 2}
        return {key: mutated(maker, item, share) for key, item in kept.items()}
    if isinstance(content, list):
        return [mutated(maker, item, share) for item in content]
    return content
