"""The functions of Windows that Python's library lacks, such as those for dialogs and jobs."""

import ctypes
import importlib
import os
import struct
import threading
import uuid
import weakref
from collections.abc import Callable, Collection
from ctypes import byref, c_void_p, c_wchar_p
from ctypes.wintypes import BOOL, DWORD, HANDLE, LPARAM, LPVOID
from pathlib import Path
from typing import Any

TITLE = "svc launcher"  # of dialogs, and of the entries in the Start menu
SUSPENDED = 0x4  # CREATE_SUSPENDED, for WindowsJob.start
CLOSE_S = 4.5  # Windows ends a program 5 s after the user has closed its console

_GENERIC_WRITE, _CREATE_NEW, _NORMAL = 0x40000000, 1, 0x80
_TOKEN_QUERY, _TOKEN_USER, _REVISION = 8, 1, 1
_ERROR_DIALOG, _INFO_DIALOG, _FOREGROUND = 0x10, 0x40, 0x10000
_DOWNLOADS = "{374DE290-123F-4565-9164-39C4925E467B}"
_IN_PROCESS = 1
_WM_CLOSE = 0x10
_CTRL_CLOSE_EVENT = 2  # greater numbers: the user logs off, or the PC shuts down
_PROCESS_RIGHTS = 0x901  # to terminate, to put into a job, to suspend and resume
_PROCESS_IDS, _LIMITS = 3, 9  # classes of information about a job
_LIMITS_SIZE, _FLAGS_AT = 144, 16  # of JOBOBJECT_EXTENDED_LIMIT_INFORMATION
_KILL_ON_CLOSE, _BREAKAWAY_OK = 0x2000, 0x800
_MOST_PROCESSES = 1000  # of a job; more are not asked to close
_SHELL_LINK = "{00021401-0000-0000-C000-000000000046}"
_ISHELL_LINK = "{000214F9-0000-0000-C000-000000000046}"
_IPERSIST_FILE = "{0000010B-0000-0000-C000-000000000046}"
# places in the tables of methods
_QUERY, _RELEASE, _SET_DESCRIPTION, _SET_FOLDER, _SET_PATH, _SAVE = 0, 2, 7, 9, 20, 6


class _SecurityAttributes(ctypes.Structure):
    _fields_ = (("length", DWORD), ("descriptor", LPVOID), ("inherit", BOOL))


def _library(name: str) -> Any:
    """Load a Windows library, with access to the error codes of its calls."""
    return getattr(ctypes, "WinDLL")(name, use_last_error=True)  # noqa: B009 - Windows only


def _function_type(*types: Any) -> Any:
    """Return a ctypes function type; ``types`` are the result type, then the parameter types."""
    return getattr(ctypes, "WINFUNCTYPE")(*types)  # noqa: B009 - Windows only


def _checked(result: Any) -> Any:
    """Return the result of a call; raise OSError if the result is zero."""
    if not result:
        module: Any = ctypes
        raise module.WinError(module.get_last_error())
    return result


def user_sid() -> str:
    """Return the identifier of the user that runs this program."""
    advapi, kernel = _library("advapi32"), _library("kernel32")
    kernel.GetCurrentProcess.restype = HANDLE
    advapi.OpenProcessToken.argtypes = (HANDLE, DWORD, c_void_p)
    advapi.ConvertSidToStringSidW.argtypes = (c_void_p, c_void_p)
    token, size, text = HANDLE(), DWORD(), c_wchar_p()
    _checked(advapi.OpenProcessToken(kernel.GetCurrentProcess(), _TOKEN_QUERY, byref(token)))
    try:
        advapi.GetTokenInformation(token, _TOKEN_USER, None, 0, byref(size))
        user = ctypes.create_string_buffer(size.value)
        _checked(advapi.GetTokenInformation(token, _TOKEN_USER, user, size, byref(size)))
    finally:
        kernel.CloseHandle(token)
    sid = c_void_p.from_buffer(user)  # the first field is the pointer to the identifier
    _checked(advapi.ConvertSidToStringSidW(sid, byref(text)))
    try:
        return str(text.value)
    finally:
        kernel.LocalFree(ctypes.cast(text, c_void_p))


def create_private(path: Path) -> int:
    """Create a file that only this user can open; return its descriptor for writing."""
    advapi, kernel = _library("advapi32"), _library("kernel32")
    kernel.CreateFileW.restype = HANDLE
    kernel.CreateFileW.argtypes = (c_wchar_p, DWORD, DWORD, c_void_p, DWORD, DWORD, HANDLE)
    rights = f"D:P(A;;FA;;;{user_sid()})"  # protected: no rights come from the folder
    descriptor = c_void_p()
    make = advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW
    _checked(make(c_wchar_p(rights), _REVISION, byref(descriptor), None))
    try:
        attributes = _SecurityAttributes(ctypes.sizeof(_SecurityAttributes), descriptor, False)
        handle = kernel.CreateFileW(
            str(path), _GENERIC_WRITE, 0, byref(attributes), _CREATE_NEW, _NORMAL, None
        )
        _checked(handle != c_void_p(-1).value)
    finally:
        kernel.LocalFree(descriptor)
    descriptor_of: Any = importlib.import_module("msvcrt")
    file: int = descriptor_of.open_osfhandle(handle, os.O_WRONLY)
    return file


def show_dialog(text: str, *, error: bool = False) -> None:
    """Show a text in a dialog, and wait until the user presses OK."""
    kind = _ERROR_DIALOG if error else _INFO_DIALOG
    _library("user32").MessageBoxW(None, c_wchar_p(text), c_wchar_p(TITLE), kind | _FOREGROUND)


