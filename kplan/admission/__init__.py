"""Admission: what an API server fills into new objects, and which objects it refuses."""

from __future__ import annotations

from kplan.admission.admit import Admission, Admitter

__all__ = ["Admission", "Admitter"]
