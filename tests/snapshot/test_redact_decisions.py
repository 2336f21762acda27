"""Redacted and saved snapshots decide like the plain one, on conformance scenarios.

Names in the redacted plan are put back with the redactor's own table, and then nothing may differ, messages included.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import kplan
from kplan.remedies.diagnosis import Diagnosis
from kplan.snapshot.own_file import encode_snapshot
from kplan.snapshot.pseudonyms import LABEL_VALUE, Pseudonyms
from kplan.snapshot.redact import redact_snapshot
from tests.recorded import sample
from tests.scenarios import AREAS, scenarios

_ONE_OF = 40
"""By default, of so many scenarios of an area one is tried."""


def configuration(value: Any, names: Pseudonyms) -> Any:
    """Give the added affinity of a configuration the label values of the redacted snapshot."""
    if isinstance(value, dict):
        if "key" in value and value.get("operator") in {"In", "NotIn"}:
            known = names.table(LABEL_VALUE) | names.table("Node")
            return value | {"values": [known.get(text, text) for text in value["values"]]}
        return {key: configuration(item, names) for key, item in value.items()}
    return [configuration(item, names) for item in value] if isinstance(value, list) else value


def renamed(key: str, names: Pseudonyms) -> str:
    namespace, _, name = key.partition("/")
    return f"{names.table('Namespace')[namespace]}/{names.table('Pod')[name]}"


def restored(decided: list[dict[str, Any]], names: Pseudonyms) -> list[dict[str, Any]]:
    """Put every name back, in keys, values and in the middle of messages."""
    originals = names.originals()
    if not originals:
        return decided
    longest_first = sorted(originals, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    text = pattern.sub(lambda match: json.dumps(originals[match[0]])[1:-1], json.dumps(decided))
    return json.loads(text)


def decisions(snapshot: kplan.Snapshot, config: Any, scenario: dict[str, Any], pods: list[str]) -> list[dict[str, Any]]:
    """Plan the pods and return all that is known of each decision.

    What is said and advised besides goes by the spelling and the order of names, which redaction changes on purpose.
    """
    sampling = "as-configured" if scenario["area"] == "sampling" else "all"
    planner = kplan.Planner(snapshot, kplan.load_scheduler_config(config), sampling=sampling)
    plan = planner.plan(pods, settle_preemption=scenario.get("settlePreemption", False))
    found = [replace(placement, diagnose=Diagnosis).to_dict() for placement in plan.placements]
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("area", AREAS)
def test_redacted_and_plain_snapshots_decide_alike(area: str) -> None:
    for scenario in sample(scenarios(area), _ONE_OF):
        plain = kplan.load_snapshot(scenario["objects"])
        names = Pseudonyms(b"the same every time")
        redacted = redact_snapshot(plain, names)
        pods = [renamed(pod, names) for pod in scenario["pods"]]
        config = scenario.get("config")
        found = decisions(redacted, configuration(config, names), scenario, pods)
        assert restored(found, names) == decisions(plain, config, scenario, scenario["pods"]), scenario["id"]


@pytest.mark.parametrize("area", AREAS)
def test_a_saved_snapshot_is_loaded_as_it_was(area: str, tmp_path: Path) -> None:
    """The same objects in the same order, and so the same decisions."""
    file = tmp_path / "cluster.json"
    for scenario in sample(scenarios(area), _ONE_OF):
        snapshot = kplan.load_snapshot(scenario["objects"])
        file.write_bytes(encode_snapshot(snapshot, file.name))
        loaded = kplan.load_snapshot(file)
        assert list(loaded) == list(snapshot), scenario["id"]
        assert loaded.digest == snapshot.digest, scenario["id"]
