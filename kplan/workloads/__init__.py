"""Workloads and other manifests, turned into the pods that their controllers would create."""

from __future__ import annotations

from kplan.workloads.manifests import ManifestPod, Manifests, load_manifests

__all__ = ["ManifestPod", "Manifests", "load_manifests"]
