"""The launcher's version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def launcher_version() -> str:
    """Return the installed version: of the launcher alone, or of the whole project."""
    for name in ("svc-launcher", "svcserver"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
