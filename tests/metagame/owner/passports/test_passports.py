"""The hunter page, and passports: signed, imported once, rejected if changed."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.progression.config import load
from svcserver.metagame.achievements.progression.rules import Track
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.owner.passports import rules, store, wire
from svcserver.metagame.owner.passports.acts import PassportActs
from tests.ctl.command import new_host, nowhere, svcctl
from tests.support.belongings import Owner
from tests.support.game import Game
from tests.support.proves import proves


class PassportTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = Owner.of(self.game, "Ann_1")
        save = {"characterId": self.ann.character, "data": '{"level":7}', "updateVersion": 1}
        self.game.browse("POST", "/character", json=save, token=self.ann.player.token)
        track = Track(self.track(), 50, 0, 0, 0)
        ledger = self.game.parts.ledger
        self.successResultOf(
            ledger.write(lambda tx: SqlProgress(tx).put_tracks(self.ann.player.id, [track]))
        )

    def track(self) -> str:
        return sorted(load(None, self.game.parts.settings.active_hunt_pass).paths)[0]

    def passport(self) -> dict[str, Any]:
        page = self.game.browse("GET", "/launcher/passport", key=self.ann.player.key)
        self.assertEqual(page.status, 200)
        passport: dict[str, Any] = page.json
        return passport

    @proves("GET /launcher/hunter | account key")
    def test_my_hunter_is_shown_to_the_holder_of_the_key(self) -> None:
        page = self.game.browse("GET", "/launcher/hunter", key=self.ann.player.key)
        expected = page.json
        self.assertEqual(
            (expected["username"], expected["guild"], expected["friends"]), ("Ann_1", None, [])
        )
        self.assertEqual(expected["characters"][0]["saves"][0]["version"], 1)
        self.assertEqual(expected["tracks"][0]["id"], self.track())
        self.assertEqual(self.game.browse("GET", "/launcher/hunter").status, 401)
        self.assertEqual(self.game.browse("GET", "/launcher/hunter", key="UUK_x").status, 401)

    def test_reads_are_throttled_for_each_player(self) -> None:
        bob = Owner.of(self.game, "Bob_1").player
        for path, most in (("/launcher/passport", 6), ("/launcher/hunter", 30)):
            for _ in range(most):
                page = self.game.browse("GET", path, key=self.ann.player.key)
                self.assertEqual(page.status, 200)
            page = self.game.browse("GET", path, key=self.ann.player.key)
            self.assertEqual((page.status, page.headers["retry-after"]), (429, "60"))
            self.assertEqual(self.game.browse("GET", path, key=bob.key).status, 200)
        self.game.clock.advance(61)
        self.assertEqual(self.passport()["format"], rules.FORMAT)

    def test_large_reads_of_an_account_take_turns(self) -> None:
        parts, me, first_read = self.game.parts, self.ann.player.id, Deferred[None]()
        of = parts.settings, parts.data, parts.tokens.keys.private, parts.sessions
        acts = PassportActs.with_passport_key(*of, self.game.clock.seconds)
        reading = Deferred.fromCoroutine(parts.data._turns.run(me, lambda: first_read))
        reads = [Deferred.fromCoroutine(ask(me)) for ask in (acts.passport, acts.hunter)]
        for read in reads:
            self.assertNoResult(read)
        first_read.callback(None)
        for read in (reading, *reads):
            self.successResultOf(read)

    def test_reading_stops_at_the_size_limit(self) -> None:
        read: list[str] = []

        def hoard(_: object, character: str) -> dict[str, str]:
            read.append(character)
            return {"inventory": "x" * 600}

        for _ in range(3):
            self.ann.another()
        self.patch(store, "carried", hoard)
        self.patch(rules, "MAX_BODY", 1_000)
        page = self.game.browse("GET", "/launcher/passport", key=self.ann.player.key)
        self.assertEqual((page.status, len(read)), (409, 2))

    @proves("GET /launcher/passport | account key")
    def test_a_passport_has_the_hosts_signature(self) -> None:
        passport = wire.unseal(json.dump(self.passport()))
        self.assertEqual((passport.username, passport.subject), ("Ann_1", self.ann.player.id))
        self.assertEqual(passport.tracks[self.track()], 50)
        self.assertEqual([character.data for character in passport.characters], ['{"level":7}'])
        self.assertEqual(self.game.browse("GET", "/launcher/passport").status, 401)

    def test_one_changed_byte_is_refused(self) -> None:
        passport = self.passport()
        raw = base64.b64decode(passport["body"])
        for at in range(0, len(raw), 7):
            changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
            text = json.dump({**passport, "body": base64.b64encode(changed).decode()})
            with self.assertRaises(Malformed):
                wire.unseal(text)
        file = json.dump(passport)
        self.assertEqual(wire.unseal(file).username, "Ann_1")
        for at in range(len(file)):
            for bit in (1, 4):
                changed = file[:at] + bytes([file[at] ^ bit]) + file[at + 1 :]
                with self.assertRaises(Malformed, msg=f"{at}: {changed[at : at + 1]!r}"):
                    wire.unseal(changed)
        for name, value in (
            ("key", "0" * 64),
            ("signature", "AAAA"),
            ("format", "x"),
            ("body", ""),
        ):
            with self.assertRaises(Malformed):
                wire.unseal(json.dump({**passport, name: value}))
        for text in (b"", b"[]", b"{}", b"\xff"):
            with self.assertRaises(Malformed):
                wire.unseal(text)

    def test_a_host_that_trusts_the_issuer_imports_a_passport_once(self) -> None:
        folder = new_host(nowhere(self))
        file = Path(folder, "ann.json")
        passport = self.passport()
        file.write_bytes(json.dump(passport))
        config = ("--config", folder)
        self.assertEqual(svcctl("account", "create", "Ann_2", *config).status, 0)
        ran = svcctl("passport", "import", file, "Ann_2", *config)
        self.assertIn("is not trusted. Ask that host's owner, not the player", ran.line)
        # a stranger's file must not suggest a key to trust
        self.assertNotIn(passport["key"], ran.line)
        self.assertNotIn("passport trust", ran.line)
        in_groups = " ".join(re.findall("....", passport["key"]))
        self.assertIn(in_groups, ran.line)
        self.assertIn("64 hex", svcctl("passport", "trust", in_groups, *config).line)
        self.assertIn("64 hex", svcctl("passport", "trust", "nonsense", *config).line)
        self.assertEqual(svcctl("passport", "trust", passport["key"], *config).status, 0)
        self.assertIn("no account", svcctl("passport", "import", file, "Nobody", *config).line)
        why = ("--reason", "she asked")
        ran = svcctl("passport", "import", file, "Ann_2", "--json", *why, *config)
        self.assertEqual((ran.status, ran.data["tracks"], ran.data["characters"]), (0, 1, 1))
        ran = svcctl("passport", "import", file, "Ann_2", *config)
        self.assertIn("has been imported before", ran.line)
        file.write_bytes(file.read_bytes().replace(b'"body":"', b'"body":"A'))
        self.assertIn("was changed", svcctl("passport", "import", file, "Ann_2", *config).line)
        own = svcctl("passport", "key", "--json", *config).data["key"]
        self.assertTrue(rules.is_public_text(own))
        self.assertNotEqual(own, passport["key"])
        rows: list[Any] = list(map(json.parse, svcctl("audit", "--json", *config).out.splitlines()))
        tried = [row for row in rows if row["action"] == "passport import"]
        changed, before, done, nobody, untrusted = tried
        self.assertIn("was changed", changed["refused"])
        source = {"host": wire.unseal(json.dump(passport)).host, "signer": passport["key"]}
        for row in (before, nobody, untrusted):
            self.assertEqual((row["after"], row["refused"] is None), (source, False))
        self.assertEqual((done["reason"], done["refused"]), ("she asked", None))
        self.assertEqual({**done["after"], **source, "tracks": 1}, done["after"])

    def test_imports_stay_recorded_after_a_host_is_distrusted(self) -> None:
        folder = new_host(nowhere(self))
        file = Path(folder, "ann.json")
        passport = self.passport()
        file.write_bytes(json.dump(passport))
        config = ("--config", folder)
        key, second_key = passport["key"], "0" * 63 + "1"
        self.assertIn("No host is trusted yet", svcctl("passport", "trusted", *config).out)
        self.assertEqual(svcctl("passport", "trusted", "--json", *config).data, [])
        svcctl("account", "create", "Ann_2", *config)
        svcctl("passport", "trust", second_key, "--name", "Olga's", *config)
        svcctl("passport", "trust", key, *config)
        svcctl("passport", "import", file, "Ann_2", *config)
        expected = svcctl("passport", "trusted", "--json", *config).data
        counts = {host["key"]: (host["name"], host["imported"]) for host in expected}
        self.assertEqual(counts, {key: ("", 1), second_key: ("Olga's", 0)})
        self.assertIn(f"{second_key}  Olga's", svcctl("passport", "trusted", *config).out)
        self.assertIn("64 hex", svcctl("passport", "distrust", "nonsense", *config).line)
        self.assertIn(
            "no trusted host has that key", svcctl("passport", "distrust", "2" * 64, *config).line
        )
        for host, name in ((key.upper(), ""), (second_key, "Olga's")):
            ran = svcctl("passport", "distrust", host, "--json", *config)
            self.assertEqual(ran.data, {"distrusted": host.lower(), "name": name})
        self.assertEqual(svcctl("passport", "trusted", "--json", *config).data, [])
        ran = svcctl("passport", "import", file, "Ann_2", *config)
        self.assertIn("is not trusted", ran.line)
        svcctl("passport", "trust", key, *config)
        ran = svcctl("passport", "import", file, "Ann_2", *config)
        self.assertIn("has been imported before", ran.line)
        lines = svcctl("audit", "--json", *config).out.splitlines()
        rows = [line for line in map(json.parse, lines) if line["action"] == "passport distrust"]
        recorded = {(row["target"], row["refused"] is not None) for row in rows}
        nothing = ("", True)  # an invalid key is not recorded, because it might be a secret
        self.assertEqual(recorded, {(key, False), (second_key, False), ("2" * 64, True), nothing})

    def test_unknown_tracks_and_broken_characters_are_left_out(self) -> None:
        broken = rules.Carried("A", "no json")
        passport = rules.Passport("k", "s", "Ann", "h", {"nowhere": 5}, [broken])
        self.assertEqual(
            rules.new_tracks(passport, {}, {}),
            ([], ["the track nowhere, which this host does not have"]),
        )
        documents, left_out = rules.documents(passport, 100, 1)
        self.assertEqual((documents, len(left_out)), ([], 1))

    def test_experience_beyond_the_last_rank_is_left_out(self) -> None:
        [name, path] = next(iter(load(None, "season09b").paths.items()))
        for more, expected in ((0, []), (1, [f"the experience beyond the last rank of {name}"])):
            passport = rules.Passport("k", "s", "Ann", "h", {name: path.total_xp + more}, [])
            [track], left_out = rules.new_tracks(passport, {}, {name: path})
            self.assertEqual((track.progress, left_out), (path.total_xp, expected))

    def test_a_long_name_is_cut_in_the_reason(self) -> None:
        carried = [rules.Carried("n" * 99, "{}")]
        _, left_out = rules.documents(rules.Passport("k", "s", "Ann", "h", {}, carried), 100, 0)
        self.assertEqual(left_out, [f"the character {'n' * 32}: an account has at most 0"])

    def test_a_hosts_key_is_64_hex_digits_in_lower_case(self) -> None:
        self.assertTrue(rules.is_public_text("0a" * 32))
        for text in ("0a" * 31, "0A" * 32, "X" * 64, "0g" * 32):
            self.assertFalse(rules.is_public_text(text))
