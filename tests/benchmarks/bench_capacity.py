"""`kplan capacity` as a whole process, from a JSON file to the printed answer."""

from pathlib import Path

import clusters  # noqa: F401 - which finds the tests
from processes import Run, run_kplan

from tests.objects import deployment

TEMPLATE = deployment("new", 1, "app", cpu="200m")
TEMPLATE["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "512Mi"


def run(snapshot: Path, manifest: Path, replicas: int) -> Run:
    """Count replicas in a process of its own, which must find room for all."""
    words = ["capacity", str(manifest), "-s", str(snapshot), "-o", "name", "--replicas", str(replicas)]
    found, answer = run_kplan(words, manifest.parent)
    assert answer == f"default/new {replicas}\n", answer
    return found
