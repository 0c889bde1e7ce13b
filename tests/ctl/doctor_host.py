"""A host for ``svcctl doctor`` to look at, on a machine that has all it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import define, field

from svcserver.board.address import Address
from svcserver.ctl.doctor.case import Finding, Level
from svcserver.ctl.doctor.command import examine
from svcserver.ctl.doctor.engine import Told
from svcserver.ctl.doctor.machine import Holder, Limits, Machine, Port, Room
from svcserver.ctl.host import Host
from tests.ctl.hosts import change
from tests.ctl.test_accounts import HostCase

GB = 1024**3
HEALTHY = {"valkey_version": "8.0.1", "redis_version": "7.2.4", "maxmemory_policy": "noeviction"}


@define
class Quiet(Machine):
    """A machine with all that a host needs, on which nothing runs."""

    at: float | None = None
    disk: Room = field(factory=lambda: Room(100 * GB, 50 * GB))
    files: Limits = field(factory=lambda: Limits(65_536, 65_536))
    bytes_of_memory: int | None = 16 * GB
    taken: Mapping[int, Port] = field(factory=dict)
    held: Mapping[int, Holder] = field(factory=dict)
    says: Mapping[int, tuple[int, bytes]] = field(factory=dict)
    shows: str = ""
    broken: Mapping[str, OSError] = field(factory=dict)  # programs that are not executed
    root: bool = True
    names: Mapping[str, str] = field(factory=dict)
    told: Told | Exception | None = None  # None: an engine with which all is well

    def wall_clock(self) -> float:
        return super().wall_clock() if self.at is None else self.at

    def room(self, path: Path) -> Room:
        return self.disk

    def executes(self, program: str) -> OSError | None:
        return self.broken.get(program)

    def open_files(self) -> Limits:
        return self.files

    def memory(self) -> int | None:
        return self.bytes_of_memory

    def port(self, host: str, port: int, *, udp: bool = False) -> Port:
        return self.taken.get(port, Port())

    def holder(
        self, host: str, port: int, component: str = "", *, udp: bool = False
    ) -> Holder | None:
        return self.held.get(port)

    def addresses(self, host: str) -> frozenset[str]:
        found = self.names.get(host, host)
        return frozenset([found] if found else [])

    def answer(
        self, host: str, port: int, path: str, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        return self.says.get(port, (0, b""))

    def engine(self, address: Address) -> Told:
        if isinstance(self.told, Exception):
            raise self.told
        return self.told or Told(HEALTHY, self.wall_clock())

    def presented(self, host: str, port: int) -> str:
        return self.shows

    def may_change_firewall(self) -> bool:
        return self.root


class DoctorCase(HostCase):
    def look(self, machine: Machine | None = None) -> Sequence[Finding]:
        return examine(Host(self.folder), self.folder, machine or Quiet())

    def wrong(self, machine: Machine | None = None) -> list[str]:
        return [str(one) for one in self.look(machine) if one.level is Level.WRONG]

    def notes(self, machine: Machine | None = None) -> str:
        return "\n".join(str(one) for one in self.look(machine) if one.level is Level.NOTE)

    def finds(self, what: str, cure: str, machine: Machine | None = None) -> None:
        """Assert that doctor names this fault and no other, with this advice."""
        [line] = self.wrong(machine)
        found, _, said = line.partition("; ")
        self.assertIn(what, found)
        self.assertIn(cure, said)

    def plant(self, component: str, name: str, new: str) -> None:
        change(self.folder, component, name, new)

    def drop(self, component: str, name: str) -> None:
        path = self.folder / f"{component}.env"
        kept = [one for one in path.read_text().splitlines() if not one.startswith(f"{name}=")]
        path.write_text("\n".join([*kept, ""]))
