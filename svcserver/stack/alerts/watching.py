"""Looks at the host from the stack: its children, disks, certificate and backups."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.application.service import IService
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from svcserver.kernel import backups, services_down
from svcserver.kernel.every import Every
from svcserver.kernel.settings import parse_env_file
from svcserver.kernel.system import epoch
from svcserver.stack.alerts.disks import Disk, disk_of, low_disks
from svcserver.stack.alerts.posting import Posting
from svcserver.stack.alerts.rules import Alert, Faults, What

log = Logger()
EVERY_S = 15.0
DOWN_S = 45.0  # not ready for so long: a restart takes less
LOOP_S = 600.0
LOOPS = 3  # ends within LOOP_S
SOON_S = 30 * 86_400.0  # before the certificate ends
CERTIFICATE_EVERY_S = 3600.0


@define(eq=False)
class HostWatch:
    """What is wrong with the host; ``ready`` names the components that serve."""

    folder: Path
    data: Path
    wanted: tuple[str, ...]
    ready: Callable[[], set[str]]
    tell: Callable[[Alert], object]
    wall_clock: Callable[[], float] = epoch
    disk: Callable[[Path], Disk] = disk_of
    backs_up: bool = True  # the host is to have backups (BACKUP_AT)
    faults: Faults = field(factory=Faults)
    _away_since: dict[str, float] = field(factory=dict, init=False)
    _ends: dict[str, deque[float]] = field(factory=dict, init=False)
    _expects: bool = field(default=False, init=False)
    _noted: tuple[dict[str, float], float] = field(default=({}, float("-inf")), init=False)
    _certificate: tuple[float, float | None] | None = field(default=None, init=False)

    def ended(self, name: str) -> None:
        """A component has ended by itself."""
        self._ends.setdefault(name, deque(maxlen=LOOPS)).append(self.wall_clock())

    def look(self) -> None:
        """Compare the host with the last look; what began or ended becomes an alert."""
        now = self.wall_clock()
        for what, subject, wrong in self._found(now):
            self.see(what, subject, wrong, now)
        self._note_down(now)

    def _note_down(self, now: float) -> None:
        """Write down what is down, for the overview."""
        down = {one: since for one, since in self._away_since.items() if now - since >= DOWN_S}
        told, at = self._noted
        if down == told and now - at < services_down.AGAIN_S:
            return
        self._noted = down, now
        try:
            services_down.write(self.data, down, now)
        except OSError as why:
            log.error("what is down cannot be written for the overview: {why}", why=why.strerror)

    def see(self, what: What, subject: str, wrong: str | None, now: float) -> None:
        """Tell of a fault that has begun or ended; ``wrong``: what is wrong, or None."""
        alert = self.faults.see(what, subject, wrong, now)
        if alert is not None:
            self.tell(alert)

    def _found(self, now: float) -> Iterator[tuple[What, str, str | None]]:
        ready = self.ready()
        for name in self.wanted:
            yield What.LOOP, name, self._loops(name, now)
            yield What.DOWN, name, self._away(name, name in ready, now)
        for subject, wrong in low_disks(self.folder, self.data, self.disk):
            yield What.DISK, subject, wrong
        yield What.CERTIFICATE, "the gateway's", self._ending(now)
        self._expect_backups(now)
        known = backups.read(self.data)
        yield What.BACKUP, "the host's", known.wrong(now) if known is not None else None

    def _expect_backups(self, now: float) -> None:
        """Once: a host that never has any is then noticed, though nothing else writes that down."""
        if self._expects:
            return
        self._expects = True
        try:
            backups.expect(self.data, now, wanted=self.backs_up)
        except OSError as why:
            log.error(
                "{file} cannot be written: {why}; a host without any backup goes unnoticed",
                file=str(self.data / backups.STATE_FILE),
                why=why.strerror,
            )

    def _away(self, name: str, is_ready: bool, now: float) -> str | None:
        if is_ready:
            self._away_since.pop(name, None)
            return None
        since = self._away_since.setdefault(name, now)
        if now - since < DOWN_S:
            return None
        return (
            f"It has not been ready, or has answered nothing, for {now - since:.0f} s; "
            "look at the stack's lines."
        )

    def _loops(self, name: str, now: float) -> str | None:
        ends = self._ends.get(name)
        if ends is None or len(ends) < LOOPS or now - ends[0] > LOOP_S:
            return None
        return f"It has ended {LOOPS} times within {LOOP_S / 60:.0f} minutes."

    def _ending(self, now: float) -> str | None:
        if self._certificate is None or now - self._certificate[0] >= CERTIFICATE_EVERY_S:
            self._certificate = now, certificate_end(self.folder)
        end = self._certificate[1]
        if end is None or end - now > SOON_S:
            return None
        day = datetime.fromtimestamp(end, UTC).date()
        return (
            f"It ends on {day}; svcctl cert make, new invites for all, and svcctl cert switch: "
            'see the page "Letting players in over the internet".'
        )


def certificate_end(folder: Path) -> float | None:
    """When the gateway's certificate ends (epoch seconds); None without one that can be read."""
    from cryptography import x509  # a stack without a gateway needs none of it

    try:
        settings = parse_env_file((folder / "gateway.env").read_text("utf-8-sig"))
        path = folder / settings.get("GATEWAY_CERT", "gateway-cert.pem")
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found.not_valid_after_utc.timestamp()


def alert_rounds(
    reactor: Any,
    watch: HostWatch,
    posting: Posting,
    before: Callable[[], Deferred[None]] = lambda: succeed(None),
) -> IService:
    """The service that looks every ``EVERY_S``, each time after ``before``."""

    def look(_: None) -> None:
        watch.look()
        posting.look()

    def whole() -> Deferred[None]:
        return before().addCallback(look)

    return Every(reactor, EVERY_S, whole, "the look at the host for alerts")
