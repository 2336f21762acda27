"""What an API server's admission does to new pods, and which manifests it refuses."""

from __future__ import annotations

from kplan.admission.admit import Admission, Admitter, admit
from kplan.admission.unknown_fields import unknown_fields
from kplan.admission.validation import validate_pod, validate_template

__all__ = ["Admission", "Admitter", "admit", "unknown_fields", "validate_pod", "validate_template"]
