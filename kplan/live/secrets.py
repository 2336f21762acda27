"""Removal of secrets from messages of servers and plugins.

kplan's own messages contain no credentials. A server or a plugin may repeat what it was sent, so all quoted messages
pass through here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from kplan.live.kubeconfig_file import AuthInfo, Cluster

#: Shorter texts may occur by chance.
_LEAST_LENGTH = 4

#: Parts of a token with so many characters are hidden, too.
_PIECE = 12

_HIDDEN = "(hidden)"

#: Fields of a user that are not secret: names and paths.
_KNOWN = frozenset({"username", "client_certificate", "client_key", "token_file", "impersonate", "as_groups", "as_uid"})

#: Any web tokens, keys, certificates and passwords in URLs and headers.
_TELLTALE = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)|"
    r"(?<=://)[^/\s@]+(?=@)|(?i:(?<=bearer )|(?<=basic ))[\w.~+/=-]{4,}",
    re.DOTALL,
)


class Secrets:
    """Texts that must not be shown."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: set[str] = set()
        self._pieces: set[str] = set()
        self.add(*texts)

    @classmethod
    def of(cls, user: AuthInfo, cluster: Cluster) -> Secrets:
        """Return the secrets in the entries of a kubeconfig."""
        secrets = cls()
        for field in user.__struct_fields__:
            if field not in _KNOWN:
                secrets.add(*_texts(msgspec.to_builtins(getattr(user, field))))
        for url in (cluster.server, cluster.proxy_url):
            split = urlsplit(url) if _is_url(url) else None
            if split is not None:
                secrets.add(split.username or "", split.password or "", split.query)
        return secrets

    def add(self, *texts: str) -> None:
        """Add secrets."""
        for text in texts:
            words = [word for word in (text, *text.split()) if len(word) >= _LEAST_LENGTH]
            self._texts.update(words)
            self._texts.update(form for word in words for form in _in_base64(word))
            self._pieces.update(piece for word in words if _is_made_by_chance(word) for piece in _pieces(word))

    def hide(self, text: str) -> str:
        """Return a text with its secrets replaced."""
        for secret in sorted(self._texts, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return _TELLTALE.sub(_HIDDEN, self._without_pieces(text))

    def _without_pieces(self, text: str) -> str:
        """Return a text without what is a part of a secret, such as the halves of one that is broken in two."""
        if not self._pieces:
            return text
        pieces, end = [], 0
        for start in range(len(text) - _PIECE + 1):
            if text[start : start + _PIECE] in self._pieces:
                if start >= end:
                    pieces += [text[end:start], _HIDDEN]
                end = start + _PIECE
        return "".join([*pieces, text[end:]])


def _is_made_by_chance(text: str) -> bool:
    """Tell whether a text looks like a token, of which no part occurs by chance."""
    kinds = (str.islower, str.isupper, str.isdecimal)
    return len(text) >= 2 * _PIECE and all(any(map(is_kind, text)) for is_kind in kinds)


def _pieces(text: str) -> Iterable[str]:
    return (text[start : start + _PIECE] for start in range(len(text) - _PIECE + 1))


def _in_base64(text: str) -> Iterable[str]:
    """Yield a text in both alphabets of base64, wherever it begins, without the ends that hang on what is around it."""
    data = text.encode("utf-8", "surrogatepass")
    for n_before, n_changed in ((0, 0), (1, 2), (2, 3)):
        whole = bytes(n_before) + data
        whole = whole[: len(whole) - len(whole) % 3]
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            form = encode(whole).decode()[n_changed:]
            if len(form) >= _LEAST_LENGTH:
                yield form


def address(url: str) -> str:
    """Return the public part of a URL: without user, password, query and fragment."""
    if not _is_url(url):
        return "(no usable address)"
    split = urlsplit(url)
    host = split.netloc.rpartition("@")[2]
    return f"{split.scheme}://{host}{split.path}".rstrip("/")


def _is_url(url: str) -> bool:
    try:
        split = urlsplit(url)
        _ = split.port
    except ValueError:
        return False
    return bool(split.hostname)


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            # Names of settings and variables, and words of the protocol, are not secret.
            if key == "args":
                yield from (argument.partition("=")[2] if argument.startswith("-") else argument for argument in item)
            elif key not in ("name", "apiVersion", "interactiveMode", "installHint", "command"):
                yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
