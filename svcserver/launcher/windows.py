"""The calls to Windows that Python's library lacks: private files, shortcuts and dialogs."""

from __future__ import annotations

import ctypes
import importlib
import os
import uuid
from ctypes import byref, c_void_p, c_wchar_p
from ctypes.wintypes import BOOL, DWORD, HANDLE, LPVOID
from pathlib import Path
from typing import Any

_GENERIC_WRITE, _CREATE_NEW, _NORMAL = 0x40000000, 1, 0x80
_TOKEN_QUERY, _TOKEN_USER, _REVISION = 8, 1, 1
_ERROR_DIALOG, _INFO_DIALOG, _FOREGROUND = 0x10, 0x40, 0x10000
_IN_PROCESS = 1
_SHELL_LINK = "{00021401-0000-0000-C000-000000000046}"
_ISHELL_LINK = "{000214F9-0000-0000-C000-000000000046}"
_IPERSIST_FILE = "{0000010B-0000-0000-C000-000000000046}"
# places in the tables of methods
_QUERY, _RELEASE, _SET_DESCRIPTION, _SET_FOLDER, _SET_PATH, _SAVE = 0, 2, 7, 9, 20, 6


class _SecurityAttributes(ctypes.Structure):
    _fields_ = (("length", DWORD), ("descriptor", LPVOID), ("inherit", BOOL))


def _library(name: str) -> Any:
    """Return a library of Windows whose calls store the system's last error code."""
    return getattr(ctypes, "WinDLL")(name, use_last_error=True)  # noqa: B009 - Windows only


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
    """Create a file that only this user may open; return its descriptor for writing."""
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
    """Show a text with an OK button, and wait for it."""
    kind = _ERROR_DIALOG if error else _INFO_DIALOG
    _library("user32").MessageBoxW(None, c_wchar_p(text), c_wchar_p("Launcher"), kind | _FOREGROUND)


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
    kind: Any = getattr(ctypes, "WINFUNCTYPE")  # noqa: B009 - Windows only
    result = kind(ctypes.c_long, c_void_p, *types)(table[place])(thing, *arguments)
    if result < 0:
        module: Any = ctypes
        raise module.WinError(result)
