"""``svcctl up`` creates and runs a host after three questions."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from errno import EIO
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import begun
from svcserver.ctl.as_owner import Owner
from svcserver.ctl.doctor.machine import Machine, PortState
from svcserver.ctl.host import Host
from svcserver.ctl.init import place_of, taken_port
from svcserver.ctl.main import main
from svcserver.ctl.play.story import PlayFailed
from svcserver.edge.invite import decode
from svcserver.kernel.port_holders import PortHolder
from tests.ctl.command import Ran, new_host, nowhere, svcctl
from tests.ctl.doctor_host import Quiet
from tests.ctl.hosts import change, value
from tests.support.proves import proves

READY = "metagame, deploy, content"


class UpTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = nowhere(self)
        self.machine = Quiet()
        self.started: list[Host] = []
        self.failed: PlayFailed | None = None
        self.link: str | None = "1f" * 32

    def up(self, *words: str, answers: str = "") -> Ran:
        """Run ``svcctl up`` with a stack that is ready immediately and then stopped by Ctrl-C."""

        def run(host: Host, ready: Callable[[str], None]) -> PlayFailed | None:
            self.started.append(host)
            if self.failed is None:
                ready(READY)
            return self.failed

        with (
            mock.patch("svcserver.ctl.up.run", run),
            mock.patch("svcserver.ctl.up.Machine", return_value=self.machine),
            mock.patch("svcserver.ctl.doctor.command.Machine", return_value=self.machine),
            mock.patch("svcserver.ctl.up.runs", return_value=False),
            mock.patch("svcserver.ctl.up.link_or_none", return_value=self.link),
            mock.patch("svcserver.ctl.up.own_address", return_value="100.64.7.7"),
            mock.patch("svcserver.ctl.init.own_address", return_value="100.64.7.7"),
        ):
            ran = CliRunner().invoke(main, ["up", str(self.folder), *words], input=answers)
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return Ran(ran.exit_code, ran.stdout, ran.stderr)

    @proves("svcctl up")
    def test_four_answers_make_a_host_and_start_it(self) -> None:
        ran = self.up(answers="public\n203.0.113.10\nFriday # Hunts\nOlga\n")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual([host.folder for host in self.started], [self.folder])
        self.assertIn("http://127.0.0.1:61000/svc/dashboard", ran.out)
        self.assertEqual(value(self.folder, "metagame", "SERVER_NAME"), "Friday # Hunts")
        [join] = [host.split()[1] for host in ran.out.splitlines() if host.startswith("invite ")]
        invite = decode(join)
        self.assertEqual((invite.host, invite.port), ("203.0.113.10", 443))
        self.assertIn("\N{UPPER HALF BLOCK}", ran.out)  # the QR code

    def test_an_invalid_answer_is_asked_for_again(self) -> None:
        answers = "public\nhttps://h.example\n203.0.113.10\n'Hunts'\nHunts\nBo\nBo_1\n"
        ran = self.up(answers=answers)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn("Error: https://h.example must be NAME or NAME:PORT. NAME is", ran.err)
        self.assertIn("Error: \"'Hunts'\": give a name of 1 to 64 printable characters", ran.err)
        self.assertIn("Error: Bo: a username has 3 to 16 letters", ran.err)
        [join] = [line.split()[1] for line in ran.out.splitlines() if line.startswith("invite ")]
        self.assertEqual(decode(join).host, "203.0.113.10")

    def test_up_without_answers_names_the_required_options(self) -> None:
        ran = self.up()
        self.assertEqual((ran.status, self.started), (1, []))
        self.assertIn("Give --yes, with --public-host H and --owner NAME", ran.err)
        self.assertFalse(self.folder.exists())

    @proves("svcctl up")
    def test_a_script_answers_by_options(self) -> None:
        ran = self.up("--yes", "--public-host", "203.0.113.10:7443", "--owner", "Olga", "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(ran.data["components"], READY.split(", "))
        self.assertEqual(decode(ran.data["join"]).port, 7443)
        self.assertEqual(value(self.folder, "gateway", "GATEWAY_PORT"), "7443")

    @proves("svcctl up")
    def test_up_without_options_makes_a_private_host(self) -> None:
        ran = self.up("--yes")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn("http://100.64.7.7:61000/svc/dashboard", ran.out)
        self.assertFalse((self.folder / "gateway.env").exists())

    def test_up_over_ssh_prints_the_tunnel_and_a_sign_in_link(self) -> None:
        ssh = {"SSH_CONNECTION": "198.51.100.7 50000 203.0.113.10 2222", "SUDO_USER": "ada"}
        with mock.patch.dict("os.environ", ssh):
            ran = self.up("--yes", "--public-host", "203.0.113.10")
            self.assertIn("ssh -L 61000:127.0.0.1:61000 -p 2222 ada@203.0.113.10\n", ran.out)
            sign_in = f"http://127.0.0.1:61000/svc/dashboard#/sign-in/{self.link}"
            self.assertIn(f"sign in    {sign_in}\n", ran.out)
            self.assertIn("valid once, for ten minutes", ran.out)
            self.link = None
            self.assertNotIn("sign in ", self.up().out)
        for wrong in ("", "a b c", "x y z; 22", "a b 300.1.1.1 22"):
            with mock.patch.dict("os.environ", {"SSH_CONNECTION": wrong}):
                self.assertIsNone(self.up("--json").data["tunnel"])

    def test_the_gateway_takes_another_port_where_443_needs_a_right(self) -> None:
        self.machine = Quiet(taken={443: PortState(denied=True)})
        ran = self.up("--yes", "--public-host", "203.0.113.10", "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(decode(ran.data["join"]).port, 8443)

    def test_a_second_host_has_all_ports_from_its_base_port(self) -> None:
        self.machine = Quiet(taken={port: PortState(taken=True) for port in range(61_000, 61_300)})
        ran = self.up("--yes", "--public-host", "203.0.113.10", "--base-port", "62000", "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(decode(ran.data["join"]).port, 62_043)
        self.assertEqual(ran.data["dashboard"], "http://127.0.0.1:62000/svc/dashboard")
        text = "".join(file.read_text() for file in self.folder.glob("*.env"))
        lines = re.findall(r"^[A-Z_]*(?:PORT|URL)[A-Z_]*=.*", text, re.MULTILINE)
        ports = [int(port) for line in lines for port in re.findall(r"\b\d{4,5}\b", line)]
        usual = {61_000}  # the port of the relay on a player's PC, for the region list
        self.assertEqual({port for port in ports if not 62_000 <= port < 62_300}, usual)
        self.assertEqual(value(self.folder, "deploy", "PORT_RANGE_END"), "62077")
        self.assertEqual(value(self.folder, "stack", "WORKER_PORTS"), "62100")
        self.assertIn("already contains a host", self.up("--base-port", "63000").line)

    def test_a_taken_port_is_named_with_its_program_and_a_free_base(self) -> None:
        twistd = PortHolder(7, ("twistd", "svc-metagame", "--env-file", "metagame.env"), Path("/x"))
        for port, holder, program in (
            (61_000, twistd, "the metagame of the host in /x (process 7)"),
            (61_022, PortHolder(8, ("nginx: \x1b[2J",)), "nginx: \\x1b[2J (process 8)"),
            (61_005, None, "another program"),
        ):
            held = {} if holder is None else {port: holder}
            taken = PortState(taken=True)
            self.machine = Quiet(taken={port: taken, 62_043: taken}, held=held)
            ran = self.up("--yes", "--public-host", "203.0.113.10")
            self.assertEqual(ran.status, 1)
            self.assertIn(f"port {port} is taken by {program}", ran.line)
            self.assertIn("--base-port 62500, whose ports are free", ran.line)
            self.assertFalse(self.folder.exists())

    def test_a_gateways_port_taken_on_another_address_is_named(self) -> None:
        listening = self.enterContext(socket.socket())
        listening.bind(("127.0.0.7", 0))
        listening.listen()
        port = listening.getsockname()[1]

        class Probed(Machine):
            """This machine, with every port except ``port`` reported as free."""

            def port(self, host: str, number: int, *, udp: bool = False) -> PortState:
                return super().port(host, number, udp=udp) if number == port else PortState()

        text = taken_port(place_of(f"203.0.113.10:{port}", None), Probed())
        self.assertRegex(text, rf"^port {port} is taken by .*python.* \(process {os.getpid()}\)\.")
        self.assertIn("--base-port 62000, whose ports are free", text)

    def test_a_taken_worker_port_is_named(self) -> None:
        machine = Quiet(taken={61_110: PortState(taken=True)})
        place = place_of("203.0.113.10", None)
        self.assertEqual(taken_port(place, machine, 3), "")
        self.assertIn("port 61110 is taken", taken_port(place, machine, 4))

    def test_existing_host_starts_unchanged_without_an_invite(self) -> None:
        new_host(self.folder)
        files = {path: path.read_bytes() for path in self.folder.glob("*.env")}
        ran = self.up("--json")
        self.assertEqual((ran.status, ran.data["code"]), (0, None), ran.err)
        self.assertEqual({path: path.read_bytes() for path in self.folder.glob("*.env")}, files)
        self.assertIsNotNone(self.up("--json", "--invite").data["join"])
        self.assertIn("already contains a host", self.up("--owner", "Other").line)

    def test_a_host_that_was_begun_is_finished_by_the_same_command(self) -> None:
        words = ("--yes", "--public-host", "203.0.113.10:7443", "--owner", "Olga")
        put = begun.put

        def no_disk(path: Path, *sent: Any) -> None:
            if path.name == begun.LAST:
                raise OSError(EIO, "no disk")
            put(path, *sent)

        with mock.patch.object(begun, "put", no_disk):
            self.assertEqual(self.up(*words).status, 1)
        ran = self.up(*words)
        self.assertEqual((ran.status, ran.err), (0, ""))
        self.assertEqual(value(self.folder, "gateway", "GATEWAY_PORT"), "7443")
        self.assertEqual([host.folder for host in self.started], [self.folder])

    def test_up_starts_nothing_if_the_doctor_finds_a_fault(self) -> None:
        new_host(self.folder)
        change(self.folder, "metagame", "PORT", "many")
        ran = self.up()
        self.assertEqual((ran.status, self.started), (1, []))
        self.assertIn("not started: metagame: PORT", ran.line)

    def test_a_stack_that_fails_is_one_line_with_its_log(self) -> None:
        new_host(self.folder)
        self.failed = PlayFailed("deploy", "MY_IP is not set; give it a value")
        ran = self.up()
        self.assertEqual(ran.status, 1)
        self.assertIn("MY_IP is not set", ran.line)
        self.assertIn("stack.log", ran.line)


class DashboardCommandTests(SynchronousTestCase):
    """``svcctl dashboard``, which prints a sign-in link."""

    def test_dashboard_prints_a_sign_in_link_for_owner_or_staff(self) -> None:
        folder = new_host(nowhere(self))
        sent: list[Any] = []

        def post(owner: Owner, route: str, body: dict[str, str], reason: str = "") -> Any:
            sent.append((route, body))
            return {"Link": "1f" * 32, "Username": body.get("Account", "Olga")}

        self.patch(Owner, "post", post)
        ran = svcctl("dashboard", "--config", folder)
        url = f"http://127.0.0.1:61000/svc/dashboard#/sign-in/{'1f' * 32}"
        self.assertIn(f"sign in as Olga (valid once, for ten minutes):\n  {url}\n", ran.out)
        data = svcctl("dashboard", "--account", "Mona", "--json", "--config", folder).data
        self.assertEqual((data["account"], data["signIn"]), ("Mona", url))
        self.assertEqual([body for _, body in sent], [{}, {"Account": "Mona"}])


class NewHostTests(SynchronousTestCase):
    """The behaviour that ``up`` and ``init`` share."""

    def init(self, *words: str) -> tuple[Ran, Path]:
        folder = nowhere(self)
        ran = CliRunner().invoke(main, ["init", str(folder), *words])
        return Ran(ran.exit_code, ran.stdout, ran.stderr), folder

    def test_a_public_host_may_include_a_port(self) -> None:
        ran, folder = self.init("--public-host", "203.0.113.10:8443")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(value(folder, "gateway", "GATEWAY_PORT"), "8443")
        self.assertEqual(value(folder, "relay", "SVC_RELAY_GATEWAY_PORT"), "8443")
        self.assertEqual(value(folder, "relay", "SVC_RELAY_HOST"), "203.0.113.10")

    def test_a_public_host_with_an_invalid_or_taken_port_is_refused(self) -> None:
        for bad in ("h.example:", "h.example:0", "h.example:65536", ":443", "h.example:61000"):
            ran, folder = self.init("--public-host", bad)
            self.assertEqual((ran.status, folder.exists()), (1, False), bad)
            self.assertIn("--public-host", ran.line)

    def test_a_host_name_without_public_address_causes_a_warning(self) -> None:
        for resolution in (OSError("no such name"), ["127.0.1.1"]):
            with mock.patch("socket.gethostbyname", side_effect=resolution):
                ran, folder = self.init("--public-host", "h.example")
            self.assertIn("ATTENTION: h.example", ran.out)
            self.assertIn("MY_IP", ran.out)
            self.assertEqual(value_or_empty(folder), "")

    def test_init_names_the_dashboard(self) -> None:
        ran, _ = self.init("--public-host", "203.0.113.10")
        self.assertIn("http://127.0.0.1:61000/svc/dashboard", ran.out)
        self.assertNotIn("ATTENTION", ran.out)


def value_or_empty(folder: Path) -> str:
    """Return the host's MY_IP, or an empty string."""
    [line] = [
        line
        for line in (folder / "deploy.env").read_text().splitlines()
        if line.startswith("MY_IP=")
    ]
    return line.removeprefix("MY_IP=")