def downloads_folder() -> str:
    """Return the user's downloads folder, which the user may have moved; raises OSError."""
    ole: Any = getattr(ctypes, "oledll")  # noqa: B009 - Windows only; raises for failures
    path = c_wchar_p()
    ole.shell32.SHGetKnownFolderPath(_guid(_DOWNLOADS), 0, None, byref(path))
    try:
        return str(path.value)
    finally:
        _library("ole32").CoTaskMemFree(path)


_handlers: list[Any] = []  # keeps the functions that Windows calls


def on_console_close(stop: Callable[[], object]) -> bool:
    """Call ``stop`` in another thread when the console closes, the user logs off or the PC stops.

    Windows kills this program when the handler returns, so the handler waits for ``CLOSE_S``. The
    result is False if Windows refuses to register the handler.
    """

    def handle(event: int) -> bool:
        if event < _CTRL_CLOSE_EVENT:
            return False  # Ctrl-C, for which Python has a handler
        stop()
        threading.Event().wait(CLOSE_S)
        return True

    _handlers.append(_function_type(BOOL, DWORD)(handle))
    return bool(_library("kernel32").SetConsoleCtrlHandler(_handlers[-1], True))


class WindowsJob:
    """A Windows job: a process and all processes that it starts, directly or indirectly.

    Windows ends these processes when the job is closed, at the latest when the launcher ends.
    """

    def __init__(self) -> None:
        self._kernel = _library("kernel32")
        self._kernel.CreateJobObjectW.restype = HANDLE
        self._kernel.OpenProcess.restype = HANDLE
        self._handle = HANDLE(_checked(self._kernel.CreateJobObjectW(None, None)))
        weakref.finalize(self, self._kernel.CloseHandle, self._handle)
        limits = ctypes.create_string_buffer(_LIMITS_SIZE)
        struct.pack_into("=I", limits, _FLAGS_AT, _KILL_ON_CLOSE | _BREAKAWAY_OK)
        set_information = self._kernel.SetInformationJobObject
        _checked(set_information(self._handle, _LIMITS, limits, _LIMITS_SIZE))

    def start(self, process: int) -> bool:
        """Put a suspended process into the job, and resume the process; raises OSError.

        The result is False if Windows refuses to put the process into this job, because another
        program's job forbids that. The process then runs outside this job.
        """
        handle = HANDLE(_checked(self._kernel.OpenProcess(_PROCESS_RIGHTS, False, process)))
        try:
            is_inside = bool(self._kernel.AssignProcessToJobObject(self._handle, handle))
            if status := _library("ntdll").NtResumeProcess(handle):
                raise OSError(f"Windows cannot resume the process: status {status & 0xFFFFFFFF:#x}")
        finally:
            self._kernel.CloseHandle(handle)
        return is_inside

    def processes(self) -> list[int]:
        """Return the ids of the processes in the job that still run."""
        size = 8 + 8 * _MOST_PROCESSES
        ids = ctypes.create_string_buffer(size)
        query = self._kernel.QueryInformationJobObject
        query(self._handle, _PROCESS_IDS, ids, size, None)  # may fail, with only the first ids
        _, count = struct.unpack_from("=II", ids)
        return list(struct.unpack_from(f"={count}Q", ids, 8))

    def end(self) -> None:
        """End all processes of the job."""
        self._kernel.TerminateJobObject(self._handle, 1)


def close_windows(processes: Collection[int]) -> None:
    """Ask the visible windows of these processes to close, as the button in their corner does."""
    user = _library("user32")

    def ask(window: int, _: int) -> bool:
        owner = DWORD()
        user.GetWindowThreadProcessId(HANDLE(window), byref(owner))
        if owner.value in processes and user.IsWindowVisible(HANDLE(window)):
            user.PostMessageW(HANDLE(window), _WM_CLOSE, 0, 0)
        return True

    user.EnumWindows(_function_type(BOOL, HANDLE, LPARAM)(ask), 0)


def make_shortcut(file: Path, program: Path, description: str) -> None:
    """Write a shortcut (.lnk) to a program; raises OSError."""
    ole: Any = getattr(ctypes, "oledll").ole32  # noqa: B009 - Windows only; raises for failures
    ole.CoInitialize(None)
    try:
        link = c_void_p()
        ole.CoCreateInstance(
            _guid(_SHELL_LINK), None, _IN_PROCESS, _guid(_ISHELL_LINK), byref(link)
        )
        try:
            _call(link, _SET_PATH, c_wchar_p(str(program)))
            _call(link, _SET_FOLDER, c_wchar_p(str(program.parent)))
            _call(link, _SET_DESCRIPTION, c_wchar_p(description))
            stored = c_void_p()
            _call(link, _QUERY, _guid(_IPERSIST_FILE), byref(stored))
            try:
                _call(stored, _SAVE, c_wchar_p(str(file)), BOOL(True))
            finally:
                _call(stored, _RELEASE)
        finally:
            _call(link, _RELEASE)
    finally:
        ole.CoUninitialize()


def _guid(text: str) -> Any:
    return ctypes.create_string_buffer(uuid.UUID(text).bytes_le, 16)


def _call(thing: Any, place: int, *arguments: Any) -> None:
    """Call a COM method by its index in the object's table; raises OSError if the call fails."""
    table = ctypes.cast(thing, ctypes.POINTER(ctypes.POINTER(c_void_p)))[0]
    types = [type(argument) if hasattr(argument, "value") else c_void_p for argument in arguments]
    method = _function_type(ctypes.c_long, c_void_p, *types)(table[place])
    result = method(thing, *arguments)
    if result < 0:
        module: Any = ctypes
        raise module.WinError(result)
