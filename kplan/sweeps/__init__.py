"""Many questions about one cluster in parallel: in processes on this machine, or on a Dask cluster."""

from __future__ import annotations

from kplan.sweeps.asking import ask_all, sweep

__all__ = ["ask_all", "sweep"]
