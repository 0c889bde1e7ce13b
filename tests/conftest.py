"""A run in the background hands down an ignored Ctrl-C; what it starts must heed one."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
