"""The yardstick of saves: one thread, WAL with synchronous FULL, a commit for each document.

What a careful program without group commit reaches: it stores the same bytes as a save
does, on the same disk, and nothing else.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from pathlib import Path

from bench.players import document


def main() -> None:
    """``python -m bench.bare_writer FOLDER SECONDS``; prints documents a second."""
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    connection = sqlite3.connect(folder / "yardstick.db", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-32768"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE saves (id INTEGER PRIMARY KEY, data BLOB)")
    rng = random.Random(1)
    documents = [document(rng).encode() for _ in range(20)]
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO saves (data) VALUES (?)", (documents[count % 20],))
        connection.execute("COMMIT")
        count += 1
    connection.close()
    print(count / seconds)


if __name__ == "__main__":
    main()
