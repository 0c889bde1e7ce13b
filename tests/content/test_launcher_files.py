"""Downloads of the launcher from the content server, without a key, if the owner allows them."""

import hashlib
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.content.launcher_files import LauncherFiles
from svcserver.kernel import json
from tests.content.support import DeskCase

BODY = b"PK launcher" * 900


class LauncherTests(DeskCase):
    def more(self) -> dict[str, Any]:
        self.launchers = self.root / "launchers"
        self.launchers.mkdir()
        (self.launchers / "svc-launcher.pyz").write_bytes(BODY)
        (self.launchers / "svc_launcher-0.1.0-py3-none-any.whl").write_bytes(b"wheel")
        (self.launchers / "secret.key").write_bytes(b"no launcher")
        (self.launchers / "svc-launcher.zip").symlink_to("/etc/passwd")
        return {"launcher_dir": self.launchers}

    def test_the_launcher_is_listed_and_served_without_a_key(self) -> None:
        page_of_list = self.browse("GET", "/content/v1/launcher")
        names = [file["name"] for file in page_of_list.json["files"]]
        self.assertEqual(names, ["svc-launcher.pyz", "svc_launcher-0.1.0-py3-none-any.whl"])
        item = page_of_list.json["files"][0]
        self.assertEqual(item["sha256"], hashlib.sha256(BODY).hexdigest())
        page = self.browse("GET", item["url"])
        self.assertEqual((page.status, page.body), (200, BODY))
        self.assertEqual(page.headers["content-disposition"], "attachment")
        again = self.browse("GET", item["url"], headers={"If-None-Match": page.headers["etag"]})
        self.assertEqual((again.status, again.body), (304, b""))
        self.assertEqual(self.browse("GET", item["url"], headers={"If-Match": '"0"'}).status, 412)
        self.assertEqual(self.browse("HEAD", item["url"]).headers["content-length"], str(len(BODY)))

    def test_windows_file_is_listed_first_for_a_windows_browser(self) -> None:
        (self.launchers / "svc-launcher-windows.zip").write_bytes(b"PK program")
        listed = LauncherFiles.from_folder(self.launchers)
        for on_windows, place in ((True, 0), (False, -1)):
            names = [
                file["name"] for file in json.parse(listed.body(on_windows=on_windows))["files"]
            ]
            self.assertEqual(names[place], "svc-launcher-windows.zip")
        agent = {"User-Agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"}
        page = self.browse("GET", "/content/v1/launcher", headers=agent)
        self.assertEqual(page.headers["vary"], "User-Agent")

    def test_no_other_file_of_the_launcher_folder_is_served(self) -> None:
        for name in (
            "secret.key",
            "svc-launcher.zip",
            "",
            "..%2fgame%2fa",
            "../manifest",
            "x" * 200,
        ):
            self.assertEqual(self.browse("GET", f"/content/v1/launcher/{name}").status, 404, name)
        self.assertEqual(self.browse("POST", "/content/v1/launcher").status, 405)

    def test_a_launcher_changed_since_the_start_is_not_served(self) -> None:
        path = self.launchers / "svc-launcher.pyz"
        path.write_bytes(b"another")
        os.utime(path, (1, 1))
        page_of_list = self.browse("GET", "/content/v1/launcher/svc-launcher.pyz")
        self.assertEqual(
            (page_of_list.status, page_of_list.json), (503, {"error": "file_unavailable"})
        )

    def test_signature_is_listed_only_with_its_own_file(self) -> None:
        names = {"version": "0.3.0", "signature": "c2ln", "certificate": "ZGVy"}
        good = {**names, "sha256": hashlib.sha256(BODY).hexdigest()}
        file = self.launchers / "svc-launcher.pyz.sig"
        for content, listed in (
            (json.dump(good), names),
            (json.dump({**good, "sha256": "ab" * 32}), {}),
            (json.dump({**good, "version": 3}), {}),
            (b"[]", {}),
            (b"{", {}),
        ):
            file.write_bytes(content)
            entry = json.parse(LauncherFiles.from_folder(self.launchers).body())["files"][0]
            signed = {name: value for name, value in entry.items() if name in names}
            self.assertEqual(signed, listed)


class NoLauncherTests(DeskCase):
    def test_without_the_setting_the_launcher_routes_are_404(self) -> None:
        for path in ("/content/v1/launcher", "/content/v1/launcher/svc-launcher.pyz"):
            for method in ("GET", "POST"):
                self.assertEqual(self.browse(method, path).status, 404)


class FolderTests(SynchronousTestCase):
    def test_without_a_folder_there_are_no_launcher_files(self) -> None:
        self.assertEqual(LauncherFiles.from_folder(None).files, {})
