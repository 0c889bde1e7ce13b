"""The cause and the remedy when the kernel cannot execute a program.

``exec`` reports "No such file or directory" for a script whose interpreter is missing. It reports
"Exec format error" both for a Windows program and for a program for another processor.
"""

import ctypes
import errno
import os
import platform
import select
import shutil
import signal
import struct
import sys
from pathlib import Path

FIRST = 4096  # bytes of the program that are read
TRY_S = 5.0
PTRACE_TRACEME = 0
ELF = b"\x7fELF"
PT_INTERP = 3
MACHINES = {
    0x03: "i386",
    0x08: "mips",
    0x15: "ppc64",
    0x28: "arm",
    0x3E: "x86_64",
    0xB7: "aarch64",
    0xF3: "riscv64",
}


def check_program(path: str, search: str | None = None) -> str:
    """Return a program's absolute path; ``search`` is the PATH for a name without a slash.

    Raises OSError if the program cannot be run.
    """
    program = Path(path).resolve()
    if not program.exists():
        located = shutil.which(path, path=search) if path == os.path.basename(path) else None
        if located is None:
            raise FileNotFoundError(f"{path} does not exist")
        return os.path.abspath(located)
    if not program.is_file():
        raise IsADirectoryError(f"{path} is not a file")
    if not os.access(program, os.X_OK):
        raise PermissionError(f"{path} is not executable")
    return str(program)


def try_program(program: str) -> OSError | None:
    """Execute a program and kill it before its first instruction; return the error, or None.

    Also returns None if the system does not permit the attempt. The kernel stops the process as
    soon as the program is loaded, because the process is traced. The call blocks for at most
    ``TRY_S``.
    """
    if sys.platform != "linux":
        return None
    ptrace = ctypes.CDLL(None).ptrace
    reading, writing = os.pipe()  # exec closes the writing end
    pid = os.fork()
    if pid == 0:
        try:
            if ptrace(PTRACE_TRACEME, 0, 0, 0) == 0:
                os.execv(program, [program])  # noqa: S606 - no shell
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(1)
    os.close(writing)
    try:
        in_time = select.select([reading], [], [], TRY_S)[0]
        number = os.read(reading, 16) if in_time else b""
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        while os.WIFSTOPPED(os.waitpid(pid, 0)[1]):
            continue  # the stop is reported before the exit
    return OSError(int(number), os.strerror(int(number))) if number else None


def cause(program: str, error: OSError) -> str:
    """Return why the program could not be executed, and what to do, in one line."""
    try:
        with Path(program).open("rb") as file:
            head = file.read(FIRST)
    except OSError:
        head = b""
    return f"{program} {_cause(head, error)}"


def _cause(head: bytes, error: OSError) -> str:
    plain_cause = f"cannot be executed: {error.strerror}"
    if error.errno not in (errno.ENOEXEC, errno.ENOENT, errno.EACCES):
        return plain_cause
    if head.startswith(b"#!"):
        return _script(head, plain_cause)
    if head.startswith(ELF):
        return _elf(head, plain_cause)
    if error.errno != errno.ENOEXEC:
        return plain_cause
    if head.startswith(b"MZ"):
        return "is a Windows program; set GAMESERVER_LAUNCHER to a program such as wine"
    if not head:
        return "is empty or cannot be read; copy it again"
    if b"\0" in head:
        return "is not a program this machine can run; copy it again, or set GAMESERVER_LAUNCHER"
    return "is a script without a #! line; begin it with a line such as #!/bin/sh"


def _script(head: bytes, plain_cause: str) -> str:
    line = head.partition(b"\n")[0]
    words = line[2:].split(None, 1)
    if line.endswith(b"\r"):
        return "has Windows line ends (CR LF), also in its #! line; convert it with dos2unix"
    if not words:
        return "has no interpreter in its #! line; write one such as #!/bin/sh"
    interpreter = os.fsdecode(words[0])
    shown = "".join(char if char.isprintable() else "?" for char in interpreter)
    if not os.path.exists(interpreter):
        return f"needs the interpreter {shown}, which does not exist; install it"
    if not os.access(interpreter, os.X_OK) or os.path.isdir(interpreter):
        return f"needs the interpreter {shown}, which is not executable; correct its #! line"
    return plain_cause


def _elf(head: bytes, plain_cause: str) -> str:
    """Return why a Linux program cannot run; for example, its loader is not installed."""
    try:
        order = "<" if head[5] == 1 else ">"
        wide = head[4] == 2
        machine = struct.unpack_from(f"{order}H", head, 18)[0]
        here, name = platform.machine(), MACHINES.get(machine, f"machine {machine}")
        if name != here and (name, here) != ("i386", "x86_64"):
            return f"is built for {name}, and this machine is {here}; use a build for {here}"
        loader = _loader(head, order, wide)
    except (struct.error, IndexError):
        return "is a damaged program file; copy it again"
    if loader and not os.path.exists(loader):
        return f"needs the loader {loader}, which is not installed; install the libraries for it"
    return plain_cause


def _loader(head: bytes, order: str, wide: bool) -> str:
    start = struct.unpack_from(f"{order}Q" if wide else f"{order}I", head, 32 if wide else 28)[0]
    size, count = struct.unpack_from(f"{order}HH", head, 54 if wide else 42)
    for number in range(min(count, 64)):
        at = start + number * size
        if struct.unpack_from(f"{order}I", head, at)[0] == PT_INTERP:
            places = ("Q", 8, 32) if wide else ("I", 4, 16)
            offset = struct.unpack_from(order + places[0], head, at + places[1])[0]
            length = struct.unpack_from(order + places[0], head, at + places[2])[0]
            return head[offset : offset + length].rstrip(b"\0").decode("ascii", "replace")
    return ""
