"""A pytest plugin that stops a failed test's open resources from failing another test.

The frames of a failed test keep its sockets alive. Without the plugin, the garbage collector finds
them during the next test, which then fails with a ``ResourceWarning``.
"""

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
    """Record that the test has failed."""
    node.stash[_has_failed] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Collect the failed test's open resources silently after the failure was reported."""
    done = yield
    if item.stash.get(_has_failed, False):
        blockon(deferLater(reactor, 0))  # so that the caller's frames end, too
        for name in ("last_exc", "last_type", "last_value", "last_traceback"):
            vars(sys).pop(name, None)  # these variables for debuggers hold the frames
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return done
