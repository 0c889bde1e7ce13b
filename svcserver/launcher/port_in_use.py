"""Finds the program that uses the game's port, so that a message can name that program."""

import socket
import struct
import sys
from pathlib import PureWindowsPath

from svcserver.kernel.foreign_text import plain
from svcserver.kernel.port_holders import PortHolder, port_holder

_OURS = ("svc-metagame", "svc-relay", "svc-launcher")
_ROW = struct.Struct("=I4sHxxIII")  # MIB_TCPROW_OWNER_PID: state, address, port, remote, process
_IPV4, _LISTENERS = 2, 3  # AF_INET, TCP_TABLE_OWNER_PID_LISTENER
_LIMITED_INFORMATION = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION
_LONGEST_NAME = 64  # characters; another user may have chosen the name
_LONGEST_PATH = 32_768  # characters


def program_on(host: str, port: int) -> str:
    """Return a text such as "Hunt.exe (process 7)" for the program that listens on an address.

    The text is "another program" if the program cannot be found. This call blocks.
    """
    if sys.platform == "win32":
        process = windows_process(host, port)
        name = windows_name(process) if process else ""
    else:
        holder = port_holder(host, port, _is_ours)
        process, name = (holder.pid, holder.program) if holder is not None else (0, "")
    return f"{plain(name[:_LONGEST_NAME])} (process {process})" if name else "another program"


def _is_ours(candidate: PortHolder) -> bool:
    return candidate.program in _OURS


def process_in(table: bytes, host: str, port: int) -> int:
    """Return the id of the process that ``table`` lists for this address and port, or 0."""
    addresses = (socket.inet_aton(host), bytes(4))
    for row in _ROW.iter_unpack(table[: len(table) // _ROW.size * _ROW.size]):
        _, address, number, _, _, process = row
        if address in addresses and socket.ntohs(number) == port:
            return int(process)
    return 0


if sys.platform == "win32":
    import ctypes

    def windows_process(host: str, port: int) -> int:
        """Return the id of the process that listens on an address; 0 if none or unknown."""
        size = ctypes.c_ulong(0)
        table = ctypes.create_string_buffer(0)
        listeners = ctypes.WinDLL("iphlpapi").GetExtendedTcpTable
        for _ in range(3):  # the table may grow between two calls
            if not listeners(table, ctypes.byref(size), False, _IPV4, _LISTENERS, 0):
                [count] = struct.unpack_from("=I", table)
                return process_in(table.raw[4 : 4 + count * _ROW.size], host, port)
            table = ctypes.create_string_buffer(size.value)
        return 0

    def windows_name(process: int) -> str:
        """Return the file name of a process's program; "" if it is not visible."""
        kernel = ctypes.WinDLL("kernel32")
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = kernel.OpenProcess(_LIMITED_INFORMATION, False, process)
        if not handle:
            return ""
        path, size = ctypes.create_unicode_buffer(_LONGEST_PATH), ctypes.c_ulong(_LONGEST_PATH)
        handle = ctypes.c_void_p(handle)
        is_known = kernel.QueryFullProcessImageNameW(handle, 0, path, ctypes.byref(size))
        kernel.CloseHandle(handle)
        return PureWindowsPath(path.value).name if is_known else ""
