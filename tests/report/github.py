"""What GitHub makes of a comment: CommonMark with tables, then addresses, mentions and references in all but code.

Written after GitHub's specification of its Markdown (autolinks, extended) and its pages on mentions and references.
"""

import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_SKIPPED = {"code", "pre", "a"}
_CALLS = re.compile(
    r"""(?<![A-Za-z0-9_`])@[A-Za-z0-9][\w-]*    # a user or team
    | (?:https?|ftp)://\S | ://           # an address
    | (?<!\w)www\.                        # the same without its protocol
    | [\w.+-]+@[\w-]+\.[\w.-]+            # an address of mail
    | (?:[\w.-]+/[\w.-]+)?\#\d            # an issue, perhaps of another repository
    | \bGH-\d                             # the same
    | (?<![0-9a-zA-Z])[0-9a-fA-F]{7,}(?![0-9a-zA-Z])   # a commit
    | \$[^\s$][^$]*\$                     # a formula
    """,
    re.VERBOSE | re.IGNORECASE,
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.calls: list[str] = []
        self.tags: set[str] = set()
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag not in {"br", "hr", "img"}:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            del self._inside[len(self._inside) - 1 - self._inside[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if not _SKIPPED & set(self._inside):
            self.calls += [match[0] for match in _CALLS.finditer(data)]


def _read(markdown: str) -> _Reader:
    reader = _Reader()
    reader.feed(_MARKDOWN.render(markdown))
    reader.close()
    return reader


def calls(markdown: str) -> list[str]:
    """Return whatever in a comment would mention, link or refer."""
    return _read(markdown).calls


def tags(markdown: str) -> set[str]:
    """Return the elements of the page that a comment becomes."""
    return _read(markdown).tags
