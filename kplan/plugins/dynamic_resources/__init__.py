"""DynamicResources: devices for claims, as kube-scheduler's structured allocator hands them out."""

from __future__ import annotations

from kplan.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
