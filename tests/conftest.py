"""Makes SIGINT work again, which a shell ignores in what it starts in the background."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
