"""Small files that a kubeconfig names: tokens and certificates."""

from __future__ import annotations

import errno
import os
import stat

MOST_BYTES = 1 << 20


def read_small(path: str) -> bytes:
    """Return the content of a regular file of at most a mebibyte.

    Raises OSError for what is no such file: a pipe or a device might never end.
    """
    # Opening a pipe would wait for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MiB")
    return content
