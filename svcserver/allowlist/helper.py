"""The allowlist helper, which turns reports of players' addresses into firewall rules.

The helper also writes an audit log. Spec: 2 §4 Allowlist helper.
"""

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.allowlist.applier import Applied, Applier, Ips
from svcserver.allowlist.entries import Entries, Full, InvalidIp, canonical, home
from svcserver.allowlist.firewall import DryRun, Firewall
from svcserver.allowlist.persistence import AddressLog, StateFile
from svcserver.allowlist.programs import FirewallError
from svcserver.allowlist.scripts import PortRange, Rule
from svcserver.kernel.every import Every
from svcserver.kernel.times import iso

log = Logger()

CHECK_S = 1.0
SAVE_S = 30.0
LOOK_S = 5.0  # between checks that a reload of the host's firewall has not removed the rule


@define(eq=False)
class Helper:
    """The helper that opens ports for reported addresses; ``wall_clock`` gives epoch seconds."""

    clock: IReactorTime
    wall_clock: Callable[[], float]
    entries: Entries
    firewall: Firewall
    ports: PortRange
    audit: AddressLog
    state: StateFile
    allow_private: bool = False
    interval_s: float = 3.0
    applier: Applier = field(init=False)
    _rounds: Every = field(init=False)
    _saved_at: float = field(default=0.0, init=False)
    _checked_at: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.applier = Applier(
            self.clock, self._apply, self.wall_clock, self._on_applied, self.interval_s
        )
        self._rounds = Every(self.clock, CHECK_S, self._check, "the check of expired addresses")

    @property
    def dry_run(self) -> bool:
        """True if the firewall is never changed (ALLOWLIST_DRY_RUN)."""
        return isinstance(self.firewall, DryRun)

    def start(self) -> None:
        """Restore the saved addresses and apply the firewall rule."""
        restored = self.entries.restore(
            self.state.load(), self.wall_clock(), allow_private=self.allow_private
        )
        self.audit.write(
            "start",
            dryRun=self.dry_run,
            ports=str(self.ports),
            backend=self.firewall.name,
            restored=restored,
        )
        self.applier.want(self.entries.addresses())
        self._saved_at = self._checked_at = self.wall_clock()
        self._rounds.startService()

    async def stop(self) -> None:
        self._rounds.stopService()
        await self.applier.stop()
        try:
            await self.close()
        except FirewallError as why:
            log.error(
                "the game ports are still open: {why}; run: svcctl allowlist close-ports",
                why=str(why),
            )
        self._save()
        self.audit.write("stop")

    async def close(self) -> None:
        try:
            await self._apply(())
        except FirewallError as why:
            self.audit.write("rule_failed", ips=0, error=str(why))
            raise
        self.audit.write("closed_ports")

    def allow(self, value: Any) -> tuple[str, bool]:
        """Open the ports for an address; return its canonical form and whether it is new.

        Raises InvalidIp or Full.
        """
        try:
            ip = canonical(value, allow_private=self.allow_private)
        except InvalidIp as why:
            self.audit.refused(why.reason, value)
            raise
        self._expire()
        for gone in self.entries.displace_for(ip):
            self.audit.write("displaced", ip=gone, by=ip)
        try:
            added = self.entries.report(ip, self.wall_clock())
        except Full:
            self.audit.write("full", ip=ip)
            raise
        if added:
            self.audit.write("added", ip=ip)
            self._changed()
        return ip, added

    def withdraw(self, value: Any) -> list[str]:
        """Remove a network's addresses from the firewall at once; return them. Raises InvalidIp."""
        try:
            gone = self.entries.withdraw(home(value))
        except InvalidIp as why:
            self.audit.refused(why.reason, value)
            raise
        for ip in gone:
            self.audit.write("withdrawn", ip=ip)
        if gone:
            self._save()
            self.applier.want(self.entries.addresses(), at_once=True)
        return gone

    def status(self) -> dict[str, Any]:
        """Return the body of ``GET /status``."""
        self._expire()
        last = self.applier.last
        return {
            "dryRun": self.dry_run,
            "allowPrivate": self.allow_private,
            "ttlSeconds": int(self.entries.ttl_s),
            "ports": str(self.ports),
            "entries": [
                {"ip": entry.ip, "expiresAt": iso(entry.expires_at)} for entry in self.entries.all()
            ],
            "pending": self.applier.pending,
            "lastApply": None if last is None else _shown(last),
            "backend": self.firewall.name,
        }

    def _check(self) -> None:
        """Remove expired addresses, save the state, and check that the firewall rule exists."""
        self._expire()
        if self.wall_clock() - self._saved_at >= SAVE_S:
            self._save()
        if self.wall_clock() - self._checked_at >= LOOK_S:
            self._checked_at = self.wall_clock()
            self.applier.check(self._holds)

    def _expire(self) -> None:
        over = self.entries.expire(self.wall_clock())
        for ip in over:
            self.audit.write("expired", ip=ip)
        if over:
            self._changed()

    def _changed(self) -> None:
        self._save()
        self.applier.want(self.entries.addresses())

    def _save(self) -> None:
        self._saved_at = self.wall_clock()
        self.state.save(self.entries.all(), self.wall_clock())

    async def _apply(self, ips: Ips) -> None:
        rule = Rule(ips, self.ports)
        if self.dry_run:
            self.audit.write("dry_run", script=self.firewall.describe(rule))
        await self.firewall.apply(rule)

    async def _holds(self, ips: Ips) -> bool:
        there = await self.firewall.holds(Rule(ips, self.ports))
        if not there:
            self.audit.write("rule_lost", ips=len(ips))
            log.warn("another program removed the firewall rule; applying it again")
        return there

    def _on_applied(self, last: Applied) -> None:
        if last.ok:
            self.audit.write("rule_applied", enabled=bool(last.ips), ips=len(last.ips))
            return
        self.audit.write("rule_failed", ips=len(last.ips), error=last.error)
        log.error("the firewall rule could not be applied: {why}; trying again", why=last.error)


def _shown(last: Applied) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "ok": last.ok,
        "enabled": bool(last.ips),
        "ips": len(last.ips),
        "at": iso(last.at),
    }
    return shown if last.ok else {**shown, "error": last.error}
