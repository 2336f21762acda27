"""Small files that a kubeconfig names."""

import os
from pathlib import Path

import pytest

from kplan.errors import KubeconfigError
from kplan.live.kubeconfig import load_access
from kplan.live.kubeconfig_file import MOST_BYTES, read_small
from kplan.live.options import LiveOptions

from .server import kubeconfig


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"x" * MOST_BYTES)
    assert len(read_small(str(tmp_path / "token"))) == MOST_BYTES


def test_what_might_never_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES + 1))
    for name in (tmp_path / "pipe", "/dev/zero", "/dev/null", tmp_path, tmp_path / "large"):
        with pytest.raises(OSError, match=r"regular file|more than 1 MiB|Is a directory"):
            read_small(str(name))


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_a_token_file_without_end_is_an_error_of_the_kubeconfig(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", user={"tokenFile": str(tmp_path / name)})
    with pytest.raises(KubeconfigError, match="cannot be read: it is not a regular file"):
        list(load_access(LiveOptions(kubeconfig=str(path))).headers())
