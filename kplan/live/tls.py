"""TLS settings with certificates and keys, of which those in memory never stay on a disk.

OpenSSL reads client certificates and keys from files only. What a kubeconfig or an exec plugin holds is handed to it as
a file without a name, in memory; where the system has no such files, as a private one that is gone again before the
first request.
"""

from __future__ import annotations

import errno
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

Pem = bytes | str
"""Certificates or a key: the content itself, or the path of a file with it."""

_NAME = "kplan"


class TlsFiles(msgspec.Struct, frozen=True):
    """The certificates of a connection; None for none, which for the authority are those of the system."""

    authority: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None  #: None where it stands beside the certificate

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load all of them; raises OSError or ValueError for what OpenSSL cannot use."""
        if self.authority is None:
            context.load_default_certs()
        else:
            with _readable(self.authority) as path:
                context.load_verify_locations(cafile=path)
        if self.certificate is not None:
            with _readable(self.certificate) as path, _readable(self.key or self.certificate) as key_path:
                context.load_cert_chain(path, key_path, _no_password)


def _no_password() -> str:
    """Prevent OpenSSL from asking for a password on the terminal."""
    return ""


@contextmanager
def _readable(pem: Pem) -> Iterator[str]:
    """Yield the path of a file that exists only during the context, or that was there before."""
    if isinstance(pem, str):
        # OpenSSL would wait for a pipe without end.
        if Path(pem).exists() and not Path(pem).is_file():
            raise OSError(errno.EINVAL, "is not a regular file", pem)
        yield pem
        return
    descriptor = _nameless()
    if descriptor is None:
        with tempfile.TemporaryDirectory(prefix="kplan-") as directory:
            path = Path(directory) / "pem"
            path.touch(mode=0o600)
            path.write_bytes(pem)
            yield str(path)
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        yield _path_of(descriptor)


def _nameless() -> int | None:
    """Return a file in memory that can be opened by its number; None where there are none."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create(_NAME)
    except OSError:
        return None
    if Path(_path_of(descriptor)).exists():
        return descriptor
    os.close(descriptor)
    return None


def _path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
