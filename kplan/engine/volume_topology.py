"""From which nodes a volume can be reached, as columns over all nodes.

Nothing is kept here: every local volume has an affinity of its own, and a column each would not stay small.
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
    """Return from which nodes a volume can be reached, bool of shape (n_nodes,); a new array.

    Notes
    -----
    Upstream looks at a node that has labels and nothing else, so fields such as ``metadata.name`` exclude no node; a
    term that cannot be compiled takes none. Source: component-helpers storage/volume CheckNodeAffinity.
    """
    if affinity is None or affinity.required is None:
        return np.ones(len(nodes), np.bool_)
    reached = np.zeros(len(nodes), np.bool_)
    for term in compile_node_selector(affinity.required).terms:
        if term.errors:
            continue
        if term.labels is None:
            reached[:] = True
        else:
            reached |= select_labels(nodes, term.labels)
    return reached


def allowed(nodes: NodeTable, topologies: Iterable[TopologySelectorTerm]) -> BoolArray:
    """Return which nodes ``allowedTopologies`` take, bool of shape (n_nodes,); a new array.

    Without terms every node is allowed; a term without expressions allows none. Source: component-helpers
    scheduling/corev1 MatchTopologySelectorTerms.
    """
    topologies = tuple(topologies)
    taken = np.full(len(nodes), not topologies, np.bool_)
    for term in topologies:
        if term.match_label_expressions:
            holds = np.ones(len(nodes), np.bool_)
            for expression in term.match_label_expressions:
                holds &= match_requirement(nodes, Requirement(expression.key, "In", expression.values))
            taken |= holds
    return taken
