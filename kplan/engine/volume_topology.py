"""Nodes from which a volume can be reached, as columns over all nodes.

The columns are not cached: every local volume has an affinity of its own, and a column per volume would take too much
memory.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kplan.api.affinity import TopologySelectorTerm, VolumeNodeAffinity
from kplan.api.labels import Requirement
from kplan.api.nodeselector import compile_node_selector
from kplan.engine.arrays import BoolArray
from kplan.engine.node_matching import match_requirement, select_labels
from kplan.engine.node_table import NodeTable


def reachable(nodes: NodeTable, affinity: VolumeNodeAffinity | None) -> BoolArray:
    """Return the nodes from which a volume can be reached, bool of shape (n_nodes,); a new array.

    Notes
    -----
    Upstream matches a node object with nothing but labels, so fields such as ``metadata.name`` exclude no node; a term
    that cannot be compiled matches none. Source: component-helpers storage/volume CheckNodeAffinity.
    """
    if affinity is None or affinity.required is None:
        return np.ones(len(nodes), np.bool_)
    is_reachable = np.zeros(len(nodes), np.bool_)
    for term in compile_node_selector(affinity.required).terms:
        if term.errors:
            continue
        if term.labels is None:
            is_reachable[:] = True
        else:
            is_reachable |= select_labels(nodes, term.labels)
    return is_reachable


def allowed(nodes: NodeTable, topologies: Iterable[TopologySelectorTerm]) -> BoolArray:
    """Return the nodes that ``allowedTopologies`` allow, bool of shape (n_nodes,); a new array.

    Without terms every node is allowed; a term without expressions allows none. Source: component-helpers
    scheduling/corev1 MatchTopologySelectorTerms.
    """
    topologies = tuple(topologies)
    is_allowed = np.full(len(nodes), not topologies, np.bool_)
    for term in topologies:
        if term.match_label_expressions:
            is_match = np.ones(len(nodes), np.bool_)
            for expression in term.match_label_expressions:
                is_match &= match_requirement(nodes, Requirement(expression.key, "In", expression.values))
            is_allowed |= is_match
    return is_allowed
