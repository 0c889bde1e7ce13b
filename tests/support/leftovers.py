"""A plugin of pytest: what a failed test leaves open fails no other.

A socket in the frames of a failed test is collected while the next test runs, which then fails
with its ``ResourceWarning``. Two failures look like two faults.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator

import pytest
from pytest_twisted import blockon
from twisted.internet import reactor
from twisted.internet.task import deferLater

_has_failed = pytest.StashKey[bool]()


def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """It has failed."""
    node.stash[_has_failed] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Close unseen what it has left open, once it has been told that it failed."""
    done = yield
    if item.stash.get(_has_failed, False):
        blockon(deferLater(reactor, 0))  # whoever called the test back ends, and lets go
        for name in ("last_exc", "last_type", "last_value", "last_traceback"):
            vars(sys).pop(name, None)  # what a debugger would ask for holds the frames
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return done
