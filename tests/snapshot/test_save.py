import gzip
import json
import stat
from pathlib import Path

import pytest

from kplan.errors import UsageError
from kplan.snapshot import load_snapshot
from kplan.snapshot.model import Snapshot
from kplan.snapshot.save import encode_snapshot, save_snapshot
from tests.objects import head

FORMS = ["cluster.json", "cluster.yaml", "cluster.yml", "cluster.json.gz", "cluster.YAML.GZ"]


@pytest.fixture(scope="module")
def demo() -> Snapshot:
    return load_snapshot("demo")


@pytest.mark.parametrize("name", FORMS)
def test_what_is_saved_is_loaded_again(demo: Snapshot, tmp_path: Path, name: str) -> None:
    size = save_snapshot(demo, tmp_path / name)

    loaded = load_snapshot(tmp_path / name)

    assert loaded.digest == demo.digest
    assert loaded.pods == demo.pods
    assert (loaded.taken_at, loaded.server_version, loaded.missing) == (
        demo.taken_at,
        demo.server_version,
        demo.missing,
    )
    assert (tmp_path / name).stat().st_size == size


def test_the_header_says_what_the_file_is(demo: Snapshot) -> None:
    document = json.loads(encode_snapshot(demo, "x.json"))

    assert (document["apiVersion"], document["kind"]) == ("kplan/v1", "Snapshot")
    assert document["metadata"]["digest"] == demo.digest


def test_only_what_scheduling_reads_is_written() -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "A", "value": "tell-nobody"}], "args": ["tell-nobody"]}
    metadata = {"name": "p", "namespace": "n", "annotations": {"a": "tell-nobody"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "1"}}}
    volume = {"name": "v", "secret": {"secretName": "named", "items": [{"key": "tell-nobody", "path": "x"}]}}
    pod = head("Pod", **metadata) | {"spec": {"containers": [container], "volumes": [volume]}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "tell-nobody"}}

    written = encode_snapshot(load_snapshot([node, pod, secret]), "x.json")

    assert b"tell-nobody" not in written


@pytest.mark.parametrize("name", ["cluster", "cluster.txt", "cluster.gz", "cluster.json.zip"])
def test_a_name_that_says_no_form_is_refused(demo: Snapshot, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="has no known extension") as caught:
        save_snapshot(demo, tmp_path / name)

    assert ".json.gz" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMS[:4])
def test_the_same_snapshot_gives_the_same_bytes(demo: Snapshot, name: str) -> None:
    assert encode_snapshot(demo, name) == encode_snapshot(demo, name)


def test_a_directory_that_is_not_there_is_named(demo: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*absent/cluster\.json"):
        save_snapshot(demo, tmp_path / "absent" / "cluster.json")


def test_a_new_file_is_for_its_owner_only(demo: Snapshot, tmp_path: Path) -> None:
    save_snapshot(demo, tmp_path / "cluster.json")

    assert stat.S_IMODE((tmp_path / "cluster.json").stat().st_mode) == 0o600


def test_a_compressed_file_holds_the_plain_one(demo: Snapshot) -> None:
    assert gzip.decompress(encode_snapshot(demo, "x.json.gz")) == encode_snapshot(demo, "x.json")
