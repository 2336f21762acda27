"""What MkDocs does besides building pages: files outside of ``docs/`` become links into the repository."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)(#[^)]*)?\)")
_REPOSITORY = "https://github.com/OWNER/kplan/blob/main/"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page with links that lead out of ``docs/`` made absolute."""
    return _OUTSIDE.sub(lambda link: f"]({_REPOSITORY}{link[1]}{link[2] or ''})", markdown)
