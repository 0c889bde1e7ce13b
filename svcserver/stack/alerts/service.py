"""All that tells the owner when something is wrong, for ``svc-stack`` and ``svc-watch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred, succeed

from svcserver.stack.alerts.facts import Facts, asking, facts_rounds
from svcserver.stack.alerts.posting import Posting, trial_rounds
from svcserver.stack.alerts.watching import HostWatch, alert_rounds
from svcserver.stack.components import Component


@frozen
class Watched:
    """A host to be watched: its settings are in ``config``, its services run in ``data``.

    ``ready`` names the components that serve. ``before`` each look it may find that out.
    ``asked_s``: how often services are asked for their figures.
    """

    config: Path
    data: Path
    components: Sequence[Component]
    ready: Callable[[], set[str]]
    asked_s: float
    before: Callable[[], Deferred[None]] = lambda: succeed(None)
    tells_ends: bool = False  # somebody else says when a component has ended
    backs_up: bool = True  # the host is to have backups


def alerting(reactor: Any, host: Watched) -> tuple[IService, HostWatch]:
    """The service, and what is to be told where a component has ended."""
    posting = Posting(reactor, host.config, host.data)
    names = tuple(one.name for one in host.components)
    watch = HostWatch(host.config, host.data, names, host.ready, posting.tell)
    watch.backs_up = host.backs_up
    facts = Facts(reactor, asking(reactor), host.components, watch, host.asked_s)
    if not host.tells_ends:
        facts.when_new = watch.ended
    made = MultiService()
    for part in (
        posting,
        alert_rounds(reactor, watch, posting, host.before),
        facts_rounds(facts),
        trial_rounds(reactor, posting),
    ):
        part.setServiceParent(made)
    return made, watch
