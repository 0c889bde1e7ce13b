"""``/content/v1/files/<path>``: every documented answer, over real HTTP bytes."""

import os
from typing import Any

from twisted.logger import capturedLogs

from svcserver.kernel.secrets import Secret
from tests.content.support import ANN, BOB, BODY, DeskCase
from tests.support.proves import proves


class FilesTests(DeskCase):
    @proves("GET, HEAD /content/v1/files/<path>")
    def test_a_registered_player_gets_the_whole_file(self) -> None:
        page = self.get("A/b.bin")
        self.assertEqual((page.status, page.body), (200, BODY))
        self.assertEqual(page.headers["content-type"], "application/octet-stream")
        self.assertEqual(page.headers["content-length"], "5120")
        self.assertEqual(page.headers["etag"], self.entries["A/b.bin"].etag)
        self.assertEqual(page.headers["accept-ranges"], "bytes")
        self.assertEqual(page.headers["x-content-type-options"], "nosniff")
        self.assertEqual(page.headers["cache-control"], "private")
        self.assertNotIn("access-control-allow-origin", page.headers)

    def test_an_encoded_blank_names_the_same_file(self) -> None:
        self.assertEqual(self.get("Maps/Isle%20one.umap").body, b"isle")

    def test_the_query_string_is_ignored(self) -> None:
        self.assertEqual(self.get("A/b.bin?x=../..").status, 200)

    def test_an_empty_file_is_whole_at_once(self) -> None:
        page = self.get("empty.txt")
        self.assertEqual((page.status, page.body), (200, b""))
        self.assertEqual(page.headers["content-length"], "0")
        self.assertEqual(self.desk.slots.running(), 0)

    @proves("GET, HEAD /content/v1/files/<path>")
    def test_head_has_the_headers_of_get_and_no_body(self) -> None:
        page = self.browse("HEAD", "/content/v1/files/A/b.bin", key=ANN)
        self.assertEqual((page.status, page.body), (200, b""))
        self.assertEqual(page.headers["content-length"], "5120")
        self.assertEqual(page.headers["etag"], self.entries["A/b.bin"].etag)

    @proves("GET, HEAD /content/v1/files/<path>")
    def test_a_range_is_answered_with_206(self) -> None:
        page = self.get("A/b.bin", Range="bytes=100-199")
        self.assertEqual((page.status, page.body), (206, BODY[100:200]))
        self.assertEqual(page.headers["content-range"], "bytes 100-199/5120")
        self.assertEqual(page.headers["content-length"], "100")

    @proves("content: 416 range_not_satisfiable")
    def test_an_impossible_range_is_416_with_the_size(self) -> None:
        for text in ("bytes=5120-", "bytes=9-8", "bytes=x-", "lines=0-1", "bytes=0-1,3-4"):
            page = self.get("A/b.bin", Range=text)
            self.assertEqual((page.status, page.json), (416, {"error": "range_not_satisfiable"}))
            self.assertEqual(page.headers["content-range"], "bytes */5120")
        self.assertEqual(self.get("empty.txt", Range="bytes=0-").status, 416)

    @proves("GET, HEAD /content/v1/files/<path>")
    def test_if_range_keeps_the_range_only_with_our_etag(self) -> None:
        etag = self.entries["A/b.bin"].etag
        self.assertEqual(self.get("A/b.bin", Range="bytes=0-0", If_Range=etag).status, 206)
        for another in ('"x"', "W/" + etag, "Mon, 21 Sep 2026 10:00:00 GMT"):
            page = self.get("A/b.bin", Range="bytes=0-0", If_Range=another)
            self.assertEqual((page.status, len(page.body)), (200, 5120))

    @proves("GET, HEAD /content/v1/files/<path>")
    def test_if_none_match_with_our_etag_is_304_without_a_body(self) -> None:
        page = self.get("A/b.bin", If_None_Match=self.entries["A/b.bin"].etag, Range="bytes=9-1")
        self.assertEqual((page.status, page.body), (304, b""))
        self.assertEqual(page.headers["etag"], self.entries["A/b.bin"].etag)

    @proves("content: 412 precondition_failed")
    def test_a_file_that_differs_from_if_match_is_412(self) -> None:
        etag = self.entries["A/b.bin"].etag
        for condition in ('"0"', f"W/{etag}"):
            for more in ({}, {"Range": "bytes=0-9"}, {"Range": "x"}, {"If_None_Match": etag}):
                page = self.get("A/b.bin", If_Match=condition, **more)
                self.assertEqual((page.status, page.json), (412, {"error": "precondition_failed"}))
        for condition in (etag, f'"0", {etag}', "*"):
            page = self.get("A/b.bin", If_Match=condition, Range="bytes=0-9")
            self.assertEqual((page.status, page.body), (206, BODY[:10]))
        self.assertEqual(self.get("A/b.bin", If_Match=etag, If_None_Match=etag).status, 304)
        self.assertEqual(self.desk.slots.running(), 0)

    def test_a_date_in_a_condition_is_ignored(self) -> None:
        old, new = "Mon, 01 Jan 1990 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
        page = self.get("A/b.bin", If_Unmodified_Since=old, If_Modified_Since=new)
        self.assertEqual((page.status, page.body), (200, BODY))
        page = self.get("A/b.bin", If_Range=new, Range="bytes=0-9")
        self.assertEqual((page.status, page.body), (200, BODY))


