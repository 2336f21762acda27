"""Decoding of response bodies into typed objects."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from kplan.api.decode import DecodeError, convert, decode
from kplan.errors import ApiError
from kplan.live.lists import PageDecoder
from kplan.reading.items import is_too_large, too_large
from kplan.reading.limits import MAX_OBJECT

_LARGE_HINT = "an API server stores 1.5 MiB at most: something between here and the API server answers in its place"

T = TypeVar("T")


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...] = ()


def page_decoder(kind: Any, path: str, *, is_open: bool = False) -> PageDecoder:
    """Return the decoder of a page of a list, for objects of the struct `kind`.

    The decoder raises ApiError when an object does not match its kind; if `is_open`, such objects are left out.
    """
    decoder = _page_decoder(kind)

    def decode_page(body: bytes) -> tuple[Any, ...]:
        _check_sizes(body, path)
        try:
            return tuple(_decode(body, decoder, _Page[kind], path).items)
        except ApiError:
            if not is_open:
                raise
        return tuple(_matching(_decode(body, _page_decoder(msgspec.Raw), _Page[msgspec.Raw], path).items, kind))

    return decode_page


def _check_sizes(body: bytes, path: str) -> None:
    """Raise ApiError for an object that is larger than any that an API server stores."""
    if len(body) <= MAX_OBJECT:
        return
    for index, item in enumerate(_decode(body, _page_decoder(msgspec.Raw), _Page[msgspec.Raw], path).items):
        if is_too_large(item):
            problem = too_large()
            raise ApiError(f"{path}: items[{index}] is {problem.message}", status=200, hint=_LARGE_HINT)


def _matching(items: Iterable[msgspec.Raw], kind: Any) -> Iterator[Any]:
    """Yield the objects that match their kind."""
    for item in items:
        with contextlib.suppress(DecodeError):
            yield decode(item, kind)


def prepare(kinds: Iterable[Any]) -> None:
    """Create the decoders of these structs before threads use them.

    msgspec analyses a struct at its first use, and other threads may see the unfinished result.
    """
    for kind in kinds:
        _page_decoder(kind)


@functools.cache
def _page_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Page[kind])


def decode_object(body: bytes, kind: Any, path: str) -> Any:
    """Decode one object into the struct `kind`; raises ApiError when it does not match."""
    if is_too_large(msgspec.Raw(body)):
        raise ApiError(f"{path}: {too_large().message}", status=200, hint=_LARGE_HINT)
    return _decode(body, msgspec.json.Decoder(kind), kind, path)


def _decode(body: bytes, decoder: msgspec.json.Decoder[Any], shape: Any, path: str) -> Any:
    """Decode strictly, which is quick, else leniently, with nulls as in Go and all problems."""
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
