"""Checks the external links of the pages for ``make docs``; Sphinx checks the internal links.

Without a network it only rejects links that KNOWN does not list.
"""

import re
import socket
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

DOCS = Path(__file__).parent
PROBE_HOST = "www.python.org"  # one of the hosts that the pages link to
# each with its use; external pages vanish, so they are opened if there is a network
KNOWN = {
    "https://age-encryption.org": "the form of encrypted backups, which other programs read, too",
    "https://www.python.org/downloads/": "what a player's Windows needs for the launcher",
}
LINK = re.compile(r"\]\((https?://[^\s)]+)\)|<(https?://[^\s>]+)>")


def main() -> int:
    """Check the links and return Sphinx's exit status; without a network, trust known links."""
    unknown = elsewhere() - set(KNOWN)
    if unknown:
        print(f"Unknown links: {sorted(unknown)}. Add each with its use to docs/links.py.")
        return 1
    try:
        socket.getaddrinfo(PROBE_HOST, 443)
    except OSError:
        print(
            f"There is no network ({PROBE_HOST} was not resolved), so these links are NOT checked:"
        )
        print("\n".join(f"  {link}: {use}" for link, use in KNOWN.items()))
        return 0
    return build_main(["-q", "-b", "linkcheck", str(DOCS), str(DOCS / "_build" / "links")])


def elsewhere() -> set[str]:
    """Return the links of the pages to other sites, except those in code examples."""
    result: set[str] = set()
    for page in DOCS.rglob("*.md"):
        for link in LINK.finditer(page.read_text(encoding="utf-8")):
            result.add(link[1] or link[2])
    return result


if __name__ == "__main__":
    sys.exit(main())
