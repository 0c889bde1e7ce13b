"""What pytest and trial would do anew for each test, and what needs doing once."""

from __future__ import annotations

import functools
from typing import Any

import _pytest.unittest as in_pytest
from twisted.trial import _synctest as in_trial


def install() -> None:
    """Both take a tenth of the fast half, as they are: they grow with what is imported."""
    # it reads Twisted's metadata from disk, for each test; trial is imported, so it stays the same
    in_pytest._get_twisted_version = functools.cache(in_pytest._get_twisted_version)
    in_trial._setWarningRegistryToNone = _leave_registries


def _leave_registries(modules: dict[str, Any]) -> None:
    """Trial's next line changes the filters, by which Python forgets what it has warned of.

    Trial would also set an attribute of each module that is imported.
    """
