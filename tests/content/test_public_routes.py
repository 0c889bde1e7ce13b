"""The routes for manifest, branding and news, which every launcher may read."""

import errno
import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.content import branding, news
from svcserver.content.manifest import body_etag
from svcserver.kernel.secrets import Secret
from svcserver.web.request import HttpRequest
from tests.content.support import DeskCase, Page
from tests.support.proves import proves

JPG = b"\xff\xd8\xff\xe0 picture"
PNG = b"\x89PNG\r\n\x1a\n picture"
WEBP = b"RIFF\x10\0\0\0WEBP picture"


class PublicCase(DeskCase):
    def more(self) -> dict[str, Any]:
        self.pictures, self.news_file = self.root / "pictures", self.root / "news.json"
        self.pictures.mkdir()
        return {"branding_dir": self.pictures, "news_file": self.news_file}

    def page(self, name: str, method: str = "GET", **headers: str) -> Page:
        names = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.browse(method, f"/content/v1/{name}", headers=names)

    def put(self, name: str, body: bytes) -> None:
        (self.pictures / name).write_bytes(body)

    def say(self, value: Any) -> None:
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.news_file.write_bytes(text)
        self.clock.advance(5)


class ManifestTests(PublicCase):
    @proves("GET, HEAD /content/v1/manifest", "public routes send Access-Control-Allow-Origin")
    def test_anyone_gets_the_manifest_with_its_etag(self) -> None:
        page = self.page("manifest?x=1")
        self.assertEqual(page.status, 200)
        self.assertEqual(page.json["totalBytes"], 5124)
        paths = [item["path"] for item in page.json["files"]]
        self.assertEqual(paths, ["A/b.bin", "Maps/Isle one.umap", "empty.txt"])
        self.assertEqual(page.headers["etag"], body_etag(page.body))
        self.assertEqual(page.headers["cache-control"], "no-cache")
        self.assertEqual(page.headers["content-type"], "application/json; charset=utf-8")
        self.assertEqual(page.headers["access-control-allow-origin"], "*")
        self.assertEqual(page.headers["x-content-type-options"], "nosniff")

    @proves("GET, HEAD /content/v1/manifest")
    def test_a_known_etag_is_304_and_head_has_no_body(self) -> None:
        etag = self.page("manifest").headers["etag"]
        page = self.page("manifest", If_None_Match=etag)
        self.assertEqual((page.status, page.body, page.headers["etag"]), (304, b"", etag))
        page = self.page("manifest", If_Match='"0"')
        self.assertEqual((page.status, page.json), (412, {"error": "precondition_failed"}))
        self.assertEqual(page.headers["access-control-allow-origin"], "*")
        self.assertEqual(self.page("manifest", If_Match=etag).status, 200)
        head = self.page("manifest", "HEAD")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertGreater(int(head.headers["content-length"]), 100)


class ProgramTests(DeskCase):
    def more(self) -> dict[str, Any]:
        return {"game_program": "A/b.bin"}

    @proves("GET, HEAD /content/v1/manifest")
    def test_a_named_program_is_listed_and_changes_the_etag(self) -> None:
        page = self.browse("GET", "/content/v1/manifest")
        self.assertEqual(page.json["program"], "A/b.bin")
        self.assertEqual(page.headers["etag"], body_etag(page.body))
        self.assertNotEqual(page.body, self.manifest.dump())


