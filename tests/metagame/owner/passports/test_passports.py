"""My hunter, and passports: signed here, taken elsewhere once, refused when a byte has changed."""

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
            ledger.write(lambda tx: SqlProgress(tx).keep_track(self.ann.player.id, track))
        )

    def track(self) -> str:
        return sorted(load(None, self.game.parts.settings.active_hunt_pass).paths)[0]

    def passport(self) -> dict[str, Any]:
        page = self.game.browse("GET", "/launcher/passport", key=self.ann.player.key)
        self.assertEqual(page.status, 200)
        found: dict[str, Any] = page.json
        return found

    @proves("GET /launcher/hunter | account key")
    def test_my_hunter_is_shown_to_the_holder_of_the_key(self) -> None:
        page = self.game.browse("GET", "/launcher/hunter", key=self.ann.player.key)
        said = page.json
        self.assertEqual((said["username"], said["guild"], said["friends"]), ("Ann_1", None, []))
        self.assertEqual(said["characters"][0]["saves"][0]["version"], 1)
        self.assertEqual(said["tracks"][0]["id"], self.track())
        self.assertEqual(self.game.browse("GET", "/launcher/hunter").status, 401)
        self.assertEqual(self.game.browse("GET", "/launcher/hunter", key="UUK_x").status, 401)

    def test_one_player_does_not_have_the_host_read_and_sign_all_the_time(self) -> None:
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

    def test_they_are_read_in_turn_with_the_accounts_other_large_reads(self) -> None:
        parts, me, other = self.game.parts, self.ann.player.id, Deferred[None]()
        of = parts.settings, parts.data, parts.tokens.keys.private, parts.sessions
        acts = PassportActs.of(*of, self.game.clock.seconds)
        reading = Deferred.fromCoroutine(parts.data._turns.run(me, lambda: other))
        asked = [Deferred.fromCoroutine(ask(me)) for ask in (acts.passport, acts.hunter)]
        for one in asked:
            self.assertNoResult(one)
        other.callback(None)
        for one in (reading, *asked):
            self.successResultOf(one)

    def test_of_twenty_hoards_no_more_are_read_than_a_passport_holds(self) -> None:
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
    def test_a_passport_bears_the_hosts_signature(self) -> None:
        found = wire.unseal(json.dump(self.passport()))
        self.assertEqual((found.username, found.subject), ("Ann_1", self.ann.player.id))
        self.assertEqual(found.tracks[self.track()], 50)
        self.assertEqual([one.data for one in found.characters], ['{"level":7}'])
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

    def test_another_host_takes_it_once_when_it_trusts_this_one(self) -> None:
        folder = new_host(nowhere(self))
        file = Path(folder, "ann.json")
        passport = self.passport()
        file.write_bytes(json.dump(passport))
        config = ("--config", folder)
        self.assertEqual(svcctl("account", "create", "Ann_2", *config).status, 0)
        ran = svcctl("passport", "import", file, "Ann_2", *config)
        self.assertIn("is not trusted. Ask that host's owner, not the player", ran.line)
        self.assertNotIn(passport["key"], ran.line)  # a stranger's file must not suggest it
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
        self.assertIn("has been changed", svcctl("passport", "import", file, "Ann_2", *config).line)
        own = svcctl("passport", "key", "--json", *config).data["key"]
        self.assertTrue(rules.is_public_text(own))
        self.assertNotEqual(own, passport["key"])
        rows: list[Any] = list(map(json.parse, svcctl("audit", "--json", *config).out.splitlines()))
        tried = [row for row in rows if row["action"] == "passport import"]
        changed, before, done, nobody, untrusted = tried
        self.assertIn("has been changed", changed["refused"])
        source = {"host": wire.unseal(json.dump(passport)).host, "signer": passport["key"]}
        for row in (before, nobody, untrusted):
            self.assertEqual((row["after"], row["refused"] is None), (source, False))
        self.assertEqual((done["reason"], done["refused"]), ("she asked", None))
        self.assertEqual({**done["after"], **source, "tracks": 1}, done["after"])

    def test_a_host_is_trusted_no_more_and_what_was_taken_in_stays_counted(self) -> None:
        folder = new_host(nowhere(self))
        file = Path(folder, "ann.json")
        passport = self.passport()
        file.write_bytes(json.dump(passport))
        config = ("--config", folder)
        key, other = passport["key"], "0" * 63 + "1"
        self.assertIn("no other host is trusted", svcctl("passport", "trusted", *config).out)
        self.assertEqual(svcctl("passport", "trusted", "--json", *config).data, [])
        svcctl("account", "create", "Ann_2", *config)
        svcctl("passport", "trust", other, "--name", "Olga's", *config)
        svcctl("passport", "trust", key, *config)
        svcctl("passport", "import", file, "Ann_2", *config)
        said = svcctl("passport", "trusted", "--json", *config).data
        counts = {one["key"]: (one["name"], one["imported"]) for one in said}
        self.assertEqual(counts, {key: ("", 1), other: ("Olga's", 0)})
        self.assertIn(f"{other}  Olga's", svcctl("passport", "trusted", *config).out)
        self.assertIn("64 hex", svcctl("passport", "distrust", "nonsense", *config).line)
        self.assertIn("no host of that key", svcctl("passport", "distrust", "2" * 64, *config).line)
        for one, name in ((key.upper(), ""), (other, "Olga's")):
            ran = svcctl("passport", "distrust", one, "--json", *config)
            self.assertEqual(ran.data, {"distrusted": one.lower(), "name": name})
        self.assertEqual(svcctl("passport", "trusted", "--json", *config).data, [])
        ran = svcctl("passport", "import", file, "Ann_2", *config)
        self.assertIn("is not trusted", ran.line)
        svcctl("passport", "trust", key, *config)
        ran = svcctl("passport", "import", file, "Ann_2", *config)
        self.assertIn("has been imported before", ran.line)
        lines = svcctl("audit", "--json", *config).out.splitlines()
        rows = [one for one in map(json.parse, lines) if one["action"] == "passport distrust"]
        told = {(one["target"], one["refused"] is not None) for one in rows}
        nothing = ("", True)  # what is no key might be a secret
        self.assertEqual(told, {(key, False), (other, False), ("2" * 64, True), nothing})

    def test_what_the_other_host_forbids_is_left_out_and_said(self) -> None:
        broken = rules.Carried("A", "no json")
        found = rules.Passport("k", "s", "Ann", "h", {"nowhere": 5}, [broken])
        self.assertEqual(
            rules.new_tracks(found, {}, {}),
            ([], ["the track nowhere, which this host does not have"]),
        )
        documents, left_out = rules.documents(found, 100, 1)
        self.assertEqual((documents, len(left_out)), ([], 1))

    def test_what_goes_beyond_the_last_rank_is_left_out_and_said(self) -> None:
        [name, path] = next(iter(load(None, "season09b").paths.items()))
        for more, said in ((0, []), (1, [f"what goes beyond the last rank of {name}"])):
            passport = rules.Passport("k", "s", "Ann", "h", {name: path.total_xp + more}, [])
            [track], left_out = rules.new_tracks(passport, {}, {name: path})
            self.assertEqual((track.progress, left_out), (path.total_xp, said))

    def test_a_long_name_is_said_by_its_beginning(self) -> None:
        carried = [rules.Carried("n" * 99, "{}")]
        _, left_out = rules.documents(rules.Passport("k", "s", "Ann", "h", {}, carried), 100, 0)
        self.assertEqual(left_out, [f"the character {'n' * 32}: an account has 0 at most"])

    def test_a_hosts_key_is_64_hex_digits_in_lower_case(self) -> None:
        self.assertTrue(rules.is_public_text("0a" * 32))
        for text in ("0a" * 31, "0A" * 32, "X" * 64, "0g" * 32):
            self.assertFalse(rules.is_public_text(text))
