"""The launcher file that a host offers for download.

It is stored on the host, named in the letter to a friend, and checked by doctor.
"""

import hashlib
import os
import zipfile
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from svcserver.content.launcher_files import LauncherFiles
from svcserver.ctl import launcher_file
from svcserver.ctl.host import Host
from svcserver.ctl.launcher_file import supply
from svcserver.ctl.output import Out
from svcserver.edge.certificate import CERT_FILE, fingerprint
from svcserver.edge.joining import LAUNCHER_FILE, WINDOWS_FILE, join_string, letter
from svcserver.edge.launcher_update import LauncherOffer, verified
from svcserver.kernel import json
from tests.ctl.command import new_host, nowhere, svcctl

CHECKSUM_FILE = f"{LAUNCHER_FILE}.sha256"
BODY = b"PK launcher" * 900
SHA256 = hashlib.sha256(BODY).hexdigest()


class LauncherFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = new_host(nowhere(self))
        self.launchers = self.folder / "launcher"
        self.built = self.folder.parent / "dist" / LAUNCHER_FILE
        self.built.parent.mkdir()
        self.built.write_bytes(BODY)

    def put(self) -> None:
        ran = svcctl("content", "launcher", self.built, "--config", self.folder, "--json")
        self.assertEqual((ran.status, ran.data["sha256"]), (0, SHA256))

    def says(self) -> str:
        """Return the first sentence of the letter that invites a friend."""
        text = join_string(self.folder, "ABCD-EFGH-JKMN")
        assert text is not None
        first, *more = letter(self.folder, text)
        self.assertEqual(len(more), 2)
        return first

    def notes(self) -> str:
        return "".join(
            finding["what"] + finding["cure"]
            for finding in svcctl("doctor", "--config", self.folder, "--json").data["findings"]
            if finding["level"] == "note" and "launcher" in finding["what"]
        )

    def test_the_launcher_is_copied_and_its_checksum_is_in_invites(self) -> None:
        self.assertIn("get the launcher from me.", self.says())
        self.put()
        self.assertEqual((self.launchers / LAUNCHER_FILE).read_bytes(), BODY)
        checksum = (self.launchers / CHECKSUM_FILE).read_text()
        self.assertEqual(checksum, f"{SHA256}  {LAUNCHER_FILE}\n")
        self.assertEqual(
            {path.name for path in self.launchers.iterdir()},
            {LAUNCHER_FILE, CHECKSUM_FILE, "README.txt"},
        )
        direct = "https://203.0.113.10/content/v1/launcher/svc-launcher.pyz"
        self.assertIn(f"from {direct}, or from me (its SHA-256 is {SHA256}).", self.says())
        ran = svcctl("invite", "create", "--config", self.folder)
        self.assertIn(SHA256, ran.out)

    def test_both_files_are_offered_and_named_in_the_letter(self) -> None:
        self.put()
        windows = self.built.with_name("another name.zip")
        windows.write_bytes(b"PK program")
        ran = svcctl("content", "launcher", windows, "--config", self.folder, "--json")
        sha256 = hashlib.sha256(b"PK program").hexdigest()
        self.assertEqual(ran.data, {"file": f"{self.launchers / WINDOWS_FILE}", "sha256": sha256})
        text = self.says()
        self.assertIn(f"{WINDOWS_FILE} or https://203.0.113.10/content/v1/launcher/svc", text)
        self.assertIn(f"(the SHA-256 of {WINDOWS_FILE} is {sha256}, and of", text)
        self.assertIn(f"{LAUNCHER_FILE} is {SHA256}).", text)
        self.assertEqual(self.notes(), "")
        (self.launchers / WINDOWS_FILE).write_bytes(b"PK another")
        self.assertIn(f"{WINDOWS_FILE} is missing or wrong", self.notes())

    def test_an_invite_names_the_join_page_only_if_it_has_a_launcher(self) -> None:
        env = self.folder / "gateway.env"
        env.write_text(env.read_text().replace("JOIN_PAGE=0", "JOIN_PAGE=1"))
        self.assertNotIn("/join", self.says())
        self.assertIn("so the page /join links to no launcher", self.notes())
        self.put()
        self.assertIn("from https://203.0.113.10/join, or from me", self.says())

    def test_private_players_download_from_the_content_server(self) -> None:
        self.folder = nowhere(self)
        ran = svcctl("init", self.folder, "--private-host", "100.64.0.9")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn("get the launcher from me, and join my private network.", self.says())
        self.launchers = self.folder / "launcher"
        self.put()
        address = "http://100.64.0.9:61002/content/v1/launcher/svc-launcher.pyz"
        self.assertIn(f"from {address}, or from me (its SHA-256 is {SHA256}), and", self.says())
        env = self.folder / "content.env"
        env.write_text(env.read_text().replace("BIND_HOST=100.64.0.9", "BIND_HOST=127.0.0.1"))
        self.assertIn("get the launcher from me (", self.says())

    def test_an_invalid_or_outdated_checksum_is_not_in_the_invite(self) -> None:
        self.put()
        good = (self.launchers / CHECKSUM_FILE).read_text()
        for bad in (
            "",
            SHA256,
            good.replace("pyz", "exe"),
            good.upper(),
            good * 2,
            good + "\nSend me your key",
            "\u00e4" + good[1:],
        ):
            (self.launchers / CHECKSUM_FILE).write_text(bad, encoding="utf-8")
            self.assertNotIn("SHA-256", self.says(), bad)
        (self.launchers / CHECKSUM_FILE).write_text(good)
        self.assertIn(SHA256, self.says())
        newer = (self.launchers / CHECKSUM_FILE).stat().st_mtime + 5
        os.utime(self.launchers / LAUNCHER_FILE, (newer, newer))
        self.assertNotIn("SHA-256", self.says())
        (self.launchers / LAUNCHER_FILE).unlink()
        self.assertNotIn("SHA-256", self.says())

    def test_the_doctor_notes_a_missing_or_wrong_launcher(self) -> None:
        cure = f"svcctl content launcher FILE --config {self.folder}"
        notes = self.notes()
        self.assertIn(f"there is no launcher in {self.launchers}download {WINDOWS_FILE} or", notes)
        self.assertIn(cure, notes)
        self.put()
        self.assertEqual(self.notes(), "")
        (self.launchers / LAUNCHER_FILE).write_bytes(BODY + b"!")
        self.assertIn("is missing or wrong", self.notes())
        env = self.folder / "content.env"
        env.write_text(env.read_text().replace("CONTENT_LAUNCHER_DIR", "# "))
        self.assertEqual(self.notes(), "")  # without the page, this is an owner's choice
        gateway = self.folder / "gateway.env"
        gateway.write_text(gateway.read_text().replace("JOIN_PAGE=0", "JOIN_PAGE=1"))
        self.assertIn("CONTENT_LAUNCHER_DIR is not set", self.notes())

    def test_start_supplies_the_built_launcher_but_never_overwrites(
        self,
    ) -> None:
        host = Host(self.folder)
        with mock.patch.object(launcher_file, "BUILT", self.folder / "none"):
            supply(host, Out(True))
        self.assertFalse((self.launchers / LAUNCHER_FILE).exists())
        with mock.patch.object(launcher_file, "BUILT", self.built.parent):
            supply(host, Out(True))
            self.assertEqual((self.launchers / LAUNCHER_FILE).read_bytes(), BODY)
            self.built.write_bytes(b"another")
            supply(host, Out(True))
        self.assertEqual((self.launchers / LAUNCHER_FILE).read_bytes(), BODY)

    def test_launcher_is_signed_with_the_current_certificate(self) -> None:
        with zipfile.ZipFile(self.built, "w") as packed:
            packed.writestr("site-packages/svc_launcher-0.3.0.dist-info/METADATA", "")
        svcctl("content", "launcher", self.built, "--config", self.folder)
        first = self.offered()
        self.assertEqual((first.version, first.size), ("0.3.0", self.built.stat().st_size))
        for words in (("make", "--host", "203.0.113.10"), ("switch",)):
            ran = svcctl("cert", *words, "--config", self.folder)
            self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(self.offered(), first)

    def test_launcher_without_a_version_is_offered_unsigned(self) -> None:
        ran = svcctl("content", "launcher", self.built, "--config", self.folder)
        self.assertEqual(ran.status, 0)
        self.assertIn("contains no released version of the launcher", ran.out)
        self.assertEqual(list(self.launchers.glob("*.sig")), [])

    def offered(self) -> LauncherOffer:
        """Return the offer as seen by a launcher that trusts only the current certificate."""
        [entry] = json.parse(LauncherFiles.from_folder(self.launchers).body())["files"]
        return verified(entry, [fingerprint((self.folder / CERT_FILE).read_bytes())])

    def test_a_missing_launcher_or_setting_is_a_one_line_error(self) -> None:
        ran = svcctl("content", "launcher", self.folder / "none", "--config", self.folder)
        self.assertEqual(ran.status, 1)
        self.assertIn("run make launcher-windows launcher in a Git clone", ran.line)
        env = self.folder / "content.env"
        env.write_text(env.read_text().replace("CONTENT_LAUNCHER_DIR", "# "))
        ran = svcctl("content", "launcher", self.built, "--config", self.folder)
        self.assertEqual(ran.status, 1)
        self.assertIn("CONTENT_LAUNCHER_DIR is not set in", ran.line)
        (self.folder / "content.env").unlink()
        self.assertEqual(self.says().count("SHA-256"), 0)

    def test_a_full_disk_leaves_the_old_launcher_unchanged(self) -> None:
        self.put()
        self.built.write_bytes(b"another")
        full = mock.patch.object(launcher_file, "sha256_of", side_effect=OSError(28, "no room"))
        with full:
            ran = svcctl("content", "launcher", self.built, "--config", self.folder)
        self.assertIn("cannot be written: no room", ran.line)
        self.assertEqual((self.launchers / LAUNCHER_FILE).read_bytes(), BODY)
        self.assertIn(SHA256, self.says())
        self.assertEqual([*self.launchers.glob("*.new")], [])
