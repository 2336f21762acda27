"""What is invalid in containers: ports, environment, mounts, probes, resources, security."""

from tests.admission.validation.makers import container, errors_of_spec


def test_devices_are_claims_and_not_mounted_too() -> None:
    volumes = [{"name": "v"}, {"name": "d", "persistentVolumeClaim": {"claimName": "x"}}]
    device = container(
        volumeDevices=[{"name": "v", "devicePath": "/dev/x"}, {"name": "d", "devicePath": "/dev/x"}],
        volumeMounts=[{"name": "d", "mountPath": "/d"}],
    )
    errors = errors_of_spec({"volumes": volumes, "containers": [device]})
    assert any("can only use volume source type of PersistentVolumeClaim or Ephemeral" in error for error in errors)
    assert any("must not already exist in volumeDevices" in error for error in errors)
    assert any('devicePath: Invalid value: "/dev/x": must be unique' in error for error in errors)