class NameTests(PublicCase):
    """The host names under which a browser on this machine may read the news.

    Only the gateway's secret proves that a request came through the gateway.
    """

    FORGED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via")

    def status(self, host: str, peer: str = "127.0.0.1", **headers: str) -> int:
        sent = Headers({"Host": [host]})
        for name, value in headers.items():
            sent.addRawHeader(name.replace("_", "-"), value)
        reply: Any = self.desk.answer(HttpRequest("GET", b"/content/v1/news", b"", sent, peer))
        status: int = reply.status
        return status

    def test_a_rebound_host_is_refused_despite_proxy_headers(self) -> None:
        self.desk.gateway_secret = Secret("s" * 40)
        self.assertEqual(self.status("evil.example"), 403)
        for name in self.FORGED:
            self.assertEqual(self.status("evil.example", **{name: "203.0.113.7"}), 403, name)
        self.assertEqual(self.status("evil.example", X_Svc_Gateway="g" * 40), 403)
        self.assertEqual(self.status("evil.example", X_Svc_Gateway=""), 403)

    @proves("GET, HEAD /content/v1/news")
    def test_without_a_secret_every_host_is_accepted(self) -> None:
        for more in ({}, {"X_Svc_Gateway": "g" * 40, "X_Forwarded_For": "203.0.113.7"}):
            for host in ("play.example.org", "x", "127.0.0.1:61002"):
                self.assertEqual(self.status(host, **more), 200, host)

    def test_the_gateway_passes_on_every_name(self) -> None:
        self.desk.gateway_secret = Secret("s" * 40)
        through = {"X_Svc_Gateway": "s" * 40, "X_Forwarded_For": "203.0.113.7"}
        for host in ("play.example.org", "127.0.0.1", "203.0.113.1:443"):
            self.assertEqual(self.status(host, **through), 200, host)

    def test_addresses_and_other_machines_need_no_secret(self) -> None:
        self.assertEqual(self.status("127.0.0.1:61002"), 200)
        self.assertEqual(self.status("203.0.113.1:443", X_Svc_Gateway="g" * 40), 200)
        self.assertEqual(self.status("game-host.overlay.example", peer="100.64.0.9"), 200)

    def test_a_wrong_gateway_secret_is_warned_of_once(self) -> None:
        self.desk.gateway_secret = Secret("s" * 40)
        with capturedLogs() as events:
            for _ in range(3):
                self.status("play.example.org", X_Svc_Gateway="g" * 40)
        warnings = [event for event in events if event["log_level"].name == "warn"]
        self.assertEqual(len(warnings), 1)
        self.assertIn("it has a wrong gateway secret", warnings[0]["log_format"])


