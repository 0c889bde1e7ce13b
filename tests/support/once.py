"""What pytest and trial would do anew for each test, and what needs doing once."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import _pytest.unittest as in_pytest
from _pytest.fixtures import FixtureManager
from twisted.trial import _synctest as in_trial


def install() -> None:
    """Both take a tenth of the fast half, as they are: they grow with what is imported."""
    # it reads Twisted's metadata from disk, for each test; trial is imported, so it stays the same
    in_pytest._get_twisted_version = functools.cache(in_pytest._get_twisted_version)
    in_trial._setWarningRegistryToNone = _leave_registries
    FixtureManager.parsefactories = _parse_factories  # type: ignore[assignment]


def _leave_registries(modules: dict[str, Any]) -> None:
    """Trial's next line changes the filters, by which Python forgets what it has warned of.

    Trial would also set an attribute of each module that is imported.
    """


_whole_search = FixtureManager.parsefactories


def _parse_factories(self: FixtureManager, *args: Any, **kwargs: Any) -> None:
    """Look for fixtures in a ``TestCase`` only where a class of it has one.

    Pytest would ask for all that each test class inherits, a third of a worker's collection.
    """
    holder = kwargs.get("holder")
    if isinstance(holder, unittest.TestCase):
        classes = type(holder).__mro__
        if not any(_has_fixtures(self, one) for one in classes):
            return
    _whole_search(self, *args, **kwargs)


@functools.cache
def _has_fixtures(manager: FixtureManager, one: type) -> bool:
    """Of its own, also one that a decorator hides, of which pytest warns."""
    return any(manager._find_wrapped_fixture_def(value) for value in vars(one).values())
