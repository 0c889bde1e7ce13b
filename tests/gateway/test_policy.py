"""The gateway's policy, compared with a simple reference and checked for each route."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway import policy
from svcserver.gateway.policy import Bucket, Decision, Route, rule
from tests.support.proves import proves

PUBLIC = [
    ("POST", "/svc/api/Register"),
    ("GET", "/svc/api/GetUserInfo"),
    ("HEAD", "/svc/api/GetUserInfo"),
    ("GET", "/svc/api/ServerStatus"),
    ("HEAD", "/svc/api/ServerStatus"),
    ("GET", "/svc/api/RegistrationStatus"),
    ("HEAD", "/svc/api/RegistrationStatus"),
]
MANAGEMENT = [
    "UsernameAvailable",
    "PublicOnlineStats",
    "PartyInvite",
    "Friends",
    "GuildInvite",
    "Guilds",
    "DisbandGuild",
    "InviteCodes",
    "CreateInvite",
    "RegisterInviteCode",
    "InviteCode/X",
    "GetAllUsers",
    "DashboardAccounts",
    "RenameUser",
    "GenerateJWTForUserId",
    "PrivateOnlineStats",
    "SaveHistory",
    "RollbackCharacter",
    "RollbackLoadout",
    "Progression",
    "SeedProgression",
    "GrantEntitlement",
    "RevokeEntitlement",
    "BackendHealth",
]


def ask(method: str, target: str, upgrade: str = "", key: bool = False) -> Decision:
    return rule(
        method.encode(),
        target.encode("latin-1"),
        upgrade=upgrade.encode(),
        has_body=False,
        gameserver_key=key,
    )


def refused(*args: str, key: bool = False) -> tuple[int, str] | None:
    no = ask(*args, key=key).refuse
    return None if no is None else (no.status, no.code)


# -- the reference: slow, obvious, written without looking at the policy -----------


def decode_once(path: str) -> list[int]:
    out: list[int] = []
    at = 0
    while at < len(path):
        if path[at] == "%" and len(path) >= at + 3 and is_hex(path[at + 1 : at + 3]):
            out.append(int(path[at + 1 : at + 3], 16))
            at += 3
        else:
            out.append(ord(path[at]))
            at += 1
    return out


def is_hex(text: str) -> bool:
    return len(text) == 2 and all(char in "0123456789abcdefABCDEF" for char in text)


def reference(method: str, target: str, key: bool) -> str:
    """Return the error code with which the policy refuses the request, or an empty string."""
    if method not in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        return "method_not_allowed"
    path = target.split("?")[0]
    if path == "" or path[0] != "/" or "#" in path:
        return "bad_request"
    if not clean(path):
        return "bad_path"
    if key:
        return "forbidden"
    text = bytes(decode_once(path)).decode("utf-8", "surrogateescape").lower()
    segments = [segment for segment in text.split("/") if segment]
    closed = segments and segments[0] == "svc"
    joined = "/" + "/".join(segments)
    public = (method, joined) in [(verb, where.lower()) for verb, where in PUBLIC]
    return "forbidden" if closed and not public else ""


def clean(path: str) -> bool:
    for at, char in enumerate(path):
        if char in "\\ \t" or ord(char) < 32 or ord(char) == 127:
            return False
        if char == "%":
            digits = path[at + 1 : at + 3]
            if not is_hex(digits) or digits.lower() in ("2f", "5c", "00", "2e"):
                return False
    return not any(segment in (".", "..") for segment in path.split("/"))


def dressed(path: str, seed: int) -> str:
    """Return ``path`` spelled differently: case, escapes, doubled and trailing slashes."""
    out = []
    for at, char in enumerate(path):
        trick = (seed >> (at % 24)) + at * 7 & 7
        if char == "/":
            out.append("//" if trick == 1 else "/")
        elif trick == 2:
            out.append(f"%{ord(char):02x}")
        elif trick == 3:
            out.append(f"%{ord(char):02X}")
        else:
            out.append(char.upper() if trick == 4 else char)
    return "".join(out) + ("/" if seed & 1 else "")


METHODS = st.sampled_from(
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "CONNECT"]
)
PIECES = st.sampled_from(
    [
        "/",
        "//",
        "svc",
        "SVC",
        "%73vc",
        "%2573vc",
        "api",
        "register",
        "getuserinfo",
        ".",
        "..",
        "\\",
        "%2f",
        "%2F",
        "%5c",
        "%00",
        "%2e",
        "%2E%2e",
        "%",
        "%g1",
        "%4",
        " ",
        "\t",
        "\x7f",
        "?",
        "#",
        "content",
        "account",
        "a.b",
        "c..d",
        ".e",
        "%20",
        "%0a",
        ";",
        "x",
        "é",
        "%c3%a9",
        "%e2",
        "%e2%84%aa",
        "serverstatus",
        "127.0.0.1:61000",
        "svc-status",
        "contentx",
        "*",
        "http://h",
    ]
)


class ReferenceTests(SynchronousTestCase):
    @proves("gateway: 403 forbidden")
    @settings(max_examples=400, deadline=None)
    @given(METHODS, st.lists(PIECES, max_size=9).map("".join), st.booleans())
    def test_every_spelling_gets_the_references_verdict(
        self, method: str, target: str, key: bool
    ) -> None:
        result = refused(method, target, key=key)
        self.assertEqual(result[1] if result else "", reference(method, target, key))

    @settings(max_examples=200, deadline=None)
    @given(
        METHODS, st.text(st.characters(max_codepoint=255), max_size=30).map(lambda text: "/" + text)
    )
    def test_any_text_gets_the_references_verdict(self, method: str, target: str) -> None:
        result = refused(method, target)
        self.assertEqual(result[1] if result else "", reference(method, target, False))

    @proves("gateway: 403 forbidden")
    @settings(max_examples=200, deadline=None)
    @given(METHODS, st.sampled_from(MANAGEMENT), st.integers(0, 1 << 24))
    def test_no_spelling_of_a_closed_route_passes(self, method: str, name: str, seed: int) -> None:
        self.assertIsNotNone(refused(method, dressed("/svc/api/" + name, seed)))


class RowTests(SynchronousTestCase):
    @proves("through the gateway only four answer")
    def test_the_four_public_management_routes_pass(self) -> None:
        for method, path in PUBLIC:
            for spelling in (path, path.lower(), "/" + path + "//", path + "?x=../%2f"):
                self.assertIsNone(refused(method, spelling))

    @proves("through the gateway only four answer", "gateway: 403 forbidden")
    def test_every_other_management_route_and_method_is_closed(self) -> None:
        for name in MANAGEMENT:
            for method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS"):
                self.assertEqual(refused(method, f"/svc/api/{name}"), (403, "forbidden"))
        for method, path in (
            ("GET", "/svc/api/Register"),
            ("POST", "/svc/api/ServerStatus"),
            ("POST", "/svc/api/RegistrationStatus"),
            ("OPTIONS", "/svc/api/Register"),
            ("GET", "/svc"),
            ("GET", "/SVC/"),
            ("GET", "/svc/anything"),
            ("POST", "/svc/api/Register/x"),
        ):
            self.assertEqual(refused(method, path), (403, "forbidden"))
        self.assertEqual(refused("GET", "/svc/api/InviteCodes", "websocket"), (403, "forbidden"))

    @proves("gateway: 403 forbidden")
    def test_a_path_that_resembles_management_passes(self) -> None:
        for path in ("/svc-status", "/svcx", "/x/svc/api/InviteCodes", "/%2573vc/api"):
            self.assertIsNone(refused("GET", path))

    @proves("gateway: 403 forbidden")
    def test_the_game_server_header_is_forbidden_everywhere(self) -> None:
        self.assertEqual(refused("POST", "/heartbeat", key=True), (403, "forbidden"))
        self.assertEqual(ask("GET", "/x", key=True).refuse, policy.BAD_HEADER)

    @proves("gateway: 400 bad_path")
    def test_unusual_but_clean_paths_pass(self) -> None:
        for path in ("/a.b/c..d/.e", "/account127.0.0.1:61000", "/", "//", "/x?a=%zz", "/%20"):
            self.assertIsNone(refused("GET", path))

    @proves("gateway: 400 bad_path")
    def test_unclean_paths_are_refused(self) -> None:
        for path in (
            "/a\\b",
            "/.",
            "/..",
            "/a/../b",
            "/a/./b",
            "/%2f",
            "/%2F",
            "/%5c",
            "/%5C",
            "/%00",
            "/%2e",
            "/%2E%2E/",
            "/%",
            "/%1",
            "/%zz",
            "/a\x01",
            "/a\tb",
        ):
            with self.subTest(path=path):
                self.assertEqual(refused("GET", path), (400, "bad_path"))

    @proves("gateway: 400 bad_request")
    def test_targets_that_are_no_paths_are_refused(self) -> None:
        for target in ("", "*", "http://a/b", "a:443", "?x", "x"):
            self.assertEqual(refused("GET", target), (400, "bad_request"))

    @proves("gateway: 400 bad_request")
    def test_only_get_may_upgrade_and_only_to_websocket(self) -> None:
        self.assertIsNone(refused("GET", "//", "websocket"))
        self.assertEqual(refused("POST", "//", "websocket"), (400, "bad_request"))
        self.assertEqual(refused("GET", "//", "h2c"), (400, "bad_request"))
        for path in ("/party/invite", "/chat"):  # paths of the metagame, which has no sockets
            self.assertEqual(refused("GET", path, "h2c"), (400, "bad_request"))
            self.assertIs(ask("GET", path, "websocket").route, Route.WS)

    @proves("gateway: order of refusals")
    def test_refusals_come_in_the_order_method_upgrade_path_header(self) -> None:
        self.assertEqual(refused("TRACE", "*", key=True), (405, "method_not_allowed"))
        self.assertEqual(refused("POST", "/..", "h2c", key=True), (400, "bad_request"))
        self.assertEqual(refused("GET", "/..", key=True), (400, "bad_path"))
        self.assertEqual(ask("GET", "/svc/api/x", key=True).refuse, policy.BAD_HEADER)

    @proves(
        "gateway: /content and below",
        "gateway: GET with Upgrade: websocket",
        "gateway: everything else",
    )
    def test_content_paths_go_to_content_and_others_to_metagame(self) -> None:
        for path, route in (
            ("/content", Route.CONTENT),
            ("/Content/v1/manifest", Route.CONTENT),
            ("//%63ontent//x", Route.CONTENT),
            ("/contentx", Route.METAGAME),
            ("/x/content", Route.METAGAME),
            ("/", Route.METAGAME),
        ):
            self.assertIs(ask("GET", path).route, route)
        self.assertIs(ask("GET", "/content", "websocket").route, Route.WS)

    @proves(
        "limit: Gateway token buckets per IPv4 address or IPv6 /64",
        "limit: Register through the gateway",
    )
    def test_each_request_is_charged_to_its_bucket(self) -> None:
        for method, path, upgrade, bucket in (
            ("GET", "/svc/api/REGISTER/", "", Bucket.REGISTER),
            ("POST", "//svc/api/%72egister", "", Bucket.REGISTER),
            ("DELETE", "/account/api/oauth/token", "", Bucket.TOKEN),
            ("POST", "/ACCOUNT//api/oauth/to%6ben/", "", Bucket.TOKEN),
            ("POST", "/launcher/name-free", "", Bucket.NAME),
            ("POST", "/Launcher//name-fre%65/", "", Bucket.NAME),
            ("POST", "/launcher/INVITE/", "", Bucket.NAME),
            ("GET", "/launcher/hunter", "", Bucket.GENERAL),
            ("GET", "/content/v1/news", "", Bucket.CONTENT),
            ("GET", "//", "websocket", Bucket.WS),
            ("POST", "//", "websocket", Bucket.GENERAL),
            ("GET", "/svc/api/serverstatus", "", Bucket.GENERAL),
            ("TRACE", "*", "", Bucket.GENERAL),
        ):
            self.assertIs(ask(method, path, upgrade).bucket, bucket)

    @proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
    def test_the_kelvin_sign_does_not_dodge_the_token_bucket(self) -> None:
        self.assertIs(ask("POST", "/account/api/oauth/to%e2%84%aaen").bucket, Bucket.TOKEN)

    @proves("event: allowlist report after a 2xx, once per period, never waited for")
    def test_log_ins_and_heartbeats_open_ports(self) -> None:
        for method, path, values, earned in (
            ("POST", "/heartbeat", [b"Bearer x"], True),
            ("POST", "/Heartbeat/", [b"bearer x"], True),
            ("POST", "/heartbeat", [b"Bearer "], False),
            ("POST", "/heartbeat", [b"Basic x"], False),
            ("POST", "/heartbeat", [], False),
            ("POST", "/heartbeat", [b"Bearer x", b"Bearer y"], False),
            ("GET", "/heartbeat", [b"Bearer x"], False),
            ("POST", "/account/api/oauth/token", [], True),
            ("POST", "/other", [b"Bearer x"], False),
        ):
            result = policy.earns_ports(ask(method, path), method.encode(), values)
            self.assertEqual(result, earned)
