"""Workloads and other manifests, turned into the pods that their controllers would create."""

from __future__ import annotations

from kplan.workloads.manifests import ManifestPod, Manifests, ManifestWorkload, Strictness, load_manifests

__all__ = ["ManifestPod", "ManifestWorkload", "Manifests", "Strictness", "load_manifests"]
