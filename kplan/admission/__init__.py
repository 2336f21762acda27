"""What an API server does to new objects, and which it refuses."""

from __future__ import annotations

from kplan.admission.admit import Admission, Admitter, admit

__all__ = ["Admission", "Admitter", "admit"]