class BrandingTests(PublicCase):
    def listed(self) -> Any:
        self.clock.advance(10)
        page = self.page("branding")
        self.assertEqual(page.headers["access-control-allow-origin"], "*")
        return page.json

    def names(self) -> list[str]:
        return [item["url"].rpartition("/")[2] for item in self.listed()["backgrounds"]]

    @proves("GET, HEAD /content/v1/branding")
    def test_without_a_branding_folder_the_list_is_empty(self) -> None:
        self.desk.branding = branding.Branding(None)
        self.assertEqual(self.listed(), {"backgrounds": [], "accent": None})
        self.assertEqual(self.page("branding/a.jpg").status, 404)

    @proves("GET, HEAD /content/v1/branding")
    def test_without_branding_json_all_valid_images_are_listed_by_name(self) -> None:
        for name, body in (("b.PNG", PNG), ("a.jpg", JPG), ("c.webp", WEBP), ("d.jpeg", JPG)):
            self.put(name, body)
        for name, body in (("x.jpg", PNG), ("e.png", b""), ("f.gif", b"GIF8"), (".g.jpg", JPG)):
            self.put(name, body)
        self.assertEqual(self.names(), ["a.jpg", "b.PNG", "c.webp", "d.jpeg"])
        first = self.listed()["backgrounds"][0]
        self.assertEqual(first, {"url": "/content/v1/branding/a.jpg", "credit": None})

    @proves("thing: Branding", "GET, HEAD /content/v1/branding")
    def test_branding_json_gives_order_credit_and_accent(self) -> None:
        self.put("a.jpg", JPG)
        self.put("b.png", PNG)
        backgrounds = [
            "b.png",
            "b.png",
            "../x.png",
            "no.jpg",
            7,
            {"file": "a.jpg", "credit": " by\n\tme "},
        ]
        self.put(
            "branding.json",
            json.dumps({"accent": " #D4A24C ", "backgrounds": backgrounds}).encode(),
        )
        document = self.listed()
        self.assertEqual(self.names(), ["b.png", "a.jpg"])
        self.assertEqual(document["accent"], "#d4a24c")
        self.assertEqual([item["credit"] for item in document["backgrounds"]], [None, "by me"])

    def test_ignored_images_are_warned_of_when_they_change(self) -> None:
        self.put("a.jpg", JPG)
        self.put("b.jpg", PNG)
        with capturedLogs() as events:
            for _ in range(3):
                self.assertEqual(self.names(), ["a.jpg"])
            self.put("c.png", b"")
            self.names()
            (self.pictures / "b.jpg").unlink()
            (self.pictures / "c.png").unlink()
            self.names()
        warnings = [event["names"] for event in events if event["log_level"].name == "warn"]
        self.assertEqual(warnings, ["'b.jpg'", "'b.jpg', 'c.png'"])

    @proves("GET, HEAD /content/v1/branding")
    def test_an_invalid_branding_json_is_ignored(self) -> None:
        self.put("a.jpg", JPG)
        for broken in (b"x", b"[]", b"\xff", b"[" * 10_000):
            self.put("branding.json", broken)
            self.assertEqual(self.names(), ["a.jpg"])

    @proves("GET, HEAD /content/v1/branding")
    def test_branding_is_read_every_ten_seconds_at_most(self) -> None:
        self.assertEqual(self.names(), [])
        self.put("a.jpg", JPG)
        self.clock.advance(9.9)
        self.assertEqual(self.page("branding").json["backgrounds"], [])
        self.clock.advance(0.1)
        self.assertEqual(len(self.page("branding").json["backgrounds"]), 1)

    @proves(
        "GET, HEAD /content/v1/branding/<file>", "public routes send Access-Control-Allow-Origin"
    )
    def test_an_image_is_sent_with_its_type(self) -> None:
        for name, body, kind in (
            ("a.jpg", JPG, "jpeg"),
            ("b.png", PNG, "png"),
            ("c.webp", WEBP, "webp"),
        ):
            self.put(name, body)
            page = self.page(f"branding/{name}")
            self.assertEqual((page.status, page.body), (200, body))
            self.assertEqual(page.headers["content-type"], f"image/{kind}")
            self.assertEqual(page.headers["content-length"], str(len(body)))
            self.assertEqual(page.headers["cache-control"], "max-age=300")
            self.assertEqual(page.headers["access-control-allow-origin"], "*")
            again = self.page(f"branding/{name}", If_None_Match=page.headers["etag"])
            self.assertEqual((again.status, again.body), (304, b""))
            self.assertEqual(self.page(f"branding/{name}", If_Match='"0"').status, 412)
            head = self.page(f"branding/{name}", "HEAD")
            self.assertEqual((head.status, head.body), (200, b""))
            self.assertEqual(head.headers["content-length"], str(len(body)))

    @proves("GET, HEAD /content/v1/branding/<file>", "content: 404 not_found")
    def test_an_invalid_image_is_404(self) -> None:
        self.put("x.jpg", PNG)
        self.put("secret.txt", b"x")
        self.put(".h.jpg", JPG)
        self.put("a" * 97 + ".jpg", JPG)
        (self.pictures / "dir.jpg").mkdir()
        (self.pictures / "link.jpg").symlink_to(self.pictures / ".h.jpg")
        os.mkfifo(self.pictures / "pipe.jpg")
        for name in ("", "x.jpg", "secret.txt", ".h.jpg", "..", "a%2ejpg", "../news.json"):
            page = self.page(f"branding/{name}")
            self.assertEqual((page.status, page.json), (404, {"error": "not_found"}), name)
        for name in ("a" * 97 + ".jpg", "dir.jpg", "link.jpg", "pipe.jpg", "a/b.jpg", "no.jpg"):
            self.assertEqual(self.page(f"branding/{name}").status, 404, name)

    @proves("GET, HEAD /content/v1/branding/<file>", "limit: Branding image")
    def test_an_image_over_25_mb_is_404(self) -> None:
        self.put("a.jpg", JPG)
        os.truncate(self.pictures / "a.jpg", 25 * 1024 * 1024 + 1)
        self.assertEqual(self.page("branding/a.jpg").status, 404)
        os.truncate(self.pictures / "a.jpg", 25 * 1024 * 1024)
        self.assertEqual(self.page("branding/a.jpg", "HEAD").status, 200)

    def test_accents_and_credits_are_cleaned(self) -> None:
        for value, accent in (("#FFF", "#fff"), ("#12345", None), ("red", None), (7, None)):
            self.assertEqual(branding.clean_accent(value), accent)
        self.assertEqual(branding.clean_credit("x" * 300), "x" * 200)
        for value in ("", " \n ", None, 7, ["a"]):
            self.assertIsNone(branding.clean_credit(value))


