"""Key renewal, and the state of the host and of friends as shown to the player."""

from typing import Any

from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.host_client import NoReply
from svcserver.launcher.host_status import read_status
from svcserver.launcher.key_files import write_key_file
from svcserver.launcher.stages import Stage
from svcserver.launcher.view import describe_host
from tests.launcher.around import KEY, LauncherCase, manifest

NEW_KEY = ("POST", "/launcher/new-key")


class RenewalTests(LauncherCase):
    def key(self, name: str = "play-example-org-443") -> str:
        key = self.launcher.keys.get(name)
        return key.reveal() if key is not None else ""

    def offered(self) -> list[Any]:
        return [body["UUK"] for _, path, body in self.remote.requests if path == NEW_KEY[1]]

    def test_the_host_takes_a_new_key(self) -> None:
        member = self.registered({})
        self.remote.says(*NEW_KEY, 200)
        member.renew_key()
        self.assertEqual(self.offered(), [self.key()])
        self.assertNotEqual(self.key(), KEY)
        self.assertEqual(self.key("play-example-org-443/new"), "")
        self.assertEqual(member.host.note, words.KEY_RENEWED)
        self.assertNotIn(self.key(), str(describe_host(member, 61000)))

    def test_a_lost_answer_loses_no_account(self) -> None:
        """The host has possibly accepted the new key; both keys are kept until the host answers."""
        member = self.registered({})
        self.remote.loses(*NEW_KEY, NoReply(after_sending=True))
        self.remote.loses("GET", "/svc/api/GetUserInfo", NoReply())
        member.renew_key()
        self.assertEqual((self.key(), member.host.note), (KEY, words.UNREACHABLE))
        [offered] = self.offered()
        self.remote.says(*NEW_KEY, 401)
        self.remote.says("GET", "/svc/api/ServerStatus", 200, {"limited": True})
        self.remote.says("GET", "/svc/api/GetUserInfo", 200, {"Username": "Bo_1"})
        self.successResultOf(member.refresh())
        self.assertEqual((self.offered(), self.key()), ([offered, offered], offered))

    def test_ban_is_shown_when_a_key_renewal_is_refused(self) -> None:
        member = self.registered({})
        self.launcher.keys.put("play-example-org-443/new", Secret("UUK_" + "2" * 48))
        for path in (NEW_KEY, ("GET", "/svc/api/GetUserInfo")):
            self.remote.says(*path, 403)
        self.remote.says("GET", "/svc/api/ServerStatus", 200, {"limited": True})
        self.successResultOf(member.refresh())
        self.assertEqual((member.host.trouble, self.key()), (words.BANNED, KEY))

    def test_renewal_is_refused_during_a_game_or_by_the_host(self) -> None:
        member = self.registered({})
        self.remote.says("GET", "/svc/api/GetUserInfo", 401)
        member.renew_key()
        self.assertEqual((member.host.note, self.key()), (words.KEY_NOT_RENEWED, KEY))
        member.host.stage = Stage.PLAYING
        member.renew_key()
        self.assertEqual((member.host.note, len(self.offered())), (words.RENEW_LATER, 1))

    def test_no_saved_key_is_written_over(self) -> None:
        record = self.registered({}).record
        first = write_key_file(self.folder, record, Secret(KEY))
        self.assertEqual(write_key_file(self.folder, record, Secret(KEY)), first)
        second = write_key_file(self.folder, record, Secret("UUK_" + "3" * 48))
        self.assertNotEqual(first, second)
        self.assertIn(KEY.encode(), first.read_bytes())


