"""The report of a crash: a file with the cause, and a text that says where the file is."""

import faulthandler
import platform
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twisted.logger import Logger

from svcserver.kernel.foreign_text import visible
from svcserver.launcher import words
from svcserver.launcher.locked_files import unlink
from svcserver.launcher.private_files import write_private

log = Logger()

FILE = "svc-launcher-crash.log"
LONGEST = 64 * 1024  # bytes; the reports of earlier crashes are deleted from a longer file


@contextmanager
def hard_crashes(state: Path) -> Iterator[None]:
    """Make Python write a report to a file if the process crashes in compiled code."""
    path = state / FILE
    try:
        if not path.is_file() or path.stat().st_size > LONGEST:
            write_private(path, b"")
        file = path.open("ab")
    except OSError as error:
        log.warn(
            "crash reports for compiled code are off, because the report file cannot be opened: "
            "{why}",
            why=error,
        )
        yield
        return
    with file:
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()
    try:
        if not path.stat().st_size:
            unlink(path)
    except OSError as error:
        log.warn("the empty crash file cannot be deleted: {why}", why=error)


def write_report(error: BaseException, state: Path, version: str) -> str:
    """Write a report of ``error`` to a file; return the text for the player.

    If the file cannot be written in ``state``, it is in the folder for temporary files.
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
