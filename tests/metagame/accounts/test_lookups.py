"""Look-ups of accounts. Spec: 1 §4 Login and accounts: records, names, mappings."""

from urllib.parse import urlencode

from twisted.trial.unittest import SynchronousTestCase

from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

PUBLIC = "/account/api/public/account"


def account_query(ids: list[str]) -> str:
    """Return a query string that names these accounts."""
    return urlencode({"accountId": ids}, doseq=True)


class RecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")

    @proves("GET /account/api/public/account")
    def test_a_lookup_without_a_query_returns_the_callers_own_record(self) -> None:
        page = self.game.browse("GET", PUBLIC, token=self.ann.token)
        self.assertEqual((page.json["id"], page.json["displayName"]), (self.ann.id, "Ann_1"))
        self.assertEqual(page.json["minorStatus"], "NOT_MINOR")
        self.assertEqual(len(page.json), 18)

    @proves("ACCOUNT_DISPLAY_NAME (account record)")
    def test_without_its_switch_the_display_name_is_an_empty_object(self) -> None:
        game = Game(self, ACCOUNT_DISPLAY_NAME="0")
        page = game.browse("GET", PUBLIC, token=game.player("Ann_1").token)
        self.assertEqual(page.json["displayName"], {})

    def test_a_game_server_alone_has_no_record(self) -> None:
        page = self.game.browse("GET", PUBLIC, game_server=GAME_SERVER_KEY)
        self.assertEqual((page.status, page.json["displayName"]), (200, ""))
        self.assertNotIn("id", page.json)

    @proves("GET /account/api/public/account")
    def test_a_list_keeps_its_order_each_once_without_unknown_ids(self) -> None:
        ids = [self.bob.id, "UID-none", self.ann.id, self.bob.id, "b a d"]
        page = self.game.browse("GET", f"{PUBLIC}?{account_query(ids)}", token=self.ann.token)
        self.assertEqual([entry["id"] for entry in page.json], [self.bob.id, self.ann.id])
        self.assertEqual(
            page.json[0], {"id": self.bob.id, "displayName": "Bob_1", "externalAuths": {}}
        )

    @proves("GET /account/api/public/account", "limit: account ids per query and per mapping")
    def test_only_the_first_hundred_ids_are_read(self) -> None:
        ids = [f"UID-{n}" for n in range(100)] + [self.bob.id]
        page = self.game.browse("GET", f"{PUBLIC}?{account_query(ids)}", token=self.ann.token)
        self.assertEqual(page.json, [])

    @proves("GET /account/api/public/account/:accountId")
    def test_one_account_by_id_needs_a_token_to_be_seen(self) -> None:
        path = f"{PUBLIC}/{self.bob.id}"
        visible = self.game.browse("GET", path, token=self.ann.token)
        self.assertEqual(visible.json["displayName"], "Bob_1")
        self.assertEqual(self.game.browse("GET", path).json, {})
        for unknown in ("UID-none", "%00", "a%2Fb", "x" * 300):
            page = self.game.browse("GET", f"{PUBLIC}/{unknown}", token=self.ann.token)
            self.assertEqual((page.status, page.json), (200, {}))

    @proves("GET /account/api/public/account/displayName/:name")
    def test_an_account_is_found_by_its_display_name_in_any_case(self) -> None:
        page = self.game.browse("GET", f"{PUBLIC}/displayName/bOB_1", token=self.ann.token)
        self.assertEqual(page.json["id"], self.bob.id)
        for path, token in (
            (f"{PUBLIC}/displayName/bob_1", None),
            (f"{PUBLIC}/displayName/Nobody", self.ann.token),
            (f"{PUBLIC}/displayName/%00", self.ann.token),
            (f"{PUBLIC}/displayName/{'x' * 65}", self.ann.token),
        ):
            page = self.game.browse("GET", path, token=token)
            self.assertEqual((page.status, page.body), (404, b""))

    @proves("GET /account/api/public/account/:accountId/externalAuths")
    def test_external_auths_of_any_account_are_empty(self) -> None:
        self.assertEqual(self.game.browse("GET", f"{PUBLIC}/{self.bob.id}/externalAuths").json, {})

    @proves(
        "convention 5: the envelope",
        "GET /account/link/epic/:accountId",
        "GET /accountinfo",
        "GET /features/platform/win",
        "GET /tags",
    )
    def test_info_tags_features_and_link_reply_as_documented(self) -> None:
        info = self.game.browse("GET", "/accountinfo", token=self.ann.token).json
        self.assertEqual(
            (info["accountId"], info["username"], info["verified"]), (self.ann.id, "Ann_1", True)
        )
        tags = self.game.browse("GET", "/tags", token=self.ann.token).json
        self.assertEqual(tags, {"accountId": self.ann.id, "tags": []})
        features = self.game.browse("GET", "/features/platform/win").json
        self.assertEqual(features["payload"], {"crossplay": True, "crossprogression": True})
        linked = self.game.browse("GET", "/account/link/epic/anyone").json
        self.assertEqual(linked, {"code": None, "message": "OK", "payload": {"isLinked": True}})
        for path in ("/accountinfo", "/tags", PUBLIC):
            self.assertEqual(self.game.browse("GET", path).status, 401)


class MappingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")

    def ask(self, body: object, token: str | None = None) -> dict[str, object]:
        page = self.game.browse(
            "POST", "/account/mapping", json=body, token=token or self.ann.token
        )
        self.assertEqual(page.status, 200)
        self.assertEqual(page.json["accountMappings"], page.json["payload"]["accountMappings"])
        return page.json["accountMappings"]

    @proves("POST /account/mapping")
    def test_every_known_id_maps_to_itself(self) -> None:
        reply = self.ask(
            {"srcAccountType": "extidp", "ids": [self.bob.id, "UID-none", self.bob.id]}
        )
        self.assertEqual(reply, {self.bob.id: {"accountId": self.bob.id, "accountType": "native"}})

    @proves("POST /account/mapping")
    def test_a_mapping_from_native_returns_the_type_extidp(self) -> None:
        for body in (
            {"srcAccountType": "Native", "ids": [self.bob.id]},
            {"type": "native", "ids": [self.bob.id]},
            {"externalAuthType": "NATIVE", "ids": [self.bob.id]},
        ):
            self.assertEqual(self.ask(body)[self.bob.id]["accountType"], "extidp")
        odd = self.ask({"srcAccountType": "native ", "ids": [self.bob.id]})
        self.assertEqual(odd[self.bob.id]["accountType"], "native")

    @proves("POST /account/mapping")
    def test_a_mapping_accepts_older_names_of_the_id_list(self) -> None:
        self.game.described.odd = True
        for body in (
            [self.bob.id],
            {"externalIds": [self.bob.id]},
            {"accountIds": [self.bob.id]},
            {"externalAuthIds": [self.bob.id]},
            {"ids": "no list", "accountIds": [self.bob.id]},
        ):
            self.assertEqual(list(self.ask(body)), [self.bob.id])

    @proves("POST /account/mapping", "limit: account ids per query and per mapping")
    def test_a_mapping_reads_only_the_first_hundred_distinct_ids(self) -> None:
        many = [f"UID-{n}" for n in range(99)] * 3
        self.assertEqual(list(self.ask({"ids": [*many, self.bob.id, "UID-z"]})), [self.bob.id])
        self.assertEqual(self.ask({"ids": [*many, "UID-99", self.bob.id]}), {})

    def test_a_mapping_of_invalid_ids_is_empty(self) -> None:
        self.game.described.odd = True
        for body in ({"ids": [1, None, [], {}, "", "x" * 129, "\x00"]}, {"ids": {}}, {}, []):
            self.assertEqual(self.ask(body), {})

    @proves("POST /account/mapping", "ACCOUNT_MAPPING")
    def test_without_a_token_or_with_the_switch_off_the_map_is_empty(self) -> None:
        self.assertEqual(self.ask({"ids": [self.bob.id]}, token="bad"), {})
        game = Game(self, ACCOUNT_MAPPING="0")
        ann = game.player("Ann_1")
        page = game.browse("POST", "/account/mapping", json={"ids": [ann.id]}, token=ann.token)
        self.assertEqual(page.json["accountMappings"], {})


class PublicInfoTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")

    @proves("POST /accountinfo/public")
    def test_any_player_may_look_up_any_account_by_id_or_name(self) -> None:
        for body in (
            {"accountId": self.bob.id},
            {"displayname": "BOB_1"},
            {"displayName": "bob_1"},
            {"accountId": "", "displayname": "Bob_1"},
            {"accountId": self.bob.id, "displayname": "Ann_1"},
        ):
            page = self.game.browse("POST", "/accountinfo/public", json=body, token=self.ann.token)
            self.assertEqual(
                page.json,
                {
                    "accountId": self.bob.id,
                    "username": "Bob_1",
                    "linkedAccounts": [{"accountId": self.bob.id, "accountType": "extidp"}],
                    "isSubscribed": True,
                    "language": None,
                },
            )

    @proves("POST /accountinfo/public")
    def test_an_unknown_account_is_404_with_an_empty_object(self) -> None:
        for body in (
            {"accountId": "UID-none", "displayname": "Bob_1"},
            {"displayname": "No_one"},
            {},
            [],
            {"accountId": 7},
        ):
            page = self.game.browse("POST", "/accountinfo/public", json=body, token=self.ann.token)
            self.assertEqual((page.status, page.json), (404, {}))
        self.assertEqual(self.game.browse("POST", "/accountinfo/public", json={}).status, 401)

    @proves("POST /accountinfo/public", "ACCOUNTINFO_PUBLIC_LEGACY")
    def test_with_the_legacy_switch_the_account_id_is_the_callers(self) -> None:
        game = Game(self, ACCOUNTINFO_PUBLIC_LEGACY="1")
        ann, bob = game.player("Ann_1"), game.player("Bob_1")
        page = game.browse(
            "POST", "/accountinfo/public", json={"accountId": bob.id}, token=ann.token
        )
        self.assertEqual((page.json["accountId"], page.json["username"]), (ann.id, "Bob_1"))
        page = game.browse(
            "POST", "/accountinfo/public", json={"accountId": "UID-none"}, token=ann.token
        )
        self.assertEqual((page.status, page.json["username"]), (200, ""))
