"""A host's game files: downloaded, repaired, paused, and ready to start."""

from twisted.internet.defer import Deferred

from svcserver.launcher import words
from svcserver.launcher.choices import Choices, choose
from svcserver.launcher.game_files import GameFiles
from svcserver.launcher.game_folder import Stopped
from svcserver.launcher.listing import read_listing
from svcserver.launcher.stages import Stage
from svcserver.launcher.view import describe_host
from tests.launcher.around import LauncherCase, invite_text, manifest

FILES = {"game.exe": b"MZ" * 40, "a.pak": b"1234"}


class DownloadingTests(LauncherCase):
    def test_missing_files_are_fetched_and_damaged_files_repaired(self) -> None:
        member = self.registered(FILES)
        self.assertEqual(member.host.missing, 84)
        member.inputs.fetch()
        for request in tuple(self.remote.downloads):
            request.answer(200, FILES[request.path.rpartition("/")[2]])
        self.assertIs(member.host.stage, Stage.READY)
        (member.folder / "a.pak").write_bytes(b"12x4")
        member.inputs.check(True)
        self.assertEqual(member.host.note, words.DAMAGED_ONE.format(path="a.pak"))
        member.inputs.fetch()
        self.remote.downloads[-1].answer(200, b"1234")
        self.assertIs(member.host.stage, Stage.READY)

    def test_program_that_the_owner_names_is_started(self) -> None:
        files = {"Game/Hunt.exe": b"MZ" * 40}
        listing = manifest(files, program="Game/Hunt.exe")
        self.remote.says("GET", "/content/v1/manifest", 200, listing)
        member = self.registered()
        program = member.folder / "Game" / "Hunt.exe"
        self.assertIn(str(program), describe_host(member, 61000)["settings"]["shown"])
        member.inputs.fetch()
        [download] = self.remote.downloads
        download.answer(200, files["Game/Hunt.exe"])
        program.chmod(0o700)
        self.remote.says("GET", "/content/v1/manifest", 503)  # for now
        [restarted] = self.start().members.values()
        restarted.game.spawn = self.spawn
        for player in (member, restarted):
            player.inputs.check(False)
            player.inputs.play()
            self.assertEqual(self.processes[-1].arguments[0], str(program))
        self.remote.says("GET", "/content/v1/manifest", 200, manifest(files))
        restarted.inputs.stop()
        restarted.inputs.check(False)
        self.assertIn("/game.exe", describe_host(restarted, 61000)["settings"]["shown"])

    def test_two_hosts_do_not_download_into_one_folder_at_a_time(self) -> None:
        """Each download used to delete the other's partial files as if they were outdated."""
        member = self.registered(FILES)
        member.inputs.fetch()
        second = self.launcher.join(invite_text(host="other.example.org"))
        second.inputs.agree()
        second.choose("Bo_1")
        link = self.folder / "link"
        link.symlink_to(member.folder)
        self.remote.says("GET", "/content/v1/manifest", 200, manifest({"new.exe": b"MZ" * 50}))
        second.change(folder=str(link))
        second.inputs.check(False)
        second.inputs.fetch()
        self.assertEqual(second.host.trouble, words.FOLDER_BUSY.format(folder=link))
        self.assertIs(second.host.stage, Stage.INCOMPLETE)
        self.assertEqual(len(self.remote.downloads), 2)  # both downloads belong to the first host
        member.inputs.stop()
        second.inputs.fetch()
        self.assertIs(second.host.stage, Stage.FETCHING)
        self.assertEqual(len(self.remote.downloads), 3)

    def test_new_download_waits_until_the_stopped_download_has_ended(self) -> None:
        member = self.registered(FILES)
        slow: list[Deferred[None]] = []
        self.patch(GameFiles, "fetch", lambda *_: slow.append(Deferred()) or slow[-1])
        member.inputs.fetch()
        member.inputs.stop()
        member.inputs.fetch()
        self.assertEqual((len(slow), member.host.stage), (1, Stage.FETCHING))
        slow[0].errback(Stopped())
        self.assertEqual((len(slow), member.host.trouble), (2, ""))
        slow[1].callback(None)
        self.assertIs(member.host.stage, Stage.READY)

    def test_a_paused_download_is_incomplete_and_can_resume(self) -> None:
        member = self.registered(FILES)
        member.inputs.fetch()
        member.inputs.stop()
        self.assertIs(member.host.stage, Stage.INCOMPLETE)
        member.inputs.fetch()
        self.assertIs(member.host.stage, Stage.FETCHING)

    def test_invite_that_is_opened_again_stops_no_download(self) -> None:
        member = self.registered(FILES)
        member.inputs.fetch()
        opened = self.launcher.opened
        self.assertIs(self.launcher.join(invite_text()), member)
        self.assertIs(member.host.stage, Stage.FETCHING)
        self.assertEqual(self.launcher.opened, opened + 1)
        self.assertIs(self.launcher.join(invite_text(name="Sunday Hunts")), member)

    def test_play_without_the_hosts_files_needs_the_own_game(self) -> None:
        for files in (None, {}, {"README.txt": b"Put the game here"}):
            member = self.registered()
            if files is not None:
                self.remote.says("GET", "/content/v1/manifest", 200, manifest(files))
            member.inputs.check(False)
            shown = member.host.stage, member.host.trouble
            self.assertEqual(shown, (Stage.UNCHECKED, words.NO_FILES))
            self.launcher.leave(member)
        member = self.registered()
        self.lay_game()
        member.inputs.check(False)
        self.assertEqual((member.host.stage, member.host.note), (Stage.READY, words.NO_FILES))

    def test_own_command_plays_without_the_hosts_files(self) -> None:
        member = self.registered()
        choose(member, Choices("", "/bin/sh {folder}", "", 0), self.folder)
        self.assertEqual((member.host.stage, member.host.note), (Stage.READY, words.NO_FILES))

    def test_list_has_a_program_that_is_named_or_ends_in_exe(self) -> None:
        for listing, has_program in (
            (manifest({"a.txt": b""}), False),
            (manifest({"Game/Hunt.EXE": b""}), True),
            (manifest({"start.sh": b""}, program="start.sh"), True),
        ):
            self.assertIs(read_listing(listing).has_program, has_program)

    def test_ban_is_shown_when_a_download_is_refused(self) -> None:
        member = self.registered(FILES)
        self.remote.says("GET", "/svc/api/GetUserInfo", 403)
        member.inputs.fetch()
        self.remote.downloads[-1].answer(403)
        self.assertEqual((member.host.stage, member.host.trouble), (Stage.INCOMPLETE, words.BANNED))