class RefusalTests(DeskCase):
    def refused(self, page: Any, status: int, code: str) -> None:
        self.assertEqual((page.status, page.json), (status, {"error": code}))
        self.assertEqual(page.headers["content-type"], "application/json; charset=utf-8")

    @proves("content: 404 not_found", "content routes carry a version segment")
    def test_an_unknown_route_is_404_for_every_method(self) -> None:
        paths = ("/", "/content/v1/files", "/content/v1/", "/content/v2/manifest", "/content")
        for path in (*paths, "/content/v1/manifest/", "/Content/v1/manifest"):
            for method in ("GET", "POST", "DELETE"):
                self.refused(self.browse(method, path, key=ANN), 404, "not_found")

    @proves("public routes send Access-Control-Allow-Origin", "content: 405 method_not_allowed")
    def test_another_method_on_a_route_is_405_with_allow(self) -> None:
        names = ("manifest", "news", "branding", "branding/a.jpg", "files/A/b.bin", "files/..")
        for name in names:
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
                page = self.browse(method, f"/content/v1/{name}")
                self.refused(page, 405, "method_not_allowed")
                self.assertEqual(page.headers["allow"], "GET, HEAD")
                public = not name.startswith("files/")
                self.assertEqual("access-control-allow-origin" in page.headers, public)

    @proves("check order path, manifest, key", "content: 400 bad_path")
    def test_an_unclean_path_is_400_before_anything_else(self) -> None:
        for path in ("..%2fb", "A%5cb", "%2e%2e/x", "a%00", "%25%34%31", "a%zz", "a//b", "a%3ab"):
            self.refused(self.get(path, key=None), 400, "bad_path")

    @proves(
        "GET, HEAD /content/v1/files/<path>",
        "check order path, manifest, key",
        "content: 404 not_found",
    )
    def test_a_path_not_in_the_manifest_is_404_even_without_a_key(self) -> None:
        (self.folder / "secret.txt").write_bytes(b"not listed")
        for path in ("secret.txt", "a/b.bin", "A/B.bin", "A"):
            self.refused(self.get(path, key=None), 404, "not_found")
        self.assertEqual(self.metagame.requests, [])

    @proves("credentials: Content server", "content: 401 unauthorized")
    def test_a_missing_or_unknown_key_is_401(self) -> None:
        self.refused(self.get("A/b.bin", key=None), 401, "unauthorized")
        self.refused(self.get("A/b.bin", key="UUK_stranger"), 401, "unauthorized")

    @proves("credentials: Content server", "content: 401 unauthorized")
    def test_a_key_of_odd_shape_is_401_without_asking(self) -> None:
        for key in ("a b", "x" * 257, "a\tb", "é"):
            self.refused(self.get("A/b.bin", key=key), 401, "unauthorized")
        self.assertEqual(self.metagame.requests, [])

    @proves("credentials: Content server")
    def test_a_request_with_two_keys_is_401(self) -> None:
        sent = {"x-svc-user-api-key": [ANN, ANN]}
        page = self.browse("GET", "/content/v1/files/A/b.bin", headers=sent)
        self.refused(page, 401, "unauthorized")

    @proves("content: 503 auth_unavailable")
    def test_a_metagame_without_an_answer_is_503_and_asked_again(self) -> None:
        self.metagame.status = 500
        for _ in range(2):
            page = self.get("A/b.bin")
            self.refused(page, 503, "auth_unavailable")
            self.assertEqual(page.headers["retry-after"], "5")
        self.assertEqual(len(self.metagame.requests), 2)
        self.metagame.status = None
        self.assertEqual(self.get("A/b.bin").status, 200)

    @proves("content: 503 auth_unavailable")
    def test_a_silent_metagame_is_503_after_the_time_out(self) -> None:
        self.metagame.silent = True
        page = self.ask("GET", "/content/v1/files/A/b.bin", key=ANN)
        self.assertNoResult(page)
        self.clock.advance(5)
        self.flush()
        self.refused(self.successResultOf(page), 503, "auth_unavailable")
        self.assertEqual(self.clock.getDelayedCalls(), [])


