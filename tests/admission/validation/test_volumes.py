"""What is invalid in volumes, source by source."""

from tests.admission.validation.makers import errors_of_spec


def test_a_claim_that_an_ephemeral_volume_makes_is_not_mounted_by_name() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    named = {"name": "n", "persistentVolumeClaim": {"claimName": "p-e"}}
    (error,) = errors_of_spec({"volumes": [made, named]})
    assert error.endswith('Invalid value: "p-e": must not reference a PVC that gets created for an ephemeral volume')
