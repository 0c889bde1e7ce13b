"""The launcher's update: offered in a signed list, and installed only while no game runs.

A launcher never installs an older version than its own.
"""

import hashlib
import sys
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred

from svcserver.edge.certificate import Pair, make_pair
from svcserver.edge.invite import decode
from svcserver.edge.launcher_update import LauncherOffer, sign
from svcserver.kernel import json
from svcserver.launcher import words
from svcserver.launcher.host_client import NoReply
from svcserver.launcher.host_list import NO, YES, joined
from svcserver.launcher.membership import Membership
from svcserver.launcher.own_program import UpdateFailed
from svcserver.launcher.updates import LIST, LOOK_S, TICK_S, Updates
from tests.launcher.around import FakeHost, LauncherCase, invite_text

PAIR = make_pair(["play.example.org"])
NAME = "svc-launcher-windows.zip"
CONTENT = b"PK the launcher" * 99


@define
class FakeProgram:
    """A program whose versions are kept in memory."""

    file_name: str = NAME
    added: list[tuple[str, bytes]] = field(factory=list)
    fault: Exception | None = None
    failed: str = ""

    def add(self, version: str, content: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self.added.append((version, content))

    def command(self) -> list[str]:
        return ["newest"]

    def newer_command(self) -> list[str]:
        return []

    def install(self) -> None:
        """Do nothing."""

    def confirm(self) -> None:
        """Do nothing."""

    def give_way(self) -> None:
        """Do nothing."""

    def remove(self) -> None:
        """Do nothing."""


class UpdateTests(LauncherCase):
    def setUp(self) -> None:
        super().setUp()
        self.program, self.restarts = FakeProgram(), 0
        self.member = self.registered({})
        self.member.change(fingerprint=PAIR.fingerprint, command=sys.executable, updates=YES)
        self.updates = Updates(self.launcher, self.program, "0.2.0", self.restart)

    def restart(self) -> None:
        self.restarts += 1

    def offer(self, number: str = "0.3.0", pair: Pair = PAIR, **changes: Any) -> None:
        """Have the host offer a version."""
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        offer = LauncherOffer(NAME, number, len(CONTENT), sha256)
        entry = {"name": NAME, "size": offer.size, **json.parse(sign(offer, pair)), **changes}
        plain = {"name": "svc-launcher.pyz", "size": 7, "sha256": sha256}
        self.remote.says("GET", LIST, 200, {"files": [plain, entry]})
        self.remote.says("GET", f"{LIST}/{NAME}", 200, CONTENT)

    def begin(self) -> None:
        self.updates.startService()
        self.addCleanup(self.updates.stopService)
        self.clock.pump([TICK_S] * 4)

    def downloads(self) -> int:
        return sum(path == f"{LIST}/{NAME}" for _, path, _ in self.remote.requests)

    def test_signed_newer_version_is_installed_once(self) -> None:
        self.offer()
        self.begin()
        self.assertEqual(self.program.added, [("0.3.0", CONTENT)])
        self.assertEqual(self.updates.text, words.UPDATE_READY.format(version="0.3.0"))
        self.clock.pump([TICK_S] * int(LOOK_S * 2))
        self.assertEqual((self.downloads(), self.restarts), (1, 0))

    def test_player_is_asked_once_whether_to_take_a_hosts_updates(self) -> None:
        self.member.change(updates="")
        self.offer()
        self.begin()
        name = self.member.record.name
        self.assertEqual(self.updates.text, words.UPDATE_ASKED.format(version="0.3.0", host=name))
        self.assertEqual(self.updates.shown()["host"], self.member.record.id)
        self.clock.pump([LOOK_S] * 2)
        self.assertEqual(self.downloads(), 0)
        self.member.change(updates=NO)
        self.clock.pump([TICK_S, LOOK_S, LOOK_S])
        self.assertEqual((self.updates.text, self.updates.shown()["host"]), ("", ""))
        self.assertEqual(self.downloads(), 0)
        self.member.change(updates=YES)
        self.clock.pump([LOOK_S, TICK_S, TICK_S])
        self.assertTrue(self.updates.ready)

    def test_offer_of_a_host_is_noticed_when_its_account_is_made(self) -> None:
        self.member.change(username="", updates="")
        self.offer()
        self.begin()
        self.assertEqual(self.updates.shown()["host"], "")
        self.member.change(username="Bo_1")
        self.clock.pump([TICK_S] * 2)
        self.assertEqual(self.updates.shown()["host"], self.member.record.id)
        self.clock.pump([TICK_S] * 20)
        self.assertEqual([path for _, path, _ in self.remote.requests].count(LIST), 1)

    def test_consent_to_updates_is_kept_only_for_the_same_certificate(self) -> None:
        again = joined(decode(invite_text(fingerprint=PAIR.fingerprint)), self.member.record)
        self.assertEqual(again.updates, YES)
        self.assertEqual(joined(decode(invite_text()), self.member.record).updates, "")

    def test_question_ends_when_the_player_leaves_the_host(self) -> None:
        self.member.change(updates="")
        self.offer()
        self.begin()
        self.launcher.leave(self.member)
        self.clock.pump([TICK_S] * 2)
        self.assertEqual((self.updates.text, self.updates.shown()["host"]), ("", ""))

    def test_version_that_has_failed_is_named_and_not_installed(self) -> None:
        self.program.failed = "0.3.0"
        self.updates = Updates(self.launcher, self.program, "0.2.0", self.restart)
        self.offer()
        self.begin()
        self.clock.pump([LOOK_S] * 2)
        undone = words.UPDATE_UNDONE.format(version="0.3.0", current="0.2.0")
        self.assertEqual((self.downloads(), self.updates.text), (0, undone))
        self.offer("0.3.1")
        self.clock.pump([LOOK_S, TICK_S, TICK_S])
        self.assertTrue(self.updates.ready)

    def test_restart_is_offered_only_while_nothing_else_runs(self) -> None:
        self.offer()
        self.begin()
        self.assertTrue(self.updates.shown()["can_restart"])
        self.member.inputs.play()
        shown = self.updates.shown()
        self.assertEqual((shown["ready"], shown["can_restart"]), (True, False))

    def test_fault_with_one_host_does_not_hide_the_others(self) -> None:
        self.offer()
        ask, faults = FakeHost.fetch_reply, [ZeroDivisionError()]

        async def faulty(host: FakeHost, method: str, path: str, **sent: Any) -> Any:
            if path == LIST and faults:
                raise faults.pop()
            return await ask(host, method, path, **sent)

        self.patch(FakeHost, "fetch_reply", faulty)
        another = self.launcher.join(invite_text(host="zoo.example.org"))
        another.change(fingerprint=PAIR.fingerprint, username="Bo_2", updates=YES)
        self.begin()
        self.assertTrue(self.updates.ready)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_same_and_older_versions_are_refused(self) -> None:
        for version in ("0.2.0", "0.1.9", "0.2"):
            self.offer(version)
            self.begin()
        self.assertEqual((self.downloads(), self.updates.text), (0, ""))

    def test_offer_without_the_pinned_signature_is_refused(self) -> None:
        another = make_pair(["play.example.org"])
        for pair, changes in (
            (another, {}),
            (PAIR, {"version": "9.0.0"}),
            (PAIR, {"sha256": "ab" * 32}),
            (PAIR, {"signature": ""}),
        ):
            self.offer("0.3.0", pair, **changes)
            self.begin()
            self.clock.pump([LOOK_S] * 2)
        self.assertEqual((self.downloads(), self.updates.text), (0, ""))

    def test_successor_of_the_certificate_can_sign(self) -> None:
        self.member.change(fingerprint="cd" * 32, next_fingerprint=PAIR.fingerprint)
        self.offer()
        self.begin()
        self.assertTrue(self.updates.ready)

    def test_private_and_untrusted_hosts_are_not_asked(self) -> None:
        self.offer()
        for changes in ({"fingerprint": ""}, {"fingerprint": PAIR.fingerprint, "username": ""}):
            self.member.change(**changes)
            self.begin()
            self.clock.pump([LOOK_S] * 2)
        self.member.change(username="Bo_1")
        self.member.before = evolve(self.member.record)
        self.clock.pump([LOOK_S] * 2)
        self.assertNotIn(LIST, [path for _, path, _ in self.remote.requests])

    def test_nothing_is_downloaded_while_a_game_runs(self) -> None:
        self.offer()
        self.member.inputs.play()
        self.begin()
        text = words.UPDATE_OFFERED.format(version="0.3.0", host=self.member.record.name)
        self.assertEqual((self.downloads(), self.updates.text), (0, text))
        self.end_game()
        self.clock.pump([TICK_S] * 3)
        self.assertEqual(([version for version, _ in self.program.added]), ["0.3.0"])
        self.assertEqual(self.restarts, 1)

    def test_new_version_starts_after_the_next_game(self) -> None:
        self.offer()
        self.begin()
        self.assertEqual(self.restarts, 0)
        self.member.inputs.play()
        self.clock.pump([TICK_S] * 9)
        self.assertEqual(self.restarts, 0)
        self.end_game()
        self.clock.pump([TICK_S] * 9)
        self.assertEqual(self.restarts, 1)

    def test_restart_waits_for_a_stopped_game_to_end(self) -> None:
        self.offer()
        self.begin()
        self.member.inputs.play()
        self.member.inputs.stop()  # before the updates have noticed the game
        self.clock.pump([TICK_S] * 3)
        self.assertEqual(self.restarts, 0)
        self.end_game()
        self.clock.pump([TICK_S] * 3)
        self.assertEqual(self.restarts, 1)

    def test_console_keeps_its_version_until_the_next_start(self) -> None:
        self.updates.restart = None
        self.offer()
        self.begin()
        self.assertEqual(self.updates.text, words.UPDATE_NEXT_START.format(version="0.3.0"))
        self.member.inputs.play()
        self.clock.pump([TICK_S] * 3)
        self.end_game()
        self.clock.pump([TICK_S] * 3)
        self.assertTrue(self.updates.ready)

    def end_game(self) -> None:
        self.processes[-1].status = 0
        self.clock.pump([1.0])
        self.assertFalse(self.launcher.in_game)

    def registered(self, files: Any = None) -> Membership:
        member = super().registered(files)
        member.game.spawn = self.spawn
        return member

    def test_version_that_does_not_start_is_tried_once(self) -> None:
        self.offer()
        self.program.fault = UpdateFailed("it does not start")
        self.begin()
        self.clock.pump([TICK_S] * int(LOOK_S * 3))
        self.assertEqual((self.downloads(), self.updates.ready), (1, False))
        self.assertIn("You keep the current version", self.updates.text)

    def test_damaged_download_is_not_installed(self) -> None:
        self.offer()
        self.remote.says("GET", f"{LIST}/{NAME}", 200, CONTENT[:-1] + b"!")
        self.begin()
        self.assertEqual((self.program.added, self.updates.ready), ([], False))
        self.assertIn("the download is damaged", self.updates.text)

    def test_end_of_the_launcher_cancels_a_download_silently(self) -> None:
        self.offer()
        self.begin()
        waiting: Deferred[None] = Deferred()

        async def never(*_: Any, **__: Any) -> None:
            await waiting

        self.patch(FakeHost, "fetch_reply", never)
        self.updates.ready, self.updates.text = False, ""
        self.clock.pump([LOOK_S])
        self.updates.stopService()
        self.assertTrue(waiting.called)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_broken_download_is_tried_again_later(self) -> None:
        self.offer()
        whole = self.remote.answers["GET", f"{LIST}/{NAME}"]
        self.remote.loses("GET", f"{LIST}/{NAME}", NoReply())
        self.begin()
        self.assertEqual(self.updates.text, words.UPDATE_LATER.format(version="0.3.0"))
        self.remote.answers["GET", f"{LIST}/{NAME}"] = whole
        self.clock.pump([TICK_S] * int(LOOK_S + 2))
        self.assertTrue(self.updates.ready)

    def test_malformed_lists_are_ignored(self) -> None:
        for body in ({"files": None}, {"files": [None, 7, {}]}, {"files": "x"}, {}):
            self.remote.says("GET", LIST, 200, body)
            self.begin()
            self.clock.pump([LOOK_S])
        self.remote.says("GET", LIST, 500)
        self.clock.pump([LOOK_S])
        self.remote.loses("GET", LIST, NoReply("certificate_mismatch"))
        self.clock.pump([LOOK_S])
        self.assertEqual(self.updates.text, "")
        self.offer()
        self.clock.pump([LOOK_S, TICK_S, TICK_S])
        self.assertTrue(self.updates.ready)
