"""The Linux capabilities of a process: single rights of root, kept or dropped one by one."""

import ctypes
import os
import sys
from collections.abc import Collection
from typing import Any

IS_LINUX = sys.platform.startswith("linux")
_VERSION_3 = 0x20080522  # API version of the kernel's capget and capset
_SET_DUMPABLE, _SET_KEEPCAPS, _AMBIENT, _RAISE = 4, 8, 47, 2  # of prctl


def keep_over_change_of_user() -> None:
    """Make the process keep its capabilities when it changes from root to another user.

    Raises OSError.
    """
    if IS_LINUX:
        _prctl(_libc(), _SET_KEEPCAPS, 1)


def reduce_rights(rights: Collection[int] = ()) -> None:
    """Remove all capabilities but ``rights`` from this process and its future children.

    Raises OSError.
    """
    if not IS_LINUX:
        return
    libc = _libc()
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, and their upper halves
    _check(libc.capget(header, sets))
    remaining = sum(1 << number for number in rights) & sets[1]
    _check(libc.capset(header, (ctypes.c_uint32 * 6)(remaining, remaining, remaining, 0, 0, 0)))
    for number in rights:
        if remaining >> number & 1:
            _prctl(libc, _AMBIENT, _RAISE, number)
    if remaining:
        # Twisted starts processes faster with this flag, which lets it read its own /proc entry.
        # The flag also lets the user's debuggers attach, and read root's environment, unless the
        # process has capabilities that the user lacks. So it is set only with capabilities.
        _prctl(libc, _SET_DUMPABLE, 1)


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(libc: Any, *words: int) -> None:
    _check(libc.prctl(*words, *[0] * (5 - len(words))))


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
