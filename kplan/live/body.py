"""Reading of response bodies, with limits of size and time."""

from __future__ import annotations

import time

import urllib3

from kplan.live.deadline import OutOfTimeError

_CHUNK_BYTES = 1 << 20


class BodyTooLargeError(Exception):
    """A body that is larger than the limit."""


def read_body(answer: urllib3.HTTPResponse, deadline: float | None, most: int) -> bytes:
    """Return a whole body, unpacked.

    Parameters
    ----------
    deadline : on the monotonic clock; None for no limit
    most : maximum number of bytes

    Raises
    ------
    OutOfTimeError
        When the deadline has passed: nothing waits for the body any more.
    BodyTooLargeError
        When the body is larger.
    """
    chunks: list[bytes] = []
    total = 0
    while chunk := answer.read1(_CHUNK_BYTES, decode_content=True):
        chunks.append(chunk)
        total += len(chunk)
        if total > most:
            raise BodyTooLargeError
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTimeError
    return b"".join(chunks)
