"""Bodies of answers as typed objects."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import msgspec

from kplan.api.decode import DecodeError, convert
from kplan.errors import ApiError
from kplan.live.lists import PageDecoder

T = TypeVar("T")


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...] = ()


def page_decoder(kind: Any, path: str) -> PageDecoder:
    """Return what turns one page of a list into objects of the struct `kind`.

    The returned callable raises ApiError when an object does not have the shape of its kind.
    """
    decoder = _page_decoder(kind)
    return lambda body: _decode(body, decoder, _Page[kind], path).items


def prepare(kinds: Iterable[Any]) -> None:
    """Make the decoders of these structs, before threads use them.

    msgspec works out a struct when it first meets it, and keeps the unfinished result where other threads find it.
    """
    for kind in kinds:
        _page_decoder(kind)


@functools.cache
def _page_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Page[kind])


def decode_object(body: bytes, kind: Any, path: str) -> Any:
    """Turn the answer for one object into the struct `kind`; raises ApiError when it does not have that shape."""
    return _decode(body, msgspec.json.Decoder(kind), kind, path)


def _decode(body: bytes, decoder: msgspec.json.Decoder[Any], shape: Any, path: str) -> Any:
    """Decode the quick way, else the lenient one, which reads nulls as Go does and finds all that is wrong."""
    hint = "is this a Kubernetes API server, of a version that kplan knows?"
    what = f"{path}: the answer is not what Kubernetes documents"
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            return convert(msgspec.json.decode(body), shape)
    except DecodeError as error:
        raise ApiError(f"{what}: {error}", status=200, hint=hint) from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else "not JSON"
        raise ApiError(f"{what}: {problem}", status=200, hint=hint) from None
