"""The log lines of the host's systemd units, read from the journal."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from svcserver.kernel import json
from svcserver.kernel.foreign_text import visible

UNITS = "svc-*"
DEADLINE_S = 20.0
MOST = 8 << 20  # bytes read from the end of journalctl's output
LONGEST = 4_000  # characters of a line
BY_HAND = f"read them with journalctl -u '{UNITS}'"


def last_lines(count: int) -> str:
    """Return the last ``count`` lines, or a line that says why they cannot be read.

    The result is empty on a system without a journal.
    """
    program = shutil.which("journalctl")
    if program is None:
        return ""
    words = [program, "--quiet", "--no-pager", "--output=json", f"--unit={UNITS}"]
    with tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run(
                [*words, "--output-fields=MESSAGE,_SYSTEMD_UNIT", f"--lines={count}"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                timeout=DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the journal did not answer within {DEADLINE_S:.0f} s; {BY_HAND}\n"
        except OSError as why:
            return f"the journal cannot be read: {why.strerror}; {BY_HAND}\n"
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - MOST))
        rows = out.read(MOST).split(b"\n")[1 if size > MOST else 0 :]
    text = "".join(f"{line}\n" for line in _lines(rows))
    return (
        text if text or done.returncode == 0 else f"this user may not read the journal; {BY_HAND}\n"
    )


def _lines(rows: list[bytes]) -> Iterator[str]:
    for raw in rows:
        try:
            row: Any = json.parse(raw)
            message, unit = row.get("MESSAGE"), str(row.get("_SYSTEMD_UNIT", ""))
            if isinstance(message, list):  # journalctl prints binary lines as lists of bytes
                message = bytes(message).decode("utf-8", "replace")
        except (ValueError, AttributeError, TypeError):
            continue
        if isinstance(message, str):
            name = unit.removeprefix("svc-").removesuffix(".service")
            text = visible(message, LONGEST)
            yield f"[{name}] {text}" if name else text
