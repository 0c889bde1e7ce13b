"""The report of a crash: a file with the cause, and a text that says where the file is."""

from __future__ import annotations

import platform
import tempfile
import traceback
from pathlib import Path

from svcserver.kernel.foreign_text import visible
from svcserver.launcher import words
from svcserver.launcher.private_files import write_private

FILE = "svc-launcher-crash.log"


def write_report(error: BaseException, state: Path, version: str) -> str:
    """Write a report of ``error`` to a file; return the text for the player.

    The file is in ``state`` or, if it cannot be written there, in the folder for temporary files.
    """
    system = f"{platform.system()} {platform.release()} {platform.version()}"
    lines = [f"svc-launcher {version} on {system}", *traceback.format_exception(error)]
    text = "\n".join(visible(line) for entry in lines for line in entry.splitlines()) + "\n"
    for folder in (state, Path(tempfile.gettempdir())):
        try:
            write_private(folder / FILE, text.encode())
        except OSError:
            continue
        return words.CRASHED.format(path=folder / FILE)
    return words.CRASHED_UNKNOWN.format(why=visible(str(error)))