class FileStateTests(DeskCase):
    def unavailable(self, path: str) -> None:
        page = self.get(path)
        self.assertEqual((page.status, page.json), (503, {"error": "file_unavailable"}))

    @proves("content: 503 file_unavailable")
    def test_a_changed_file_is_503_until_the_restart(self) -> None:
        target = self.folder / "A/b.bin"
        before = target.stat()
        target.write_bytes(BODY[:-1] + b"x")
        os.utime(target, ns=(0, 7))
        self.unavailable("A/b.bin")
        target.write_bytes(BODY)
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.unavailable("A/b.bin")
        self.assertEqual(self.get("Maps/Isle%20one.umap").status, 200)

    @proves("content: 503 file_unavailable")
    def test_a_file_that_went_away_is_503_until_the_restart(self) -> None:
        (self.folder / "A/b.bin").unlink()
        self.unavailable("A/b.bin")
        (self.folder / "A/b.bin").write_bytes(BODY)
        self.unavailable("A/b.bin")

    def test_head_of_a_missing_file_is_503_like_get(self) -> None:
        (self.folder / "A/b.bin").unlink()
        self.assertEqual(self.browse("HEAD", "/content/v1/files/A/b.bin", key=ANN).status, 503)

    @proves("check order path, manifest, key")
    def test_the_key_is_asked_for_before_the_file_is_looked_at(self) -> None:
        (self.folder / "A/b.bin").unlink()
        self.assertEqual(self.get("A/b.bin", key=None).status, 401)

    @proves("content: 503 file_unavailable")
    def test_a_link_put_in_place_of_a_file_is_not_followed(self) -> None:
        (self.folder / "A/b.bin").unlink()
        (self.folder / "A/b.bin").symlink_to("/etc/passwd")
        self.unavailable("A/b.bin")


class SlotTests(DeskCase):
    @proves("content: 429 too_many_streams", "limit: Content streams")
    def test_the_seventh_download_of_an_account_is_429_and_others_go_on(self) -> None:
        slots = [self.desk.slots.take("UID-ann") for _ in range(6)]
        page = self.get("A/b.bin")
        self.assertEqual((page.status, page.json), (429, {"error": "too_many_streams"}))
        self.assertEqual(page.headers["retry-after"], "2")
        self.assertEqual(self.browse("HEAD", "/content/v1/files/A/b.bin", key=ANN).status, 200)
        self.assertEqual(self.get("A/b.bin", key=BOB).status, 200)
        slots[0].release()
        self.assertEqual(self.get("A/b.bin").status, 200)

    @proves("content: 503 server_busy", "limit: Content streams")
    def test_the_forty_ninth_download_is_503(self) -> None:
        for number in range(48):
            self.desk.slots.take(f"UID-{number}")
        page = self.get("A/b.bin")
        self.assertEqual((page.status, page.json), (503, {"error": "server_busy"}))
        self.assertEqual(page.headers["retry-after"], "10")

    @proves("limit: Content streams")
    def test_a_finished_download_frees_its_slot_and_is_logged(self) -> None:
        with capturedLogs() as events:
            sent = {"Range": "bytes=0-9", "X-Forwarded-For": "203.0.113.9"}
            self.browse("GET", "/content/v1/files/A/b.bin", key=ANN, headers=sent)
        self.assertEqual((self.desk.slots.running(), len(self.transfers)), (0, 0))
        [line] = [event for event in events if event["log_format"] == "download"]
        replies = {name: line[name] for name in ("account", "user", "path", "range", "status")}
        self.assertEqual(
            replies,
            {
                "account": "UID-ann",
                "user": "ann",
                "path": "A/b.bin",
                "range": "0-9",
                "status": 206,
            },
        )
        self.assertEqual((line["bytes"], line["complete"]), (10, True))
        self.assertNotIn(ANN, str(events))

    def test_the_forwarded_address_is_logged_only_with_the_secret(self) -> None:
        secret = "s" * 40
        with capturedLogs() as events:
            for configured, offered in ((None, secret), (secret, "x" * 40), (secret, secret)):
                self.desk.gateway_secret = None if configured is None else Secret(configured)
                sent = {"X-Forwarded-For": "203.0.113.9", "X-Svc-Gateway": offered}
                self.browse("GET", "/content/v1/files/A/b.bin", key=ANN, headers=sent)
        lines = [event["ip"] for event in events if event["log_format"] == "download"]
        self.assertEqual(lines, ["127.0.0.1", "127.0.0.1", "203.0.113.9"])

    def test_a_file_that_shrinks_during_a_download_ends_it_and_no_other(self) -> None:
        path = self.folder / "A/b.bin"
        opened = self.game_files.open(self.entries["A/b.bin"])
        os.truncate(path, 1000)
        self.patch(self.desk.game_files.__class__, "open", lambda *_: opened)
        page = self.ask("GET", "/content/v1/files/A/b.bin", key=ANN)
        self.failureResultOf(page)
        self.assertEqual((self.desk.slots.running(), len(self.transfers)), (0, 0))
        self.assertTrue(opened.closed)
