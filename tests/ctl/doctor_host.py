"""A host for tests of ``svcctl doctor``, on a fake machine that meets all requirements."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import define, field

from svcserver.board.address import EngineAddress
from svcserver.ctl.doctor.case import Finding, Level
from svcserver.ctl.doctor.command import examine
from svcserver.ctl.doctor.machine import DiskSpace, EngineFacts, FileLimits, Machine, PortState
from svcserver.ctl.host import Host
from svcserver.kernel.port_holders import PortHolder
from tests.ctl.hosts import change
from tests.ctl.test_accounts import HostCase

GB = 1024**3
HEALTHY = {"valkey_version": "8.0.1", "redis_version": "7.2.4", "maxmemory_policy": "noeviction"}


@define
class Quiet(Machine):
    """A fake machine that has everything a host needs, and on which nothing runs."""

    at: float | None = None
    disk: DiskSpace = field(factory=lambda: DiskSpace(100 * GB, 50 * GB))
    files: FileLimits = field(factory=lambda: FileLimits(65_536, 65_536))
    bytes_of_memory: int | None = 16 * GB
    taken: Mapping[int, PortState] = field(factory=dict)
    held: Mapping[int, PortHolder] = field(factory=dict)
    says: Mapping[int, tuple[int, bytes]] = field(factory=dict)
    shows: str = ""
    broken: Mapping[str, OSError] = field(factory=dict)  # programs that are not executed
    root: bool = True
    names: Mapping[str, str] = field(factory=dict)
    facts: EngineFacts | Exception | None = None  # None: an engine without faults

    def wall_clock(self) -> float:
        return super().wall_clock() if self.at is None else self.at

    def room(self, path: Path) -> DiskSpace:
        return self.disk

    def executes(self, program: str) -> OSError | None:
        return self.broken.get(program)

    def open_files(self) -> FileLimits:
        return self.files

    def memory(self) -> int | None:
        return self.bytes_of_memory

    def port(self, host: str, port: int, *, udp: bool = False) -> PortState:
        return self.taken.get(port, PortState())

    def holder(
        self, host: str, port: int, component: str = "", *, udp: bool = False
    ) -> PortHolder | None:
        return self.held.get(port)

    def addresses(self, host: str) -> frozenset[str]:
        address = self.names.get(host, host)
        return frozenset([address] if address else [])

    def answer(
        self, host: str, port: int, path: str, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        return self.says.get(port, (0, b""))

    def engine(self, address: EngineAddress) -> EngineFacts:
        if isinstance(self.facts, Exception):
            raise self.facts
        return self.facts or EngineFacts(HEALTHY, self.wall_clock())

    def presented(self, host: str, port: int) -> str:
        return self.shows

    def may_change_firewall(self) -> bool:
        return self.root


class DoctorCase(HostCase):
    def look(self, machine: Machine | None = None) -> Sequence[Finding]:
        return examine(Host(self.folder), self.folder, machine or Quiet())

    def wrong(self, machine: Machine | None = None) -> list[str]:
        return [str(finding) for finding in self.look(machine) if finding.level is Level.WRONG]

    def notes(self, machine: Machine | None = None) -> str:
        return "\n".join(
            str(finding) for finding in self.look(machine) if finding.level is Level.NOTE
        )

    def finds(self, what: str, cure: str, machine: Machine | None = None) -> None:
        """Assert that doctor finds exactly one fault, and gives the advice ``cure``."""
        [line] = self.wrong(machine)
        fault, _, advice = line.partition("; ")
        self.assertIn(what, fault)
        self.assertIn(cure, advice)

    def plant(self, component: str, name: str, new: str) -> None:
        change(self.folder, component, name, new)

    def drop(self, component: str, name: str) -> None:
        path = self.folder / f"{component}.env"
        lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}=")]
        path.write_text("\n".join([*lines, ""]))