class NewsTests(PublicCase):
    def items(self) -> Any:
        page = self.page("news")
        self.assertEqual(page.status, 200)
        self.assertEqual(page.headers["access-control-allow-origin"], "*")
        return page.json["items"]

    @proves("GET, HEAD /content/v1/news")
    def test_without_a_news_file_there_is_no_news(self) -> None:
        self.assertEqual(self.items(), [])
        self.desk.news = news.NewsFile(None)
        self.assertEqual(self.items(), [])

    @proves(
        "thing: News",
        "GET, HEAD /content/v1/news",
        "public routes send Access-Control-Allow-Origin",
    )
    def test_news_items_are_cleaned_and_the_newest_comes_first(self) -> None:
        self.say(
            {
                "items": [
                    {"date": "2026-09-20", "title": " old\n ", "body": "a\r\nb"},
                    {"date": "2026-09-21T20:00:00+02:00", "title": "new"},
                    {"date": "Sat, 19 Sep 2026 10:00:00 GMT", "title": "mail"},
                ]
            }
        )
        self.assertEqual(
            self.items(),
            [
                {"date": "2026-09-21T18:00:00.000Z", "title": "new", "body": ""},
                {"date": "2026-09-20T00:00:00.000Z", "title": "old", "body": "a\nb"},
                {"date": "2026-09-19T10:00:00.000Z", "title": "mail", "body": ""},
            ],
        )

    def test_a_news_file_may_be_a_plain_list(self) -> None:
        self.say([{"date": "2026-09-20", "title": "x"}])
        self.assertEqual(len(self.items()), 1)

    def test_bad_news_items_are_skipped_and_long_items_cut(self) -> None:
        good = {"date": "2026-09-20", "title": "t" * 300, "body": "b" * 20_000}
        bad: list[Any] = [{**good, "title": value} for value in ("", " \t", None, 7)]
        bad += [{**good, "date": value} for value in ("", "soon", None, 7, "9" * 5000)]
        self.say([*bad, {**good, "body": 7}, "x", None, good])
        with capturedLogs() as events:
            [item] = self.items()
        self.assertEqual([(event["count"], event["all"]) for event in events], [(12, 13)])
        self.assertEqual((len(item["title"]), len(item["body"])), (200, 10_000))

    def test_at_most_fifty_news_items_are_shown(self) -> None:
        self.say([{"date": f"2026-01-01T00:{n:02}:00Z", "title": str(n)} for n in range(60)])
        items = self.items()
        self.assertEqual((len(items), items[0]["title"]), (50, "59"))

    @proves("GET, HEAD /content/v1/news")
    def test_a_change_shows_in_five_seconds_unless_it_is_broken(self) -> None:
        self.say([{"date": "2026-09-20", "title": "one"}])
        self.assertEqual(self.items()[0]["title"], "one")
        for broken in (b"x", b"{}", b"7", b'{"items":7}', b"[" * 10_000, b"\xff"):
            self.say(broken)
            self.assertEqual(self.items()[0]["title"], "one")
        self.say([{"date": "2026-09-20", "title": "second"}])
        self.assertEqual(self.items()[0]["title"], "second")
        self.news_file.unlink()
        self.clock.advance(5)
        self.assertEqual(self.items(), [])

    @proves("GET, HEAD /content/v1/news")
    def test_a_file_unreadable_for_a_while_is_read_again(self) -> None:
        self.say([{"date": "2026-09-20", "title": "one"}])
        read = mock.patch.object(Path, "read_bytes", side_effect=OSError(errno.EMFILE, "too many"))
        with read, capturedLogs() as events:
            for _ in range(5):
                self.assertEqual(self.items(), [])
                self.clock.advance(5)
        self.assertEqual([event["log_level"].name for event in events], ["warn"])
        self.assertEqual(self.items()[0]["title"], "one")


class HostileNewsTests(SynchronousTestCase):
    @given(st.binary(max_size=300))
    @settings(max_examples=100, deadline=None)
    def test_no_bytes_break_the_parser(self, text: bytes) -> None:
        try:
            news.parse(text)
        except news.BadNews:
            return

    @given(st.text(max_size=40))
    @settings(max_examples=200, deadline=None)
    def test_news_with_any_date_is_shown_in_utc_or_skipped(self, date: str) -> None:
        text = json.dumps([{"date": date, "title": "x"}]).encode()
        for item in news.parse(text):
            self.assertRegex(item["date"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
