"""Cached results of selectors; an expression is evaluated once for devices that are equal in what it reads.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating selectorsMatch.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import msgspec

from kplan.cel.values import CelCompileError, CelError, CostLimitError
from kplan.plugins.dynamic_resources.inventory import DeviceInfo

if TYPE_CHECKING:
    from kplan.cel.expression import DeviceExpression

_encoder = msgspec.json.Encoder(order="sorted")

_Answer = bool | CelError | CostLimitError


class ExpressionResults:
    """The results of an expression, by device.

    Devices that are equal in all that the expression reads share a result, whatever their names or serial numbers.
    """

    def __init__(self, expression: DeviceExpression) -> None:
        self._expression = expression
        self._by_device: dict[int, _Answer] = {}
        self._by_look: dict[Hashable, _Answer] = {}

    def matches(self, device: DeviceInfo) -> bool:
        """Return whether the expression accepts a device.

        Raises CelError, CostLimitError if the expression fails on it.
        """
        answer = self._by_device.get(device.index)
        if answer is None:
            look = self._look(device)
            answer = self._by_look.get(look)
            if answer is None:
                answer = self._by_look[look] = self._ask(device)
            self._by_device[device.index] = answer
        if isinstance(answer, bool):
            return answer
        raise answer

    def _ask(self, device: DeviceInfo) -> _Answer:
        if device.problem:
            return CelError(device.problem)
        try:
            return self._expression.matches(device)
        except (CelError, CostLimitError) as error:
            return error

    def _look(self, device: DeviceInfo) -> Hashable:
        """Return all that the expression reads of a device."""
        own = (device.id.driver, device.allows_multiple)
        if device.problem:
            return own, device.index
        reads = self._expression.reads
        if reads is None:
            return own, _encoder.encode((device.device.attributes, device.capacity))
        attributes = tuple(device.attribute_in(domain, name) for domain, name in reads.attributes)
        capacities = (device.capacity_in(domain, name) for domain, name in reads.capacity)
        return own, attributes, tuple(None if capacity is None else capacity.value for capacity in capacities)


class Selection:
    """The results of all expressions, by their text.

    Parameters
    ----------
    lists : attributes may be lists
    """

    def __init__(self, *, lists: bool) -> None:
        self._lists = lists
        self._results: dict[str, ExpressionResults | CelCompileError] = {}

    def results(self, expression: str) -> ExpressionResults:
        """Return the results of an expression; raises CelCompileError if it is not valid."""
        known = self._results.get(expression)
        if known is None:
            from kplan.cel.expression import compile_expression

            compiled = compile_expression(expression, lists=self._lists)
            known = compiled if isinstance(compiled, CelCompileError) else ExpressionResults(compiled)
            self._results[expression] = known
        if isinstance(known, CelCompileError):
            raise known
        return known
