"""The one public page of a host: how to play here. It holds no secret and no word of this host.

Off unless GATEWAY_JOIN_PAGE=1, because a host need not tell strangers what it is.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from svcserver.edge.verdicts import Page

PATH = "/join"


def join_page() -> Page:
    """The page with its headers: it may load nothing, and its one style sheet is named by hash."""
    content = files("svcserver.gateway").joinpath("static", "join.html").read_bytes()
    style = content.partition(b"<style>")[2].partition(b"</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
    lines = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'",
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return Page(content, "".join(f"{name}: {text}\r\n" for name, text in lines.items()).encode())
