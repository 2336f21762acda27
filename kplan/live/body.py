"""Reading what comes back, so much of it and so long."""

from __future__ import annotations

import time

import urllib3

from kplan.live.deadline import OutOfTimeError

_CHUNK_BYTES = 1 << 20


class BodyTooLargeError(Exception):
    """More came back than anybody asked for."""


def read_body(answer: urllib3.HTTPResponse, deadline: float | None, most: int) -> bytes:
    """Read a body to its end, unpacked.

    Parameters
    ----------
    deadline : of the monotonic clock; None for none
    most : bytes at most

    Raises
    ------
    OutOfTimeError
        When the deadline has passed: whoever waits for this has given up already.
    BodyTooLargeError
        When there is more.
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
