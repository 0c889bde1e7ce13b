"""``make docs``: whether what the pages link to elsewhere is there; inner links are Sphinx's.

Without a network it only sees to it that no link comes in which nobody has thought about.
"""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

DOCS = Path(__file__).parent
ASKED = "www.python.org"  # one of the hosts that the pages link to
# each with what it is needed for; pages elsewhere go, so they are opened where there is a network
KNOWN = {
    "https://age-encryption.org": "the form of encrypted backups, which other programs read, too",
    "https://www.python.org/downloads/": "what a player's Windows needs for the launcher",
}
LINK = re.compile(r"\]\((https?://[^\s)]+)\)|<(https?://[^\s>]+)>")


def main() -> int:
    """Sphinx's verdict; without a network say so, and let the known ones pass."""
    unknown = elsewhere() - set(KNOWN)
    if unknown:
        print(f"docs/links.py does not say what these links are needed for: {sorted(unknown)}")
        return 1
    try:
        socket.getaddrinfo(ASKED, 443)
    except OSError:
        print(f"{ASKED} is not found from here, so that these links are NOT opened:")
        print("\n".join(f"  {link}: {use}" for link, use in KNOWN.items()))
        return 0
    return build_main(["-q", "-b", "linkcheck", str(DOCS), str(DOCS / "_build" / "links")])


def elsewhere() -> set[str]:
    """What the pages link to; an example's address is none."""
    result: set[str] = set()
    for page in DOCS.rglob("*.md"):
        for link in LINK.finditer(page.read_text(encoding="utf-8")):
            result.add(link[1] or link[2])
    return result


if __name__ == "__main__":
    sys.exit(main())
