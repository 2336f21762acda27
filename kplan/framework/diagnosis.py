"""The filters' verdicts node by node, and the message that kube-scheduler makes of them.

Upstream: pkg/scheduler/framework/types.go Diagnosis, FitError.Error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.framework.results import Status, StatusCode


class NodeStatus(msgspec.Struct, frozen=True):
    """Why one node was rejected."""

    code: Code
    plugin: str  #: the first plugin that rejects the node; empty when an extender does, or several plugins together
    reasons: tuple[Reason, ...]  #: that plugin's reasons, in its order
    position: int = 0  #: the node's position in the view that the reasons come from; their details need it

    @staticmethod
    def of(plugin: str, verdicts: Verdicts, position: int) -> NodeStatus:
        return NodeStatus(verdicts.code_at(position), plugin, tuple(verdicts.reasons_at(position)), position)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(reason.text for reason in self.reasons)

    @property
    def error(self) -> str:
        """The message for a filter plugin that failed. Upstream: RunFilterPlugins."""
        text = ", ".join(self.texts)
        return f'running "{self.plugin}" filter plugin: {text}' if self.plugin else text


def node_status(status: Status) -> NodeStatus:
    """Turn the rejection of a pod into that of one node."""
    helps = status.code is StatusCode.UNSCHEDULABLE
    code = Code.UNSCHEDULABLE if helps else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return NodeStatus(code, status.plugin, tuple(Reason(text, code) for text in status.reasons))


def first_rejectors(verdicts: Sequence[tuple[str, Verdicts]], n_view: int) -> Int64Array:
    """Return the index of the first verdicts that reject each position, -1 where all pass."""
    first = np.full(n_view, -1, np.int64)
    for index in reversed(range(len(verdicts))):
        verdict = verdicts[index][1]
        if verdict.reasons:  # else it rejects nothing
            first[verdict.bits != 0] = index
    return first


class FilterOutcome(msgspec.Struct, dict=True):
    """The results of PreFilter and Filter for all nodes of the cluster.

    Valid until the cluster changes: the arrays may be the runtime's own, and details are read from the live cluster.
    """

    n_nodes: int  #: nodes in the cluster
    feasible: BoolArray  #: bool array of shape (n_nodes,)
    pre_filter_status: Status | None = None  #: the rejection that kept all nodes from being filtered, or None
    rows: RowArray | None = None  #: node rows that were filtered; None for all
    #: (plugin, Verdicts over `rows`) in the order of the filters, without nominated pods
    verdicts: list[tuple[str, Verdicts]] = []
    #: node row -> status that counts instead of what `verdicts` say (nominations, extenders)
    overrides: dict[int, NodeStatus] = {}
    #: status of the nodes that no plugin gave a status of their own; None when PreFilter left none out
    absent: NodeStatus | None = None
    named_by: frozenset[str] = frozenset()  #: PreFilter plugins that named the only possible nodes
    #: runs the filters on nodes that PreFilter left out, for explanations
    filter_rows: Callable[[RowArray], list[tuple[str, Verdicts]]] | None = None
    #: bool array of shape (n_nodes,) or None; nodes that the scheduler did not look at
    not_evaluated: BoolArray | None = None
    #: how many nodes the message counts, for a pod that is tried on some of the nodes only; None for all
    n_counted: int | None = None

    @cached_property
    def filtered_rows(self) -> RowArray:
        """Row of each node that was filtered, by its position in `verdicts`."""
        return np.arange(self.n_nodes) if self.rows is None else self.rows

    @cached_property
    def first(self) -> Int64Array:
        """Index into `verdicts` of the first that rejects, -1 for none; shape (n_filtered,)."""
        return first_rejectors(self.verdicts, self.n_nodes if self.rows is None else len(self.rows))

    @cached_property
    def _rejecting(self) -> list[tuple[int, str, Verdicts]]:
        """Index, plugin and verdicts of those that are the first to reject some node."""
        n_first = np.bincount(self.first + 1, minlength=len(self.verdicts) + 1)[1:]
        return [(index, *self.verdicts[index]) for index in np.flatnonzero(n_first).tolist()]

    @cached_property
    def _position_of(self) -> dict[int, int]:
        return {} if self.rows is None else {int(row): position for position, row in enumerate(self.rows)}

    def position(self, row: int) -> int | None:
        """Return where a node stands in `verdicts`, None when it was not filtered."""
        return row if self.rows is None else self._position_of.get(row)

    def are_filtered(self, rows: RowArray) -> bool:
        return self.rows is None or bool(np.isin(rows, self.rows).all())

    def positions(self, rows: RowArray) -> RowArray:
        return rows if self.rows is None else np.searchsorted(self.rows, rows)

    def keep_rejection(self, row: int, status: NodeStatus) -> None:
        """Keep why a node was rejected before, unless it was filtered again since."""
        is_not_evaluated = self.not_evaluated is not None and bool(self.not_evaluated[row])
        if is_not_evaluated or self.position(row) is None:
            self.overrides[row] = status
        if is_not_evaluated and self.not_evaluated is not None:
            self.not_evaluated[row] = False

    def absent_rows(self) -> RowArray:
        """Return the nodes that are not feasible and have no status of their own, ascending.

        PreFilter left them out, or an extender dropped them without a reason.
        """
        is_absent = ~self.feasible
        if self.not_evaluated is not None:
            is_absent &= ~self.not_evaluated
        rejected = np.flatnonzero(self.first >= 0)
        is_absent[rejected if self.rows is None else self.rows[rejected]] = False
        if self.overrides:
            is_absent[list(self.overrides)] = False
        return np.flatnonzero(is_absent)

    def status(self, row: int) -> NodeStatus | None:
        """Return why a node is rejected; None when it is feasible, was not evaluated, or has no status."""
        if self.feasible[row] or (self.not_evaluated is not None and self.not_evaluated[row]):
            return None
        if self.pre_filter_status is not None:
            return node_status(self.pre_filter_status)
        if row in self.overrides:
            return self.overrides[row]
        position = self.position(row)
        if position is None or self.first[position] < 0:
            return self.absent
        name, verdict = self.verdicts[self.first[position]]
        return NodeStatus.of(name, verdict, position)

    @property
    def verdicts_count(self) -> BoolArray:
        """Whether `verdicts` decide about a node: it was evaluated, and no override replaces them; as `first`."""
        counts = np.ones(self.n_nodes, np.bool_)
        if self.overrides:
            counts[list(self.overrides)] = False
        if self.not_evaluated is not None:
            counts &= ~self.not_evaluated
        return counts if self.rows is None else counts[self.rows]

    @cached_property
    def rejectors(self) -> frozenset[str]:
        """The first plugin to reject each node, and those that named the only nodes. Upstream: UnschedulablePlugins."""
        if self.pre_filter_status is not None:
            return self.named_by | {self.pre_filter_status.plugin}
        plugins = {name for _, name, _ in self._rejecting}
        plugins.update(status.plugin for status in self.overrides.values())
        return frozenset(plugins | self.named_by) - {""}

    def all_failing(self, row: int) -> dict[str, NodeStatus]:
        """Return every plugin that rejects a node when it alone runs, without nominated pods."""
        if self.pre_filter_status is not None:
            return {}
        position, verdicts = self.position(row), self.verdicts
        if position is None:
            absent, verdicts = self._absent_verdicts
            position = int(np.searchsorted(absent, row))
        return {name: NodeStatus.of(name, verdict, position) for name, verdict in verdicts if verdict.bits[position]}

    @cached_property
    def _absent_verdicts(self) -> tuple[RowArray, list[tuple[str, Verdicts]]]:
        """The nodes that PreFilter left out, and what the filters say of them."""
        rows = np.asarray([row for row in range(self.n_nodes) if self.position(row) is None], np.intp)
        return rows, [] if self.filter_rows is None else self.filter_rows(rows)

    def rows_with_code(self, code: Code) -> RowArray:
        """Return the nodes whose status has a code, ascending."""
        if self.pre_filter_status is not None:
            status = node_status(self.pre_filter_status)
            return np.arange(self.n_nodes) if status.code == code else np.zeros(0, np.intp)
        codes = np.zeros(self.n_nodes, np.int8)
        filtered = np.zeros(self.n_nodes if self.rows is None else len(self.rows), np.int8)
        for index, _, verdict in self._rejecting:
            np.copyto(filtered, verdict.codes(), where=self.first == index)
        codes[slice(None) if self.rows is None else self.rows] = filtered
        if self.absent is not None:
            codes[self.absent_rows()] = self.absent.code
        for row, override in self.overrides.items():
            codes[row] = override.code
        codes[self.feasible] = 0
        if self.not_evaluated is not None:
            codes[self.not_evaluated] = 0
        return np.flatnonzero(codes == code)

    def rows_with_errors(self) -> list[int]:
        # Plain loops, because this runs for every pod.
        error = Code.ERROR
        may_have = any(status.code is error for status in self.overrides.values()) if self.overrides else False
        for _, verdict in self.verdicts:
            for reason in verdict.reasons:
                if reason.code is error and verdict.bits.any():
                    may_have = True
        return self.rows_with_code(error).tolist() if may_have else []

    def reason_counts(self) -> dict[tuple[str, str], int]:
        """Count nodes per (plugin, reason)."""
        if self.pre_filter_status is not None:
            status = self.pre_filter_status
            return {(status.plugin, text): self.n_nodes for text in status.reasons}
        counted = self.verdicts_count if self.overrides or self.not_evaluated is not None else None
        counts = defaultdict[tuple[str, str], int](int)
        for index, name, verdict in self._rejecting:
            is_first = self.first == index
            bits = verdict.bits[is_first if counted is None else is_first & counted]
            for k, reason in enumerate(verdict.reasons):
                # The bit of an only reason is set on every node that it rejects.
                n = len(bits) if len(verdict.reasons) == 1 else int(np.count_nonzero(bits & (1 << k)))
                if n:
                    counts[name, reason.text] += n
        for row, override in self.overrides.items():
            if self.status(row) is override:
                for text in override.texts:
                    counts[override.plugin, text] += 1
        n_absent = 0 if self.absent is None else len(self.absent_rows())
        if n_absent and self.absent is not None:
            for text in self.absent.texts:
                counts[self.absent.plugin, text] += n_absent
        return counts


def histogram(counts: Iterable[tuple[str, int]]) -> str:
    """Join reasons as kube-scheduler does: ``"2 this, 5 that"``, the pieces sorted as strings."""
    total = defaultdict[str, int](int)
    for text, n in counts:
        total[text] += n
    return ", ".join(sorted(f"{n} {text}" for text, n in total.items()))


def fit_error(outcome: FilterOutcome, post_filter_message: str = "") -> str:
    """Return the message of a pod that fits no node, byte for byte as kube-scheduler's FitError."""
    if outcome.pre_filter_status is not None:
        reasons = outcome.pre_filter_status.message
    else:
        reasons = histogram((text, n) for (_, text), n in outcome.reason_counts().items())
    n_nodes = outcome.n_nodes if outcome.n_counted is None else outcome.n_counted
    return _unavailable(n_nodes, reasons, post_filter_message)


def reserve_error(status: Status) -> str:
    """Return the message of a pod that Reserve or Permit rejects on its node, the only one that upstream counts."""
    return _unavailable(1, histogram((text, 1) for text in status.reasons))


def _unavailable(n_nodes: int, reasons: str, ending: str = "") -> str:
    message = f"0/{n_nodes} nodes are available:"
    if reasons:
        message += f" {reasons}."
    return f"{message} {ending}" if ending else message


def no_nodes_left(named: set[str]) -> Status:
    """Return the rejection of a pod for which PreFilter plugins left no node."""
    plugins = sorted(named)
    text = (
        f"node(s) didn't satisfy plugin {plugins[0]}"
        if len(plugins) == 1
        else f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
    )
    return Status.unresolvable(text)


def absent_status(named: frozenset[str]) -> NodeStatus:
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return NodeStatus(code, "", (Reason(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(named))}]", code),))
