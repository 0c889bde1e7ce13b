"""A player's host, from the invite to the game, and the message for every rejection."""

from __future__ import annotations

import struct
from pathlib import Path

from attrs import evolve
from twisted.internet.defer import Deferred

from svcserver.edge.invite import decode
from svcserver.kernel.port_holders import PortHolder
from svcserver.kernel.secrets import Secret
from svcserver.launcher import port_in_use, words
from svcserver.launcher.host_client import HostReply, NoReply
from svcserver.launcher.host_list import HostRecord
from svcserver.launcher.key_files import write_key_file
from svcserver.launcher.membership import STATUS, CannotPlay, is_same_process
from svcserver.launcher.program import CannotJoin, Launcher
from svcserver.launcher.stages import Stage
from svcserver.launcher.view import describe_host, show_all
from svcserver.relay.relaying import PortBusy, RelayService
from tests.launcher.around import KEY, FakeHost, FakeLauncher, LauncherCase, invite_text

PRIVATE = "svc://join?v=1&host=100.64.0.9&port=61000&code=ABCD-EFGH&name=Home"
FILES = {"game.exe": b"MZ" * 40, "a.pak": b"1234"}


class JoiningTests(LauncherCase):
    def test_invite_shows_the_host_and_sends_only_its_code(self) -> None:
        self.launcher.startService()
        member = self.joined()
        shown = describe_host(member, 61000)
        self.assertEqual((shown["name"], shown["stage"]), ("Friday Hunts", "invited"))
        self.assertEqual(len(shown["words"].split()), 8)
        polled = "/svc/api/ServerStatus", "/svc-status", "/content/v1/news", "/content/v1/branding"
        sent = {path: body for _, path, body in self.remote.requests}
        self.assertEqual(
            sent, {**dict.fromkeys(polled), "/launcher/invite": {"InviteCode": "ABCD-EFGH-JKMN"}}
        )
        self.successResultOf(self.launcher.stopService() or _now())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_code_is_checked_when_the_invite_is_opened(self) -> None:
        for status, reply, sentence, needs_code in (
            (200, {"invite": "valid"}, "", False),
            (200, {"invite": "used_up"}, words.INVITE_USED_UP, True),
            (200, {"invite": "expired"}, words.INVITE_EXPIRED, True),
            (200, {"invite": "unknown"}, words.INVITE_UNKNOWN, True),
            (400, {"error": "registration_closed"}, words.CLOSED, False),
            (200, {"invite": "of another kind"}, "", False),
            (429, {}, "", False),
            (404, {}, "", False),  # an older host
        ):
            with self.subTest(reply=reply, status=status):
                self.remote.says("POST", "/launcher/invite", status, reply)
                member = self.joined()
                self.successResultOf(member.refresh())
                shown = describe_host(member, 61000)
                self.assertEqual(shown["stage"], "invited")
                self.assertEqual((shown["standing"], shown["needs_code"]), (sentence, needs_code))

    def checks(self) -> int:
        """Return how often a code was checked."""
        return [path for _, path, _ in self.remote.requests].count("/launcher/invite")

    def test_code_is_checked_until_the_host_has_answered(self) -> None:
        self.remote.loses("POST", "/launcher/invite", NoReply())
        member = self.joined()
        for status in (429, 200, 200):
            self.successResultOf(member.refresh())
            self.remote.says("POST", "/launcher/invite", status, {"invite": "unknown"})
        self.successResultOf(member.refresh())
        self.assertEqual((self.checks(), member.invite_fault), (3, words.INVITE_UNKNOWN))

    def test_wrong_code_is_corrected_on_the_name_page(self) -> None:
        self.remote.says("POST", "/launcher/invite", 200, {"invite": "unknown"})
        member = self.joined()
        self.successResultOf(member.refresh())
        member.agree()
        member.choose("Bo_1")  # the launcher asks for a name again, and does not register
        self.assertEqual((self.checks(), member.host.stage), (2, Stage.NAMING))
        for code in ("", "abc", "A B C D", "x" * 65, "svc:"):
            error = self.launcher.correct_code(member, code)
            self.assertIn(
                error, (words.CODE_INVALID, "This invite is incomplete. Copy the whole line.")
            )
        self.remote.says("POST", "/launcher/invite", 200, {"invite": "valid"})
        self.remote.says("POST", "/svc/api/Register", 200, {"UUK": KEY})
        self.assertEqual(self.launcher.correct_code(member, "MNPQ-RSTV-WXYZ"), "")
        self.assertEqual((member.standing(), member.needs_code), ("", False))
        member.choose("Bo_1")
        sent = {"Username": "Bo_1", "InviteCode": "MNPQ-RSTV-WXYZ"}
        self.assertIn(("POST", "/svc/api/Register", sent), self.remote.requests)
        self.assertEqual(member.record.username, "Bo_1")
        self.launcher.correct_code(member, "ABCD-EFGH-JKMN")  # too late
        self.assertNotIn("ABCD", (self.folder / "state" / "keys.json").read_text())

    def test_whole_invite_is_taken_as_a_correction(self) -> None:
        member = self.joined()
        member.agree()
        line = invite_text(code="MNPQ-RSTV-WXYZ")
        self.assertEqual(self.launcher.correct_code(member, line), "")
        [again] = self.launcher.members.values()
        self.successResultOf(again.refresh())
        self.assertIn(
            ("POST", "/launcher/invite", {"InviteCode": "MNPQ-RSTV-WXYZ"}), self.remote.requests
        )

    def test_code_that_registering_refuses_is_explained(self) -> None:
        self.remote.says("POST", "/svc/api/Register", 401, {"error": "invite_invalid"})
        self.remote.says("POST", "/launcher/invite", 200, {"invite": "valid"})
        member = self.joined()
        self.successResultOf(member.refresh())
        member.agree()
        self.remote.says("POST", "/launcher/invite", 200, {"invite": "used_up"})  # meanwhile
        member.choose("Bo_1")
        self.assertEqual(member.host.trouble, words.INVITE_USED_UP)
        self.assertTrue(member.needs_code)

    def test_member_is_not_asked_for_a_code(self) -> None:
        self.remote.says("POST", "/launcher/invite", 200, {"invite": "used_up"})
        self.registered(FILES)
        member = self.launcher.join(invite_text())
        self.successResultOf(member.refresh())
        renewed = self.launcher.join(invite_text(fingerprint="b2" * 32))
        self.successResultOf(renewed.refresh())
        self.assertEqual((self.checks(), renewed.standing(), renewed.needs_code), (0, "", False))

    def test_damaged_invite_is_refused(self) -> None:
        for text in ("", "hello", "svc://join", invite_text()[:-30] + "&v=3"):
            with self.assertRaises(CannotJoin):
                self.launcher.join(text)

    def test_cut_invite_asks_for_the_whole_line(self) -> None:
        with self.assertRaises(CannotJoin) as refused:
            self.launcher.join(invite_text()[:90])
        self.assertEqual(str(refused.exception), "This invite is incomplete. Copy the whole line.")

    def test_registration_saves_key_and_name_but_no_code(self) -> None:
        member = self.registered(FILES)
        self.assertEqual(self.remote.requests[-1][1], "/content/v1/manifest")
        self.assertIn(
            ("POST", "/svc/api/Register", {"Username": "Bo_1", "InviteCode": "ABCD-EFGH-JKMN"}),
            self.remote.requests,
        )
        self.assertIs(member.host.stage, Stage.INCOMPLETE)
        again = self.start()
        [restarted] = again.members.values()
        self.assertEqual(restarted.record.username, "Bo_1")
        assert restarted.key is not None
        self.assertEqual(restarted.key.reveal(), KEY)
        texts = [file.read_text() for file in (self.folder / "state").iterdir()]
        self.assertFalse(any("ABCD-EFGH" in text for text in texts))

    def test_shown_and_saved_data_has_neither_key_nor_code(self) -> None:
        self.joined()
        self.assertNotIn("ABCD-EFGH", repr(show_all(self.launcher)))
        self.registered(FILES)
        self.assertNotIn(KEY, repr(show_all(self.launcher)))
        self.assertNotIn(KEY, (self.folder / "state" / "hosts.json").read_text())

    def test_each_refusal_has_its_text(self) -> None:
        member = self.joined()
        member.inputs.agree()
        for status, code, sentence in (
            (409, "username_taken", words.NAME_TAKEN),
            (401, "invite_invalid", words.INVITE_INVALID),
            (400, "registration_closed", words.CLOSED),
            (400, "username_invalid", words.NAME_INVALID),
            (502, "bad_gateway", words.RESTARTING),
            (500, "", words.NOT_OUR_HOST),
            (200, "no key", words.NOT_OUR_HOST),
        ):
            self.remote.says("POST", "/svc/api/Register", status, {"error": code})
            member.choose("Bo_1")
            self.assertEqual((member.host.trouble, member.host.stage), (sentence, Stage.NAMING))
        self.remote.says("POST", "/svc/api/Register", 429, {}, retry_after="240")
        member.choose("Bo_1")
        self.assertIn("4 minutes", member.host.trouble)
        for error, sentence in (
            (NoReply("certificate_mismatch"), words.WRONG_CERTIFICATE),
            (NoReply(), words.UNREACHABLE),
            (NoReply(after_sending=True), words.REGISTER_LOST),
        ):
            self.remote.loses("POST", "/svc/api/Register", error)
            member.choose("Bo_1")
            self.assertEqual(member.host.trouble, sentence)
        member.choose("no good")
        self.assertEqual(member.host.trouble, words.NAME_INVALID)

    def test_host_checks_a_name_while_it_is_typed(self) -> None:
        taken = {"available": False, "error": "username_taken"}
        used_up = {"available": False, "error": "invite_invalid"}
        for member, ask in (
            (self.joined(), lambda _: ("POST", "/launcher/name-free")),
            (
                self.launcher.join(PRIVATE),
                lambda name: ("GET", f"/svc/api/UsernameAvailable?Username={name}"),
            ),
        ):
            member.inputs.agree()
            for name, status, body, sentence in (
                ("Bo", 200, {"available": True}, words.NAME_INVALID),
                ("b" * 17, 200, {"available": True}, words.NAME_INVALID),
                ("Bo_1", 200, taken, words.NAME_TAKEN),
                ("Bo_2", 200, {"available": True}, words.NAME_FREE),
                ("Bo_3", 403, {"error": "forbidden"}, words.NAME_UNTOLD),
                ("Bo_4", 429, {"error": "username_taken"}, words.NAME_UNTOLD),
                ("Bo_5", 200, {"available": False, "error": "of another kind"}, words.NAME_UNTOLD),
                ("Bo_6", 200, {"available": "yes"}, words.NAME_UNTOLD),
                ("Bo_7", 200, used_up, words.INVITE_INVALID),
                ("Bo_8", 404, [], words.NAME_UNTOLD),  # an older host
            ):
                self.remote.says(*ask(name), status, body)
                member.try_name(name)
                shown = describe_host(member, 61000)
                self.assertEqual((shown["tried"], shown["saying"]), (name, sentence))
                free = {words.NAME_FREE: True, words.NAME_UNTOLD: None}.get(sentence, False)
                self.assertIs(shown["free"], free)
            self.remote.loses(*ask("Bo_9"), NoReply())
            member.try_name("Bo_9")
            self.assertEqual(member.saying, words.NAME_UNTOLD)
            self.assertIs(member.host.stage, Stage.NAMING)
        self.assertIn(
            ("POST", "/launcher/name-free", {"Username": "Bo_2", "InviteCode": "ABCD-EFGH-JKMN"}),
            self.remote.requests,
        )

    def test_check_of_an_earlier_name_is_cancelled(self) -> None:
        member = self.launcher.join(PRIVATE)
        member.inputs.agree()
        cancelled: list[int] = []

        def answer(number: int) -> Deferred[HostReply]:
            return Deferred(lambda _: cancelled.append(number))

        answers = [answer(number) for number in range(4)]
        replies = iter(answers)
        self.patch(FakeHost, "fetch_reply", lambda *_, **__: next(replies))
        for name in ("Bo_1", "Bo_12"):
            member.try_name(name)
        self.assertEqual(cancelled, [0])
        answers[1].callback(HostReply(200, {}, b'{"available": true}'))
        self.assertEqual(member.saying, words.NAME_FREE)
        member.try_name("Bo_3")
        self.assertEqual((member.tried, member.saying), ("Bo_3", ""))
        member.try_name("no good")
        self.assertEqual((cancelled, member.saying), ([0, 2], words.NAME_INVALID))
        member.choose("Bo_3")
        self.assertEqual((member.tried, member.saying), ("", ""))

    def test_a_refused_name_is_forgotten_when_another_name_is_typed(self) -> None:
        member = self.joined()
        member.inputs.agree()
        self.remote.says("POST", "/svc/api/Register", 409, {"error": "username_taken"})
        self.remote.says("POST", "/launcher/name-free", 200, {"available": True})
        member.choose("Bo_1")
        self.assertEqual(member.host.trouble, words.NAME_TAKEN)
        member.try_name("Bo_2")
        self.assertEqual((member.host.trouble, member.saying), ("", words.NAME_FREE))

    def test_name_is_not_checked_before_the_player_agrees(self) -> None:
        member = self.joined()
        member.try_name("Bo_1")
        self.assertEqual((member.tried, self.remote.requests), ("", []))

    def test_new_invite_with_the_same_certificate_changes_nothing(self) -> None:
        self.registered(FILES)
        member = self.launcher.join(invite_text(code="ZZZZ-ZZZZ-ZZZZ"))
        self.assertEqual((len(self.launcher.members), member.record.username), (1, "Bo_1"))
        self.assertIsNot(member.host.stage, Stage.INVITED)

    def test_invite_with_a_new_name_does_not_rename_a_host(self) -> None:
        member = self.registered(FILES)
        before = member.record
        text = words.NAME_KEPT.format(name="Friday Hunts", new="My Bank")
        self.assertIs(self.launcher.join(invite_text(name="My Bank")), member)
        self.assertEqual((self.launcher.hosts.get(before.id), member.record), (before, before))
        self.assertEqual(show_all(self.launcher)["refusal"], text)
        self.launcher.join(invite_text())
        self.assertEqual(show_all(self.launcher)["refusal"], "")
        member = self.launcher.join(invite_text(name="My Bank", fingerprint="b2" * 32))
        self.assertEqual(show_all(self.launcher)["refusal"], text)
        member.agree()
        saved = self.start().hosts.get(before.id)
        self.assertEqual(saved and saved.name, "Friday Hunts")

    def test_new_certificate_gets_the_key_only_after_agreement(self) -> None:
        self.registered(FILES)
        self.launcher.startService()
        self.addCleanup(self.launcher.stopService)
        for changed in ({"fingerprint": "b2" * 32}, {"next_fingerprint": "b2" * 32}):
            self.remote.with_key.clear()
            member = self.launcher.join(invite_text(**changed))
            self.clock.advance(60)
            member.save_passport(self.folder)
            self.assertIs(member.host.stage, Stage.INVITED)
            self.assertEqual(self.remote.with_key, [])
            saved = self.start().hosts.get(member.record.id)
            self.assertEqual(saved and (saved.username, saved.fingerprint), ("Bo_1", "a1" * 32))
            self.assertEqual(self.launcher.leave(member), "")
            back = self.launcher.members[member.record.id]
            self.assertEqual((back.record, back.key and back.key.reveal()), (saved, KEY))
        member = self.launcher.join(invite_text(fingerprint="b2" * 32))
        member.agree()
        self.assertEqual((member.record.username, member.record.fingerprint), ("Bo_1", "b2" * 32))
        self.assertEqual(self.launcher.hosts.get(member.record.id), member.record)
        self.assertNotIn(member.host.stage, (Stage.INVITED, Stage.NAMING))

    def test_invite_does_not_replace_a_similar_host(self) -> None:
        self.launcher.join(invite_text(host="a.b.example"))
        for host in ("a-b.example", "a.b-example", f"{'x' * 60}.{'y' * 60}.a.b.example"):
            self.launcher.join(invite_text(host=host))
        self.assertEqual(len(self.launcher.members), 4)
        self.assertEqual(
            [member.record.host for member in self.launcher.members.values()][:2],
            ["a.b.example", "a-b.example"],
        )

    def test_several_hosts_can_be_joined(self) -> None:
        self.registered(FILES)
        second = self.launcher.join(invite_text(host="203.0.113.9", name="Other"))
        self.assertEqual(len(self.launcher.members), 2)
        self.assertEqual(self.launcher.leave(second), "")
        self.assertEqual(
            [host["name"] for host in show_all(self.launcher)["hosts"]], ["Friday Hunts"]
        )

    def test_key_file_is_private_and_can_be_imported(self) -> None:
        member = self.registered(FILES)
        sentence = self.launcher.save_key(member, self.folder)
        [path] = self.folder.glob("svc-key-*.json")
        self.assertIn(str(path), sentence)
        self.assertEqual(path.stat().st_mode & 0o077, 0)
        self.launcher.leave(member)
        again = self.launcher.bring_file(path)
        self.assertEqual((again.record.username, again.host.stage), ("Bo_1", Stage.INCOMPLETE))
        for name, sentence in (("nothing", "no file at"), ("keys", "holds no key")):
            (self.folder / "keys").write_bytes(b"{}")
            with self.assertRaisesRegex(CannotJoin, sentence):
                self.launcher.bring_file(Path(self.folder, name))

    def test_key_file_for_a_public_host_needs_a_fingerprint(self) -> None:
        for host, good in (("play.example.org", False), ("100.64.0.9", True)):
            record = HostRecord("x", "Home", host, 61000, username="Bo_1")
            path = write_key_file(self.folder / str(good), record, Secret(KEY))
            if good:
                self.assertFalse(self.launcher.bring_file(path).record.public)
                continue
            with self.assertRaises(CannotJoin):
                self.launcher.bring_file(path)
            self.assertEqual(self.remote.requests, [])

    def test_key_unknown_to_the_host_is_reported(self) -> None:
        member = self.registered(FILES)
        self.remote.says("GET", "/svc/api/ServerStatus", 200, {"limited": True})
        for status, sentence in ((401, words.KEY_REFUSED), (403, words.BANNED)):
            self.remote.says("GET", "/svc/api/GetUserInfo", status)
            self.successResultOf(member.refresh())
            self.assertEqual(member.host.trouble, sentence)

    def test_an_invite_to_a_private_host_has_no_words(self) -> None:
        self.assertFalse(decode(PRIVATE).public)
        self.assertEqual(describe_host(self.launcher.join(PRIVATE), 61000)["words"], "")


