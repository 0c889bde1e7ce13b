"""Changes of settings at run time: stored, audited, and applied in every metagame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.signals import Signal
from svcserver.metagame.accounts.audit import Audit, AuditEntry, Trace
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.owner.settings import rules
from svcserver.metagame.owner.settings.store import SqlSettings
from svcserver.metagame.settings import MetagameSettings

log = Logger()

EVERY_S = 1.0  # other metagames and the dashboards of other hosts use the same database


@define(eq=False)
class LiveSettings:
    """The settings that may change at run time; each change sends the signal ``changed``."""

    settings: MetagameSettings
    audit: Audit
    registration: Registration
    changed: Signal[MetagameSettings] = field(factory=Signal)
    _stored: Mapping[str, str] = field(factory=dict, init=False)
    _started: dict[str, Any] = field(factory=dict, init=False)  # the values at the start
    _changes: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        for name, attribute in rules.LIVE.items():
            self._started[name] = getattr(self.settings, attribute.name)

    def load(self, tx: Connection) -> None:
        """Apply the stored values, before the first request."""
        self._take(SqlSettings(tx).all())

    def refresh(self) -> Deferred[None]:
        """Apply values that other processes stored."""
        return Deferred.fromCoroutine(self._refresh())

    async def _refresh(self) -> None:
        changes = self._changes
        stored = await self.audit.ledger.read_snapshot(lambda tx: SqlSettings(tx).all())
        if changes == self._changes:  # otherwise the values are older than our last change
            self._take(stored)

    async def change(self, by: str, name: str, value: str | None, reason: str = "") -> None:
        """Store and apply a value, or restore the env file's value if ``value`` is None.

        Raises Missing if the setting cannot be changed at run time, and Malformed for a bad value.
        """
        is_mode = name == rules.REGISTRATION_MODE
        mode = await self.registration.mode() if is_mode else None

        def act(tx: Connection, trace: Trace) -> Mapping[str, str]:
            store = SqlSettings(tx)
            rules.check_is_live(name)
            before = self._value_of(name, store.all())
            trace.before = {"value": rules.shown(mode if is_mode else before)}
            if value is None:
                store.drop(name)
                trace.after = {"value": rules.shown(self._started[name])}
            else:
                trace.after = {"value": rules.shown(rules.parsed(name, value))}
                store.put(name, value, by, self.audit.wall_clock())
            if is_mode:
                self.registration.end(tx)  # drops the mode that svcctl registration set
            return store.all()

        stored = await self.audit.write(AuditEntry(by, "setting", name, reason), act, ACROSS)
        self._changes += 1
        self._take(stored)

    def value(self, name: str) -> str:
        return rules.shown(getattr(self.settings, rules.LIVE[name].name))

    def is_changed(self, name: str) -> bool:
        """Return whether a stored value replaces the value in the env file."""
        return name in self._stored

    def _take(self, stored: Mapping[str, str]) -> None:
        if stored == self._stored:
            return
        before, self._stored = self._stored, stored
        for name in sorted({*before, *stored} & rules.LIVE.keys()):
            if before.get(name) == stored.get(name):
                continue
            value = self._value_of(name, stored)
            setattr(self.settings, rules.LIVE[name].name, value)
            log.info("{name} is now {value}", name=name, value=rules.shown(value))
        self.changed.send(self.settings)

    def _value_of(self, name: str, stored: Mapping[str, str]) -> Any:
        """Return the stored value of a setting.

        If no valid value is stored, return the value with which the metagame started.
        """
        if name in stored:
            try:
                return rules.parsed(name, stored[name])
            except Refusal as error:
                log.warn("a stored setting is invalid and is ignored: {why}", why=error.message)
        return self._started[name]


def settings_watch(live: LiveSettings, clock: IReactorTime) -> Every:
    """Return the service that calls ``refresh`` every ``EVERY_S``."""
    return Every(clock, EVERY_S, live.refresh, "the check for changed settings")
