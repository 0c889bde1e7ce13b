"""The reason why a program cannot be executed, found in the program's first bytes."""

import errno
import os
import platform
import struct
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.executables import MACHINES, cause

HERE = next((number for number, name in MACHINES.items() if name == platform.machine()), 0)


def elf(machine: int = HERE, loader: bytes = b"") -> bytes:
    """Return the beginning of a 64-bit Linux program."""
    head = b"\x7fELF\2\1".ljust(18, b"\0") + struct.pack("<H", machine)
    head = head.ljust(32, b"\0") + struct.pack("<Q", 64)
    head = head.ljust(54, b"\0") + struct.pack("<HH", 56, 1)
    place = struct.pack("<IIQQQQ", 3, 0, 120, 0, 0, len(loader) + 1)
    return (head.ljust(64, b"\0") + place).ljust(120, b"\0") + loader + b"\0"


class CauseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.program = Path(self.enterContext(tempfile.TemporaryDirectory()), "game")

    def cause(self, data: bytes, number: int = errno.ENOEXEC) -> str:
        self.program.write_bytes(data)
        return cause(str(self.program), OSError(number, os.strerror(number)))

    def test_each_cause_is_named_with_its_cure(self) -> None:
        gone = errno.ENOENT
        for data, number, words in (
            (b"MZ\x90\0", errno.ENOEXEC, "Windows program; set GAMESERVER_LAUNCHER"),
            (b"#!/bin/sh\r\n", gone, "CR LF"),
            (b"#! /none/python -u\n", gone, "interpreter /none/python, which does not exist"),
            (b"#!/\n", errno.EACCES, "interpreter /, which is not executable"),
            (b"#!\n", errno.ENOEXEC, "has no interpreter"),
            (elf(0xB7 if HERE != 0xB7 else 0x3E), errno.ENOEXEC, "is built for"),
            (elf(loader=b"/none/ld.so"), gone, "needs the loader /none/ld.so"),
            (b"\x7fELF", errno.ENOEXEC, "damaged"),
            (b"", errno.ENOEXEC, "is empty"),
            (b"echo\n", errno.ENOEXEC, "without a #! line"),
            (b"\0\1", errno.ENOEXEC, "not a program"),
            (b"#!/bin/sh\n", errno.E2BIG, os.strerror(errno.E2BIG)),
            (b"#!/bin/sh\n", errno.EACCES, os.strerror(errno.EACCES)),
        ):
            message = self.cause(data, number)
            self.assertIn(words, message)
            self.assertIn(str(self.program), message)

    def test_unreadable_file_keeps_the_system_error(self) -> None:
        message = cause("/none/at/all", OSError(errno.ENOENT, "No such file or directory"))
        self.assertIn("No such file or directory", message)

    @given(st.binary(max_size=300), st.sampled_from([errno.ENOEXEC, errno.ENOENT, errno.EACCES]))
    def test_any_file_head_gives_one_printable_line(self, data: bytes, number: int) -> None:
        for start in (b"", b"#!", b"\x7fELF\2\1", b"\x7fELF\1\2"):
            self.assertTrue(self.cause(start + data, number).isprintable())