class StandingTests(LauncherCase):
    def test_fault_of_the_host_is_shown_until_it_ends(self) -> None:
        member = self.registered({})
        restarting = {"error": "upstream_restarting"}
        for status, body, sentence in (
            (503, restarting, words.RESTARTING),
            (502, {}, words.RESTARTING),
            (503, {}, words.FULL),
            (426, {}, words.NOT_OUR_HOST),  # the game's contract has no such answer
        ):
            self.remote.says("GET", "/svc/api/ServerStatus", status, body)
            self.successResultOf(member.refresh())
            self.assertEqual(member.standing(), sentence)
        self.remote.says("GET", "/svc/api/ServerStatus", 200, {})
        self.successResultOf(member.refresh())
        self.assertEqual(member.standing(), "")

    def test_files_are_checked_when_the_host_is_back(self) -> None:
        member = self.registered({})
        listing = self.remote.answers["GET", "/content/v1/manifest"]
        self.remote.loses("GET", "/content/v1/manifest", NoReply())
        member.inputs.check(False)
        self.assertEqual(
            (member.host.stage, member.host.trouble), (Stage.UNCHECKED, words.UNREACHABLE)
        )
        self.successResultOf(member.refresh())
        self.assertIs(member.host.stage, Stage.UNCHECKED)  # the host does not offer the files yet
        self.remote.answers["GET", "/content/v1/manifest"] = listing
        self.successResultOf(member.refresh())
        self.assertEqual((member.host.stage, member.host.trouble), (Stage.READY, ""))

    def test_host_with_a_wrong_certificate_is_polled_every_30_s(self) -> None:
        wrong = NoReply("certificate_mismatch")
        member = self.registered({})
        status = self.remote.answers["GET", "/svc/api/ServerStatus"]
        self.remote.loses("GET", "/svc/api/ServerStatus", wrong)
        self.remote.loses("GET", "/content/v1/manifest", wrong)
        self.launcher.startService()
        self.addCleanup(self.launcher.stopService)
        shown = describe_host(member, 61000)
        self.assertEqual((shown["reachable"], shown["wrong_certificate"]), (False, True))
        self.assertEqual(
            (member.host.stage, member.host.trouble), (Stage.UNCHECKED, words.WRONG_CERTIFICATE)
        )
        self.remote.requests.clear()
        for waited_s, polls in ((29, 0), (1.1, 1), (28.9, 1), (1, 2)):  # the first poll is late
            self.clock.advance(waited_s)
            self.assertEqual(len(self.remote.requests), polls)
        self.remote.answers["GET", "/svc/api/ServerStatus"] = status
        self.remote.says("GET", "/content/v1/manifest", 200, manifest({}))
        self.clock.pump([1] * 30)
        self.assertEqual((member.host.stage, member.host.trouble), (Stage.READY, ""))
        self.assertFalse(describe_host(member, 61000)["wrong_certificate"])

    def test_an_announcement_is_shown_and_a_welcome_is_none(self) -> None:
        member = self.registered({})
        for text, shown in (("Welcome to Home!", ""), ("Restart in 5 min.", "Restart in 5 min.")):
            self.remote.says("GET", "/svc-status", 200, {"name": "Home", "en": text})
            self.successResultOf(member.refresh())
            self.assertEqual(describe_host(member, 61000)["announced"], shown)

    def test_older_host_is_recognised_by_its_banner(self) -> None:
        member = self.registered({})
        self.remote.says("GET", "/svc/api/ServerStatus", 404)
        self.successResultOf(member.refresh())
        self.assertFalse(member.news.reachable)
        self.remote.says("GET", "/svc-status", 200, {"name": "Old", "en": "Welcome to Old!"})
        self.successResultOf(member.refresh())
        self.assertEqual((member.news.reachable, member.news.known), (True, True))

    def test_a_friends_place_is_shown_with_how_to_join_it(self) -> None:
        status = {
            "players": [
                {"name": "Ann", "where": "city", "instance": None},
                {"name": "Cy", "where": "hunt", "instance": "7"},
                {"name": "Di", "where": "moon", "instance": "9"},
            ],
            "instances": [{"id": "7", "title": "Hunt: Big one", "players": 2, "maxPlayers": 4}],
        }
        ann, cy, di = [player["meet"] for player in read_status(status)["players"]]
        self.assertEqual(ann, words.MEET["city"])
        self.assertIn("Hunt: Big one, 2 of 4. Nobody can join", cy)
        self.assertEqual(di, "")

    def test_new_game_version_prevents_the_start(self) -> None:
        member = self.registered({})
        listing = self.remote.answers["GET", "/content/v1/manifest"].body
        self.remote.says("GET", "/content/v1/manifest", 200, listing, etag='"1"')
        member.inputs.check(True)
        self.remote.says("GET", "/content/v1/manifest", 200, listing, etag='"2"')
        member.inputs.play()
        self.assertEqual((member.host.trouble, self.processes), (words.VERSION, []))
        self.remote.says("GET", "/content/v1/manifest", 200, listing, etag='"\xff"')
        member.inputs.check(True)
        member.inputs.play()
        self.assertNotIn(words.DEFECT, member.host.trouble)
        self.remote.says("GET", "/content/v1/manifest", 304, etag='"1"')
        member.inputs.play()
        self.assertNotEqual(member.host.trouble, words.VERSION)