class PlayingTests(LauncherCase):
    def ready(self) -> None:
        self.member = self.registered({})
        self.member.change(command="/bin/sh {folder} {server} {key}")
        self.assertIs(self.member.host.stage, Stage.READY)

    def test_the_game_is_started_watched_and_ended(self) -> None:
        self.ready()
        self.member.inputs.play()
        self.assertIs(self.member.host.stage, Stage.PLAYING)
        [game] = self.processes
        self.assertEqual(game.arguments[2:], ["127.0.0.1:61000", KEY])
        game.status = 0
        self.clock.advance(1)
        self.assertEqual(
            (self.member.host.stage, self.member.host.note), (Stage.READY, words.GAME_ENDED)
        )
        self.member.inputs.play()
        self.processes[-1].status = 3
        self.clock.advance(1)
        self.assertEqual(self.member.host.trouble, words.GAME_FAILED.format(code=3))

    def test_game_that_ignores_the_stop_is_killed(self) -> None:
        self.ready()
        self.member.inputs.play()
        self.member.inputs.stop()
        self.assertEqual(self.processes[0].calls, ["terminate"])
        self.clock.pump([0.5] * 30)
        self.assertEqual(self.processes[0].calls, ["terminate", "kill"])
        self.assertFalse(self.member.game.running)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_children_of_a_wrapper_are_ended_with_it(self) -> None:
        """Proton ends immediately, but the game that Proton started can take longer to end."""
        self.ready()
        self.member.inputs.play()
        [game] = self.processes
        self.member.inputs.stop()
        game.status, game.heirs = -15, True
        self.clock.pump([0.5] * 18)
        self.assertEqual(game.calls, ["terminate"])
        self.clock.pump([0.5] * 6)
        self.assertEqual(game.calls, ["terminate", "kill"])
        self.assertFalse(self.member.game.running)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_game_uses_the_shown_addresses(self) -> None:
        self.ready()
        self.member.change(command="/bin/sh {server} {chat}")
        for changes, way in (
            ({}, ["127.0.0.1:61000", "ws://127.0.0.1:61000"]),
            (
                {"fingerprint": "", "host": "100.64.0.8", "port": 61005},
                ["100.64.0.8:61005", "ws://100.64.0.8:61099"],
            ),
        ):
            self.patch(FakeLauncher, "open_way", Launcher.open_way)
            self.patch(RelayService, "startService", lambda relay: setattr(relay, "port", 61000))
            self.member.change(**changes)
            self.assertTrue(
                describe_host(self.member, 61000)["settings"]["shown"].endswith(" ".join(way))
            )
            self.member.inputs.play()
            self.assertEqual(self.processes[-1].arguments[1:], way)
            self.member.inputs.stop()

    def busy(self, *hosts: str) -> None:
        """Pretend that another program uses the relay's port at these addresses."""

        def start(relay: RelayService) -> None:
            if relay.host in hosts:
                raise PortBusy(relay.host, relay.port, "in use")

        self.patch(FakeLauncher, "open_way", Launcher.open_way)
        self.patch(RelayService, "startService", start)

    def test_relay_uses_another_address_beside_the_metagame(self) -> None:
        self.ready()
        self.member.change(command="/bin/sh {server} {chat}")
        self.busy("127.0.0.1")
        self.member.inputs.play()
        way = ["127.0.0.2:61000", "ws://127.0.0.2:61000"]
        self.assertEqual(self.processes[-1].arguments[1:], way)
        self.assertTrue(
            describe_host(self.member, 61000)["settings"]["shown"].endswith(" ".join(way))
        )
        self.member.inputs.stop()
        self.assertIn("127.0.0.1:61000", describe_host(self.member, 61000)["settings"]["shown"])

    def test_program_that_uses_the_port_is_named(self) -> None:
        self.ready()
        self.busy("127.0.0.1", "127.0.0.2")
        for holder, program in (
            (PortHolder(7, ("python3", "/x/twistd", "svc-metagame")), "svc-metagame (process 7)"),
            (PortHolder(8, ("/opt/Hunt.exe", "-x")), "Hunt.exe (process 8)"),
            (PortHolder(9, ("C:\\Games\\Hunt.exe",)), "Hunt.exe (process 9)"),
            (PortHolder(9, (99 * "\n",)), f"{64 * ' '} (process 9)"),
            (None, "another program"),
        ):
            self.patch(port_in_use, "port_holder", lambda *_, holder=holder: holder)
            self.member.inputs.play()
            text = words.METAGAME_BUSY if "metagame" in program else words.RELAY_BUSY
            sentence = text.format(port=61000, program=program)
            self.assertEqual((self.member.host.trouble, self.processes), (sentence, []))
            self.assertIs(self.member.host.stage, Stage.READY)

    def play_beside_a_metagame(self, **status: object) -> list[str]:
        """Play while a metagame has the relay's port; return the addresses passed to the game."""
        self.ready()
        self.member.change(command="/bin/sh {server} {chat}")
        self.busy("127.0.0.1", "127.0.0.2")
        holder = PortHolder(7, ("python3", "/x/twistd", "svc-metagame"))
        self.patch(port_in_use, "port_holder", lambda *_: holder)
        local = FakeHost()
        for host in (self.remote, local):
            host.says("GET", STATUS, 200, {"name": "Friday Hunts", **status})
        self.patch(FakeLauncher, "client", lambda *_: local)
        self.member.inputs.play()
        self.assertEqual((local.requests, local.with_key), ([("GET", STATUS, None)], []))
        return self.processes[-1].arguments[1:] if self.processes else []

    def test_game_uses_a_metagame_that_has_all_addresses(self) -> None:
        way = self.play_beside_a_metagame(uptimeSeconds=60)
        self.assertEqual(way, ["127.0.0.1:61000", "ws://127.0.0.1:61000"])
        self.assertTrue(
            describe_host(self.member, 61000)["settings"]["shown"].endswith(" ".join(way))
        )
        self.member.inputs.stop()
        self.assertIsNone(self.member.way)

    def test_game_uses_no_metagame_whose_start_is_unknown(self) -> None:
        self.assertEqual(self.play_beside_a_metagame(), [])
        sentence = words.METAGAME_BUSY.format(port=61000, program="svc-metagame (process 7)")
        self.assertEqual(self.member.host.trouble, sentence)

    def test_metagame_of_another_host_on_this_pc_is_recognised(self) -> None:
        status = {"name": "Friday Hunts", "version": "1", "commit": "a", "uptimeSeconds": 60}
        for change, same in (
            ({}, True),
            ({"uptimeSeconds": 62}, True),  # the replies are not from the same second
            ({"uptimeSeconds": 90}, False),
            ({"uptimeSeconds": None}, False),
            ({"uptimeSeconds": "60"}, False),
            ({"name": "Monday Hunts"}, False),
            ({"commit": "b"}, False),
        ):
            self.assertEqual(is_same_process(status, {**status, **change}), same, change)

    def test_windows_lists_the_process_of_a_port(self) -> None:
        rows = (
            (b"\x00\x00\x00\x00", 135, 4),
            (b"\x7f\x00\x00\x01", 61000, 812),
            (b"\x7f\x00\x00\x02", 61000, 913),
        )
        table = b"".join(
            struct.pack("=I4s", 2, address)
            + struct.pack(">Hxx", port)
            + struct.pack("=III", 0, 0, pid)
            for address, port, pid in rows
        )
        for host, port, process in (
            ("127.0.0.1", 61000, 812),
            ("127.0.0.2", 61000, 913),
            ("127.0.0.1", 135, 4),
            ("127.0.0.1", 80, 0),
        ):
            self.assertEqual(port_in_use.process_in(table + b"more", host, port), process)

    def test_play_shows_the_fault_and_starts_no_game(self) -> None:
        self.ready()
        self.remote.says("GET", "/svc/api/GetUserInfo", 403)
        self.member.inputs.play()
        self.assertEqual(self.member.host.trouble, words.BANNED)
        self.remote.loses("GET", "/svc/api/GetUserInfo", NoReply())
        self.member.inputs.play()
        self.assertEqual(self.member.host.trouble, words.UNREACHABLE)
        self.remote.says("GET", "/svc/api/GetUserInfo", 200, {"Username": "Bo_1"})
        self.member.change(command="/no/such/program")
        self.member.inputs.play()
        self.assertEqual(
            self.member.host.trouble, words.NO_PROGRAM.format(program="/no/such/program")
        )
        self.assertEqual(self.processes, [])

    def test_a_game_that_ends_slowly_is_gone_before_the_next_game(self) -> None:
        self.ready()
        self.member.inputs.play()
        self.member.inputs.stop()
        self.member.inputs.play()
        first, second = self.processes
        self.assertEqual((first.calls, second.calls), (["terminate", "kill"], []))
        self.clock.pump([0.5] * 30)
        self.assertIs(self.member.host.stage, Stage.PLAYING)
        second.status = 0
        self.clock.advance(1)
        self.assertEqual(self.member.host.note, words.GAME_ENDED)

    def test_stopped_start_does_not_end_another_hosts_game(self) -> None:
        """In an earlier version, a stopped start closed the other host's relay."""
        self.ready()
        second = self.launcher.join(PRIVATE)
        self.patch(FakeLauncher, "open_way", Launcher.open_way)
        self.member.change(fingerprint="", host="100.64.0.8")  # a connection without a relay port
        self.member.inputs.play()
        second.inputs.agree()
        second.inputs.choose("Bo_1")
        second.change(command="/bin/sh")
        second.inputs.check(False)
        second.game.spawn = self.spawn
        self.assertIs(second.host.stage, Stage.READY)
        slow: Deferred[HostReply] = Deferred()
        self.patch(FakeHost, "fetch_reply", lambda *_, **__: slow)
        second.inputs.play()
        self.assertIs(second.host.stage, Stage.STARTING)
        second.inputs.stop()
        with self.assertRaises(CannotPlay):
            self.launcher.open_way(second.record)
        self.member.inputs.stop()
        self.launcher.open_way(second.record)

    def test_failed_start_of_the_game_leaves_no_relay_open(self) -> None:
        self.ready()
        self.patch(FakeLauncher, "open_way", Launcher.open_way)
        for command in ('"', "/no/such/program"):
            self.member.change(fingerprint="", host="100.64.0.8", command=command)
            self.member.inputs.play()
            self.assertIs(self.member.host.stage, Stage.READY)
            self.launcher.open_way(evolve(self.member.record, id="another"))
            self.launcher.close_way(evolve(self.member.record, id="another"))


def _now() -> object:
    from twisted.internet.defer import succeed

    return succeed(None)
