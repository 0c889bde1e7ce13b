"""Access to the dashboard's page, and its content security policy."""

import re
from importlib.resources import files
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.dashboard.routes import HEADERS
from svcserver.web.request import PROXY_HEADERS
from tests.metagame.owner.dashboard.dialogs import DIALOGS, pressed, titles
from tests.support.game import Game
from tests.support.proves import proves

STATIC = files("svcserver.metagame.owner.dashboard") / "static"
OUTSIDE = re.compile(r"""(?:https?:)?//(?!www\.w3\.org)[\w.-]+\.\w+/""")
UPLOT = "/*! https://github.com/leeoniya/uPlot (v1.6.32) */"


def plain(address: str) -> str:
    """Return the address without the version."""
    return f"/svc/dashboard/{address.rpartition('/')[2]}"


class PagesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)

    def ask(self, path: str, **how: Any) -> Any:
        return self.game.browse("GET", path, **how)

    @proves("the dashboard's page: direct callers, nothing from outside, no markup of data")
    def test_a_direct_caller_gets_the_page_without_a_key(self) -> None:
        page = self.ask("/svc/dashboard")
        self.assertEqual(page.status, 200)
        self.assertEqual(page.headers["content-type"], "text/html; charset=utf-8")
        self.assertEqual(self.ask("/svc/dashboard/").body, page.body)

    @proves("GET / | none")
    def test_the_root_redirects_a_browser_on_this_machine(self) -> None:
        browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        sent = self.ask("/", headers=browser)
        self.assertEqual((sent.status, sent.headers["location"]), (302, "/svc/dashboard"))
        others: list[dict[str, str]] = [{}, {"Accept": "*/*"}]
        others += [browser | {header.decode(): "1"} for header in PROXY_HEADERS]
        others += [browser | {"Origin": "http://other.example"}]
        for headers in others:
            refused = self.ask("/", headers=headers)
            self.assertEqual((refused.status, refused.body), (404, b""), headers)

    def test_every_file_of_the_package_is_served_with_its_type(self) -> None:
        kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
        kinds |= {"txt": "text/plain"}
        for file in STATIC.iterdir():
            page = self.ask(f"/svc/dashboard/{file.name}")
            self.assertEqual(page.status, 200)
            if file.name not in ("index.html", "app.js"):
                self.assertEqual(page.body, file.read_bytes())
            kind = kinds.get(file.name.rpartition(".")[2], "image/svg+xml")
            self.assertEqual(page.headers["content-type"], f"{kind}; charset=utf-8")

    def test_a_browser_stores_the_files_of_a_version(self) -> None:
        page = self.ask("/svc/dashboard").body.decode()
        addresses = re.findall(r'(?:src|href)="(/svc/dashboard/[^"]+)"', page)
        for address in addresses:
            part = self.ask(address)
            self.assertEqual((part.status, part.body), (200, self.ask(plain(address)).body))
            self.assertIn("immutable", part.headers["cache-control"], address)
        [version] = {address.split("/")[3] for address in addresses}
        for path in ("/svc/dashboard", plain(addresses[0]), addresses[0].replace(version, "old")):
            self.assertEqual(self.ask(path).headers["cache-control"], "no-store", path)

    def test_the_page_loads_all_modules_in_one_script(self) -> None:
        page, script = (self.ask(f"/svc/dashboard{path}").body.decode() for path in ("", "/app.js"))
        self.assertIsNone(re.search("^(import|export)", script, re.MULTILINE))
        for file in STATIC.glob("*.js"):
            alone = f'/{file.name}"' in page and file.name != "app.js"
            self.assertEqual(script.count(f"const ${file.stem} = "), int(not alone), file.name)
        self.assertLess(script.index("const $dom = "), script.index("const $dialog = "))
        self.assertIn("const { Refused, listen, read, signIn: begin, ", script)
        self.assertIn("const connection = $connection;", script)

    @proves("the dashboard's page: direct callers, nothing from outside, no markup of data")
    def test_every_reply_has_the_security_headers(self) -> None:
        for path in ("/svc/dashboard", "/svc/dashboard/index.html"):
            headers = self.ask(path).headers
            for name, value in HEADERS.items():
                self.assertEqual(headers[name.lower()], value)
        policy = headers["content-security-policy"]
        self.assertNotIn("unsafe", policy)
        for wanted in ("default-src 'none'", "frame-ancestors 'none'", "script-src 'self'"):
            self.assertIn(wanted, policy.split("; "))
        self.assertEqual(headers["x-frame-options"], "DENY")

    @proves("the dashboard's page: direct callers, nothing from outside, no markup of data")
    def test_requests_through_a_proxy_are_refused_without_body(self) -> None:
        for header in PROXY_HEADERS:
            for path in ("/svc/dashboard", "/svc/dashboard/index.html"):
                page = self.ask(path, headers={header.decode(): "1"})
                self.assertEqual((page.status, page.body), (403, b""))

    def test_axe_checks_every_dialog(self) -> None:
        self.assertEqual({*titles()}, DIALOGS.keys())
        for title, (file, button) in DIALOGS.items():
            self.assertIn(button, pressed(file), title)
            self.assertRegex(title, r"\w")  # otherwise it would also match any other title

    def test_files_outside_the_dashboard_pages_are_404(self) -> None:
        for name in ("nothing.js", "..%2fpages.py", "%2e%2e", "pages.py", "a/b", "%00"):
            self.assertEqual(self.ask(f"/svc/dashboard/{name}").status, 404, name)

    @proves("the dashboard's page: direct callers, nothing from outside, no markup of data")
    def test_files_load_nothing_external_and_build_no_markup(self) -> None:
        for file in STATIC.iterdir():
            if file.suffix == ".txt":
                continue  # the licence of uPlot, which only people read
            text = file.read_text().removeprefix(UPLOT)
            self.assertIsNone(OUTSIDE.search(text), file.name)
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
                self.assertNotIn(word, text, file.name)
            self.assertIsNone(re.search(r"\son\w+=|\sstyle=|document\.cookie", text), file.name)
