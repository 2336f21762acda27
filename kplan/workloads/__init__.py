"""Workloads and other manifests, turned into the pods that their controllers would create."""

from __future__ import annotations

from kplan.workloads.contents import ManifestPod, Manifests, ManifestWorkload
from kplan.workloads.manifests import Strictness, load_manifests

__all__ = ["ManifestPod", "ManifestWorkload", "Manifests", "Strictness", "load_manifests"]
