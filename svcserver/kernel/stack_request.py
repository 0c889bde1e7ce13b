"""The file in which the metagame asks ``svc-stack`` to stop or restart the host's services.

The stack checks for the file every two seconds, and deletes the file before it carries out the
request.
"""

from contextlib import suppress
from pathlib import Path

from svcserver.kernel import json
from svcserver.kernel.disk import replace_json
from svcserver.kernel.recent import RECENT

REQUEST_FILE = "stack-wish.json"
FRESH_S = 60.0  # older requests are ignored
MOST = 1024  # bytes
REQUESTS = ("stop", "restart")


def has_stack(folder: Path, since: float) -> bool:
    """Return whether a stack has written log lines to ``folder`` since the time ``since``."""
    try:
        return (folder / RECENT).stat().st_mtime >= since
    except OSError:
        return False


def send_request(folder: Path, what: str, now: float) -> None:
    """Send the stack one of the requests in ``REQUESTS``; raises OSError."""
    replace_json(folder / REQUEST_FILE, folder / f"{REQUEST_FILE}.new", {"wish": what, "at": now})


def take(folder: Path, now: float) -> str | None:
    """Return the metagame's request if it is valid and recent, else None; delete the file."""
    request = peek_request(folder, now)
    with suppress(FileNotFoundError):
        (folder / REQUEST_FILE).unlink()  # a request that stays would be carried out repeatedly
    return request


def peek_request(folder: Path, now: float) -> str | None:
    """Return the metagame's request if it is valid and recent, else None; keep the file."""
    try:
        with (folder / REQUEST_FILE).open("rb") as file:
            content = json.parse(file.read(MOST))
        what, at = content["wish"], float(content["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(what) if what in REQUESTS and abs(now - at) <= FRESH_S else None
