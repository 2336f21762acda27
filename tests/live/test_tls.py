"""Certificates and keys in memory, which no file of the disk ever holds."""

import base64
import os
import signal
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kplan.errors import KubeconfigError
from kplan.live.connections import TlsFiles
from kplan.live.kubeconfig import load_access
from kplan.live.reader import Transport
from tests.cli.processes import PROGRAM
from tests.recorded import sample

from .conftest import Start
from .server import CERTIFICATES, Answer, Cluster, Request

CERTIFICATE = (CERTIFICATES / "client.pem").read_bytes()
KEY = (CERTIFICATES / "client-key.pem").read_bytes()
USER = {
    "client-certificate-data": base64.b64encode(CERTIFICATE).decode(),
    "client-key-data": base64.b64encode(KEY).decode(),
}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_key_in_the_kubeconfig_signs_in_and_is_on_no_disk(
    start: Start, temporary: Path, is_in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    seen: list[list[Path]] = []

    def look(_request: Request) -> Answer | None:
        seen.append(list(temporary.rglob("*")))
        return None

    _, options = start(Cluster(accepts_client_certificates=True, fault=look), user=USER)
    with closing(Transport(load_access(options), request_timeout=20)) as transport:
        assert transport.get("/api/v1/nodes", {"limit": "1"}).status == 200
    assert seen == [[]]
    assert not list(temporary.rglob("*"))


@pytest.fixture
def held(start: Start, temporary: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start kplan, which then waits for a server that has not answered yet."""
    asked, released = threading.Event(), threading.Event()

    def wait(_request: Request) -> Answer | None:
        asked.set()
        released.wait(60)
        return None

    _, options = start(Cluster(accepts_client_certificates=True, fault=wait), user=USER)
    command = [*PROGRAM, "plan", "--kubeconfig", options.kubeconfig]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert asked.wait(60)
            yield process, temporary
        finally:
            process.kill()
            released.set()


@pytest.mark.parametrize(
    ("number", "code"),
    sample([(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)], 2, 1),
)
def test_no_signal_leaves_a_key_behind(
    held: tuple[subprocess.Popen[bytes], Path], number: signal.Signals, code: int
) -> None:
    process, temporary = held
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert not list(temporary.rglob("*"))
    assert b"Traceback" not in errors
    assert number == signal.SIGKILL or errors.startswith(b"interrupted while reading demo at https://")


@pytest.mark.parametrize(
    ("certificate", "key"),
    [(b"no certificate", KEY), (CERTIFICATE, b"no key"), (CERTIFICATE, None), ("/no/such/file", KEY)],
)
def test_what_openssl_cannot_use_is_refused(certificate: bytes | str, key: bytes | None, temporary: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(OSError, match=r"PEM|SSL|No such file"):
        TlsFiles(None, certificate, key).load_into(context)
    assert not list(temporary.rglob("*"))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        TlsFiles(str(tmp_path / "pipe")).load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def test_a_damaged_certificate_stops_before_the_first_request(start: Start) -> None:
    api, options = start(user=USER | {"client-key-data": base64.b64encode(b"no key").decode()})
    with pytest.raises(KubeconfigError, match="connection settings"):
        Transport(load_access(options), request_timeout=20)
    assert not api.requests
