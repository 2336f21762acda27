"""Lets Python pickle the mapping proxies that configurations hold, which it cannot do by itself."""

from __future__ import annotations

import copyreg
from types import MappingProxyType
from typing import Any


def _reduce_mapping_proxy(view: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return (_mapping_proxy, (dict(view),))


def _mapping_proxy(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def make_picklable() -> None:
    """Register the proxies with Python's pickle."""
    copyreg.pickle(MappingProxyType, _reduce_mapping_proxy)
