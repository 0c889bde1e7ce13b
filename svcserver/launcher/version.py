"""Which launcher this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def launcher_version() -> str:
    """The version of what is installed: the launcher alone, or the whole project."""
    for name in ("svc-launcher", "svcserver"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
