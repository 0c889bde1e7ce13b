"""The alert rules: a fault is reported when it begins, daily while it lasts, and when it ends."""

from collections import Counter

from attrs import define, evolve, field, frozen

from svcserver.kernel.alert_settings import AlertKind
from svcserver.kernel.host_state import MOST_INCIDENTS, Incident

REPEAT_S = 24 * 3600.0
MOST = 200  # maximum number of current faults
MAX_TEXT = 500  # characters
WELL_CHECKS = 3  # a fault is over after this many checks without the fault


TITLES = {
    AlertKind.DOWN: "is down",
    AlertKind.LOOP: "restarts in a loop",
    AlertKind.DISK: "disk is low",
    AlertKind.CERTIFICATE: "certificate ends",
    AlertKind.BACKUP: "backup failed",
    AlertKind.ERRORS: "errors rise",
    AlertKind.ATTACK: "is under attack",
    AlertKind.NODE: "is lost",
    AlertKind.AGENT: "has no connected agent",
    AlertKind.MEMORY: "has no memory for a launch",
    AlertKind.TEST: "test",
}
INTERMITTENT = (AlertKind.ERRORS, AlertKind.ATTACK, AlertKind.MEMORY)


@frozen
class Alert:
    """A fault in ``subject``; ``what`` is its kind, and ``over`` is True if it has ended."""

    what: AlertKind
    subject: str
    text: str
    at: float  # epoch seconds
    over: bool = False

    @property
    def title(self) -> str:
        """The title, such as ``gateway is down``; ``: over`` is added when the fault has ended."""
        title = f"{self.subject} {TITLES[self.what]}"
        return f"{title}: over" if self.over else title


@define
class Faults:
    """The current faults; call ``update`` with the result of every check, good or bad."""

    _reported: dict[tuple[AlertKind, str], float] = field(factory=dict, init=False)
    _well_checks: Counter[tuple[AlertKind, str]] = field(factory=Counter, init=False)

    def update(self, what: AlertKind, subject: str, wrong: str | None, now: float) -> Alert | None:
        """Return the alert to send, or None; ``wrong`` is the text of a fault, or None."""
        key = what, subject
        reported_at = self._reported.get(key)
        if wrong is None:
            if reported_at is None:
                return None
            self._well_checks[key] += 1
            if what in INTERMITTENT and self._well_checks[key] < WELL_CHECKS:
                return None
            del self._reported[key], self._well_checks[key]
            return Alert(what, subject, "The fault has ended.", now, over=True)
        self._well_checks.pop(key, None)
        if reported_at is not None and now - reported_at < REPEAT_S:
            return None
        if reported_at is None and len(self._reported) >= MOST:
            return None
        self._reported[key] = now
        return Alert(what, subject, " ".join(wrong.split())[:MAX_TEXT], now)


def note(incidents: tuple[Incident, ...], alert: Alert) -> tuple[Incident, ...]:
    """Return the incidents, newest first, with the changes that the alert causes.

    An alert begins an incident, confirms it or ends it.
    """
    title = evolve(alert, over=False).title
    for at, incident in enumerate(incidents):
        if incident.title == title and incident.until is None:
            ended = evolve(incident, until=alert.at) if alert.over else incident
            return (*incidents[:at], ended, *incidents[at + 1 :])
    if alert.over:
        return incidents
    return (Incident(title, alert.text, alert.at), *incidents)[:MOST_INCIDENTS]


@define
class HeldAlerts:
    """The alerts held back in quiet hours.

    A fault that begins and ends within the quiet hours causes no alert.
    """

    most: int = MOST
    _alerts: dict[tuple[AlertKind, str], Alert] = field(factory=dict, init=False)

    def hold(self, alert: Alert) -> None:
        """Hold an alert until the quiet hours end; it replaces an older alert for the same fault.

        If a fault ends while its first alert is still held, both alerts are dropped.
        """
        key = alert.what, alert.subject
        previous = self._alerts.pop(key, None)
        if alert.over and previous is not None and not previous.over:
            return
        if len(self._alerts) < self.most:
            self._alerts[key] = alert

    def release(self) -> list[Alert]:
        """Return the held alerts and clear them."""
        alerts, self._alerts = list(self._alerts.values()), {}
        return alerts
