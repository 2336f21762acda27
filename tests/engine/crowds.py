"""Random pods and clusters, with plain models that recount everything."""

import random

from hypothesis import strategies as st

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.labels import selector_from, selector_from_map
from kplan.api.meta import LabelSelector
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.matching import PodMatch
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import NONZERO
from kplan.engine.terms import pod_terms
from kplan.rules.pod_info import PodInfo

NAMESPACES = ("default", "blue", "red")
APPS = ("web", "db", "cache")
RESOURCES = ("cpu", "memory", "example.com/gpu")

LABEL_SETS = [
    {},
    *({"app": app} for app in APPS),
    *({"tier": tier} for tier in APPS),
    *({"app": app, "tier": tier} for app in APPS for tier in APPS),
]
LABELS = st.sampled_from(LABEL_SETS)


def _term(draw):
    return {"labelSelector": {"matchLabels": {"app": draw.choice(APPS)}}, "topologyKey": draw.choice(["zone", "host"])}


def _pod(draw):
    amounts = {"cpu": ["1m", "250m", "2", "0"], "memory": ["1Ki", "3M", "1G"], "example.com/gpu": ["1", "2"]}
    requests = {name: draw.choice(texts) for name, texts in amounts.items() if draw.random() < 0.5}
    ports = [{"containerPort": 1, "hostPort": draw.choice([80, 81])}] if draw.random() < 0.3 else []
    spec = {
        "priority": draw.randint(-1, 2),
        "containers": [{"name": "main", "resources": {"requests": requests}, "ports": ports}],
    }
    if draw.random() < 0.4:
        weighted = [{"weight": draw.choice([1, 9]), "podAffinityTerm": _term(draw)} for _ in range(draw.randint(0, 1))]
        spec["affinity"] = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_term(draw) for _ in range(draw.randint(0, 2))],
                "preferredDuringSchedulingIgnoredDuringExecution": weighted,
            }
        }
    metadata = {"name": "pod", "namespace": draw.choice(NAMESPACES), "labels": draw.choice(LABEL_SETS)}
    if draw.random() < 0.25:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    status = {"startTime": f"2026-03-01T0{draw.randint(0, 9)}:00:00Z"} if draw.random() < 0.5 else {}
    return PodInfo(convert({"metadata": metadata, "spec": spec, "status": status}, Pod))


_draw = random.Random(1)
POD_POOL = [_pod(_draw) for _ in range(80)]
PODS = st.sampled_from(POD_POOL)
"""Pods with requests, labels, host ports, inter-pod terms, a priority, some on their way out."""

SELECTORS = st.one_of(
    st.builds(lambda app: selector_from_map({"app": app}), st.sampled_from(APPS)),
    st.sampled_from(
        [
            selector_from(None),
            selector_from(LabelSelector()),
            selector_from_map({"app": "web", "tier": "db"}),
            selector_from(
                convert(
                    {
                        "matchExpressions": [
                            {"key": "app", "operator": "In", "values": ["cache", "nobody", "web"]},
                            {"key": "tier", "operator": "Exists"},
                        ]
                    },
                    LabelSelector,
                )
            ),
            selector_from(
                convert({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, LabelSelector)
            ),
            selector_from(convert({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, LabelSelector)),
        ]
    ),
)

MATCHES = st.builds(
    lambda clauses, skip: PodMatch(tuple(clauses), skip),
    st.lists(
        st.tuples(st.one_of(st.none(), st.frozensets(st.sampled_from([*NAMESPACES, "nobody"]), max_size=3)), SELECTORS),
        max_size=2,
    ),
    st.booleans(),
)


def is_meant(match, info):
    """Tell whether a pod is meant, clause by clause."""
    if match.skip_terminating and info.pod.metadata.deletion_timestamp is not None:
        return False
    return all(
        (namespaces is None or info.pod.metadata.namespace in namespaces) and selector.matches(info.pod.metadata.labels)
        for namespaces, selector in match.clauses
    )


def node_table(n_nodes):
    """Make nodes n0, n1, …"""
    return NodeTable([convert({"metadata": {"name": f"n{row}"}}, Node) for row in range(n_nodes)])


STEPS = st.lists(st.tuples(PODS, st.integers(0, 3), st.integers(0, 2)), max_size=14)
"""Steps of `change`: a pod, a number that picks a node or a pod, and what happens."""


def change(cluster, step):
    """Add a pod and perhaps bind it, or take one off its node."""
    info, number, what = step
    bound = [pod for pod, row in enumerate(cluster.node_of) if row != NOWHERE]
    if what == 0 and bound:
        cluster.unbind(bound[number % len(bound)])
    else:
        pod = cluster.add_pod(info)
        if what == 1 or number:
            cluster.bind(pod, number % len(cluster))


def built(n_nodes, steps):
    """Make a cluster by steps."""
    cluster = Cluster(node_table(n_nodes))
    for step in steps:
        change(cluster, step)
    return cluster


def read(cluster):
    """Read all sums of a cluster, in a form that compares."""
    return {
        "node of": [list(cluster.node_of), cluster.node_rows.tolist()],
        "pods on": [sorted(pods) for pods in cluster.pods_on],
        "count": cluster.pod_count.tolist(),
        "nonzero": [cluster.requested(key).tolist() for key in NONZERO.values()],
        "requested": {name: cluster.requested(name).tolist() for name in RESOURCES},
        "terms": {
            (group.kind, group.term, group.weight): dict(group.holders)
            for group in cluster.terms.groups
            if group.holders
        },
    }


def match_counts(cluster, match):
    """Return how many matching pods run on each node."""
    return cluster.domain_counts(match, cluster.nodes.all_rows, len(cluster)).counts


def matching(table, match):
    """Return whether each pod of a table matches."""
    rows = table.rows_matching(match).tolist()
    return [row in rows for row in range(len(table))]


def recounted(cluster):
    """Read the same from where each pod is, pod by pod."""
    infos = cluster.pods.infos
    pods_on = [[pod for pod, where in enumerate(cluster.node_of) if where == row] for row in range(len(cluster))]
    terms = {}
    for row, here in enumerate(pods_on):
        for pod in here:
            for key in pod_terms(infos[pod].affinity):
                holders = terms.setdefault(key, {})
                holders[row] = holders.get(row, 0) + 1
    return {
        "node of": [list(cluster.node_of), cluster.node_rows.tolist()],
        "pods on": pods_on,
        "count": [len(here) for here in pods_on],
        "nonzero": [
            [sum(infos[pod].resources.nonzero_cpu for pod in here) for here in pods_on],
            [sum(infos[pod].resources.nonzero_memory for pod in here) for here in pods_on],
        ],
        "requested": {
            name: [sum(infos[pod].resources.requests.get(name, 0) for pod in here) for here in pods_on]
            for name in RESOURCES
        },
        "terms": terms,
    }
