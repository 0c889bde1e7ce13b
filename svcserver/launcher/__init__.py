"""The player's launcher: joins hosts, downloads the game's files and starts the game."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the one file may be opened with any Python
    raise SystemExit(
        "The launcher needs Python 3.11 or newer, and this is %d.%d." % sys.version_info[:2]  # noqa: UP031
    )
