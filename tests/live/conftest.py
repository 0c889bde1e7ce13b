"""The longest live test begins with the session: a second core would have nothing to do."""

from __future__ import annotations

import pytest

from tests.live import parity

_running: dict[pytest.Session, parity.Run] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin where it is among what shall run, and not all that shall."""
    wanted = any(item.name == parity.TEST for item in session.items)
    if wanted and len(session.items) > 1 and not session.config.option.collectonly:
        _running[session] = parity.Run()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what nobody waits for any more."""
    if session in _running:
        _running.pop(session).end()


@pytest.fixture
def parity_run(request: pytest.FixtureRequest) -> parity.Run:
    """The run that has begun, or a new one."""
    if request.session not in _running:
        _running[request.session] = parity.Run()
    return _running[request.session]
