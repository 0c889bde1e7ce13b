"""The doctor's findings about the machine: ports, permissions, disk, other hosts. Spec: 2 §8."""

import os
import socket
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from svcserver.allowlist import firewall
from svcserver.ctl.doctor.machine import DiskSpace, FileLimits, Machine, PortState
from svcserver.kernel.port_holders import PortHolder
from tests.ctl.doctor_host import GB, DoctorCase, Quiet
from tests.ctl.hosts import value
from tests.support.proves import proves


class MachineTests(DoctorCase):
    @proves("svcctl doctor")
    def test_a_port_used_by_another_program_is_a_fault(self) -> None:
        for port, name in (
            (61000, "metagame"),
            (61001, "deploy"),
            (61002, "content"),
            (61005, "allowlist"),
            (61099, "chat"),
            (443, "gateway"),
        ):
            machine = Quiet(taken={port: PortState(taken=True)}, says={port: (200, b"<html>")})
            what = f"{port} is used by a program that is not the {name}"
            self.finds(what, "stop that program", machine)

    def test_ports_used_by_the_hosts_own_services_are_no_fault(self) -> None:
        shown = self.ctl("cert", "fingerprint").out.strip()
        says = {
            61000: (200, b'{"playersOnline": 0}'),
            61001: (200, b'{"servers": []}'),
            61002: (200, b'{"files": {}}'),
            61005: (200, b'{"entries": []}'),
            61099: (426, b""),
        }
        taken = {port: PortState(taken=True) for port in (443, *says)}
        self.assertEqual(self.wrong(Quiet(taken=taken, says=says, shows=shown)), [])

    def test_a_port_used_by_another_hosts_gateway_is_a_fault(self) -> None:
        machine = Quiet(taken={443: PortState(taken=True)}, shows="0" * 64)
        self.finds("GATEWAY_PORT 443 is used", "stop that program", machine)

    def test_the_same_component_of_another_host_is_named(self) -> None:
        words = ("python", "twistd", "svc-metagame", "--env-file", "/srv/other/metagame.env")
        machine = Quiet(
            taken={61000: PortState(taken=True)},
            says={61000: (200, b'{"playersOnline": 0}')},
            held={61000: PortHolder(4121, words)},
        )
        what = "PORT 61000 is used by the metagame of the host in /srv/other (process 4121)"
        self.finds(what, "stop that host, or change PORT", machine)

    def test_an_own_component_that_does_not_answer_is_restarted(self) -> None:
        words = ("twistd", "svc-metagame", "--env-file", str(self.folder / "metagame.env"))
        machine = Quiet(taken={61000: PortState(taken=True)}, held={61000: PortHolder(4121, words)})
        self.finds(
            "the metagame listens on PORT 61000 (process 4121), but does not answer",
            "restart",
            machine,
        )

    def test_a_game_server_that_runs_on_is_not_to_be_ended(self) -> None:
        program = value(self.folder, "deploy", "GAMESERVER_BINARY_PATH")
        machine = Quiet(
            taken={8770: PortState(taken=True)}, held={8770: PortHolder(9, (program, "map"))}
        )
        what = "a game server still runs on UDP port 8770 (process 9)"
        self.finds(what, "start the deploy server, which takes this game server over", machine)

    def test_a_real_program_on_a_port_is_found_with_its_pid(self) -> None:
        with closing(socket.socket()) as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.listen()
            stranger.settimeout(0.1)
            port = stranger.getsockname()[1]
            machine = Machine()
            self.assertEqual(machine.port("127.0.0.1", port), PortState(taken=True))
            holder = machine.holder("127.0.0.1", port)
            self.assertEqual(holder and holder.pid, os.getpid())
            self.assertIsNone(machine.holder("127.0.0.2", port))
            with mock.patch("svcserver.ctl.doctor.machine.ANSWER_S", 0.1):
                self.assertEqual(machine.answer("127.0.0.1", port, "/", {}), (0, b""))
                with mock.patch("svcserver.relay.checking.socket.create_connection", fail):
                    self.assertEqual(machine.presented("127.0.0.1", port), "")
        self.assertEqual(machine.port("127.0.0.1", port), PortState())

    def test_the_real_machine_gives_every_value_that_is_checked(self) -> None:
        machine = Machine()
        self.assertGreater(machine.room(self.folder).free, 0)
        self.assertGreater(machine.open_files().hard, 0)
        self.assertGreater(machine.memory() or 1, 0)
        self.assertEqual(machine.addresses("127.0.0.1"), {"127.0.0.1"})
        self.assertEqual(machine.addresses("no.such.host.invalid"), frozenset())
        self.assertIsInstance(machine.may_change_firewall(), bool)

    def test_two_components_on_one_port_are_a_fault(self) -> None:
        self.plant("content", "PORT", "61001")
        self.plant("gateway", "GATEWAY_CONTENT_URL", "http://127.0.0.1:61001")
        self.finds("PORT 61001 is also PORT of the deploy", "a different port")

    def test_two_components_on_one_metrics_port_are_a_fault(self) -> None:
        self.plant("metagame", "METRICS_PORT", "9100")
        self.plant("gateway", "METRICS_PORT", "9100")
        self.finds("METRICS_PORT 9100 is also METRICS_PORT of the metagame", "a different port")

    def test_a_metrics_port_used_by_another_program_is_a_fault(self) -> None:
        self.plant("content", "METRICS_PORT", "9100")
        taken = {9100: PortState(taken=True)}
        stranger = Quiet(taken=taken, says={9100: (200, b"node_load1 0.5")})
        self.finds("METRICS_PORT 9100 is used", "stop that program", stranger)
        self.assertEqual(
            self.wrong(Quiet(taken=taken, says={9100: (200, b"svc_content_bytes_sent 1")})), []
        )

    def test_a_taken_game_port_is_a_fault(self) -> None:
        machine = Quiet(taken={8772: PortState(taken=True)})
        self.finds("UDP port 8772 for game servers is taken", "ss -lunp", machine)

    def test_a_port_that_needs_a_right_is_a_note(self) -> None:
        machine = Quiet(taken={443: PortState(denied=True)})
        self.assertEqual(self.wrong(machine), [])
        self.assertIn("CAP_NET_BIND_SERVICE", self.notes(machine))
        shown = self.ctl("cert", "fingerprint").out.strip()
        runs = Quiet(taken={443: PortState(denied=True)}, shows=shown)
        self.assertNotIn("CAP_NET_BIND_SERVICE", self.notes(runs))

    def test_a_disk_with_100_mb_left_is_a_fault_and_with_1_gb_a_note(self) -> None:
        self.finds("has 100 MB left", "make room", Quiet(disk=DiskSpace(100 * GB, 100 * 1024**2)))
        low = Quiet(disk=DiskSpace(100 * GB, GB))
        self.assertEqual(self.wrong(low), [])
        self.assertIn("has 1024 MB left", self.notes(low))

    def test_a_low_limit_of_open_files_is_a_fault(self) -> None:
        self.finds("may open 1024 files", "LimitNOFILE=4224", Quiet(files=FileLimits(1024, 1024)))
        self.finds("may open 4096 files", "LimitNOFILE=4224", Quiet(files=FileLimits(256, 4096)))

    def test_a_low_limit_that_each_service_raises_itself_is_no_finding(self) -> None:
        usual = Quiet(files=FileLimits(1024, 65_536))
        self.assertEqual(self.wrong(usual), [])
        self.assertNotIn("LimitNOFILE", self.notes(usual))

    def test_too_little_memory_for_any_game_server_is_a_note(self) -> None:
        self.assertIn("lower GAMESERVER_MIN_FREE_MB", self.notes(Quiet(bytes_of_memory=2 * GB)))

    def test_a_clock_that_is_behind_is_a_fault(self) -> None:
        yesterday = datetime.now(UTC).timestamp() - 7200
        self.finds("the clock is behind", "timedatectl", Quiet(at=yesterday))

    def test_a_missing_firewall_program_is_a_fault(self) -> None:
        self.plant("allowlist", "ALLOWLIST_DRY_RUN", "0")

        def nothing(name: str) -> None:
            """Return None: no firewall program is installed."""

        with mock.patch.object(firewall, "find", nothing):
            self.finds("needs nft, or both iptables and ipset", "install nftables")
        self.plant("allowlist", "ALLOWLIST_BACKEND", "iptables")
        with mock.patch.object(firewall, "find", nothing):
            self.finds("needs iptables, which is not installed", "ALLOWLIST_IPTABLES")

    def test_an_allowlist_dry_run_is_a_note_and_backend_none_a_fault(self) -> None:
        self.assertIn("ALLOWLIST_DRY_RUN is 1", self.notes())
        self.plant("allowlist", "ALLOWLIST_DRY_RUN", "0")
        self.plant("allowlist", "ALLOWLIST_BACKEND", "none")
        self.finds("ALLOWLIST_BACKEND is none", "ALLOWLIST_BACKEND=auto")

    def test_rights_the_doctor_lacks_are_a_note(self) -> None:
        self.plant("allowlist", "ALLOWLIST_DRY_RUN", "0")
        self.plant("allowlist", "ALLOWLIST_NFT", "/bin/true")
        self.assertIn("may not change the firewall", self.notes(Quiet(root=False)))
        runs = Quiet(root=False, says={61005: (200, b'{"entries": []}')})
        self.assertNotIn("may not change the firewall", self.notes(runs))


def fail(*args: object) -> Any:
    raise OSError
