"""``svcctl account``, ``gameserver-key`` and ``invite``. Spec: design §2."""

import os
import re
import shutil
from functools import lru_cache
from pathlib import Path
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import accounts
from svcserver.edge.invite import decode
from svcserver.metagame.accounts.sanctions import FOREVER, Sanction, SanctionKind, SqlSanctions
from svcserver.metagame.accounts.store import SqlAccounts, knows_game_server
from svcserver.metagame.owner.people.store import SqlPeople
from tests.ctl.command import Ran, database_of, new_host, nowhere, svcctl
from tests.support import shared
from tests.support.proves import proves


@lru_cache(maxsize=1)
def pattern() -> Path:
    # not a key that a later test gets as a new one (conftest.py)
    with mock.patch.object(rsa, "generate_private_key", generate_private_key):
        return new_host(shared.folder() / f"pattern-{os.getpid()}")


class HostCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = nowhere(self)
        shutil.copytree(pattern(), self.folder)
        for path in self.folder.glob("*.env"):
            path.write_text(path.read_text().replace(str(pattern()), str(self.folder)))

    def ctl(self, *words: object) -> Ran:
        return svcctl(*words, "--config", self.folder)

    def accounts(self) -> dict[str, bool]:
        with database_of(self.folder) as tx:
            return {account.username: account.is_admin for account in SqlAccounts(tx).everyone()}


class AccountTests(HostCase):
    @proves("svcctl account create")
    def test_create_prints_the_only_key(self) -> None:
        ran = self.ctl("account", "create", "Alpha")
        self.assertEqual(ran.status, 0)
        [key] = re.findall(r"UUK_[0-9a-f]{48}", ran.out)
        with database_of(self.folder) as tx:
            account = SqlAccounts(tx).by_key(key)
        assert account is not None
        self.assertEqual((account.username, account.is_admin), ("Alpha", False))
        self.assertNotIn(key.encode(), (self.folder / "svc.db").read_bytes())

    @proves("svcctl account create")
    def test_create_with_owner_and_json_makes_an_admin(self) -> None:
        ran = self.ctl("account", "create", "Boss", "--owner", "--json")
        self.assertEqual(sorted(ran.data), ["admin", "id", "key", "username"])
        self.assertEqual(self.accounts(), {"Olga": True, "Boss": True})

    @proves("svcctl account create")
    def test_a_taken_or_bad_name_is_one_line(self) -> None:
        for name in ("OLGA", "ab", "with blank", "x" * 17):
            ran = self.ctl("account", "create", name)
            self.assertEqual((ran.status, ran.out), (1, ""))
            self.assertTrue(ran.line.startswith(f"svcctl: {name}: "))
        self.assertEqual(self.accounts(), {"Olga": True})

    @proves("svcctl account promote, demote, list")
    def test_promote_and_demote_by_name_in_any_case(self) -> None:
        self.ctl("account", "create", "Alpha")
        self.assertEqual(self.ctl("account", "promote", "alpha").status, 0)
        self.assertEqual(self.accounts(), {"Olga": True, "Alpha": True})
        self.assertEqual(self.ctl("account", "demote", "OLGA").status, 0)
        self.assertEqual(self.accounts(), {"Olga": False, "Alpha": True})

    @proves("svcctl account promote, demote, list")
    def test_promoting_an_unknown_name_fails_with_one_line(self) -> None:
        ran = self.ctl("account", "promote", "Nobody")
        self.assertEqual(ran.status, 1)
        self.assertIn("no account is called Nobody", ran.line)

    def test_a_new_key_is_the_only_valid_key(self) -> None:
        old_key = (self.folder / "owner.key").read_text().strip()
        ran = self.ctl("account", "new-key", "OLGA")
        self.assertEqual(ran.status, 0)
        [key] = re.findall(r"UUK_[0-9a-f]{48}", ran.out)
        with database_of(self.folder) as tx:
            accounts = SqlAccounts(tx)
            account = accounts.by_key(key)
            self.assertIsNone(accounts.by_key(old_key))
        assert account is not None
        self.assertEqual((account.username, account.is_admin), ("Olga", True))
        data = self.ctl("account", "new-key", account.id, "--json").data
        self.assertEqual(sorted(data), ["id", "key", "username"])
        self.assertNotEqual(data["key"], key)

    def test_a_new_key_for_an_unknown_name_is_refused(self) -> None:
        ran = self.ctl("account", "new-key", "Nobody")
        self.assertEqual((ran.status, ran.out), (1, ""))
        self.assertIn("no account is called Nobody", ran.line)

    @proves("svcctl account promote, demote, list")
    def test_list_names_everyone_and_no_key(self) -> None:
        self.ctl("account", "create", "Alpha")
        ran = self.ctl("account", "list")
        self.assertIn("Alpha", ran.out)
        self.assertRegex(ran.out, r"Olga +UID-\S+ +owner +never")
        listed = self.ctl("account", "list", "--json").data["accounts"]
        self.assertEqual([account["username"] for account in listed], ["Alpha", "Olga"])
        self.assertEqual(
            listed[0],
            {
                "id": listed[0]["id"],
                "username": "Alpha",
                "admin": False,
                "role": "player",
                "lastSeen": None,
                "banned": False,
                "muted": False,
            },
        )
        self.assertNotIn("UUK_", ran.out)

    @proves("svcctl account promote, demote, list")
    def test_list_shows_role_ban_mute_and_last_seen(self) -> None:
        self.patch(accounts, "PIECE", 2)  # so that five are read in three pieces
        for name in ("Alpha", "Beta", "Gamma", "Delta"):
            self.ctl("account", "create", name)
        output = self.ctl("account", "promote", "Alpha", "--role", "moderator").out
        self.assertEqual(output, "Alpha is now a moderator\n")
        self.assertEqual(self.ctl("account", "promote", "Delta").out, "Delta is now an owner\n")
        with database_of(self.folder) as tx:
            beta, gamma = (SqlAccounts(tx).named(name) for name in ("Beta", "Gamma"))
            assert beta is not None
            assert gamma is not None
            SqlPeople(tx).keep_seen({gamma.id: 1_700_000_000})
            for account, kind, ends_at in (
                (beta, SanctionKind.BAN, FOREVER),
                (beta, SanctionKind.MUTE, FOREVER),
                (gamma, SanctionKind.MUTE, 1_700_000_001),
            ):
                sanction = Sanction("", "", "Olga", 1_700_000_000, ends_at)
                SqlSanctions(tx).put(account.id, kind, sanction)
        listed = self.ctl("account", "list", "--json").data["accounts"]
        self.assertEqual(
            [
                (account["username"], account["role"], account["banned"], account["muted"])
                for account in listed
            ],
            [
                ("Alpha", "moderator", False, False),
                ("Beta", "player", True, True),
                ("Delta", "owner", False, False),
                ("Gamma", "player", False, False),
                ("Olga", "owner", False, False),
            ],
        )
        self.assertEqual(listed[3]["lastSeen"], "2023-11-14T22:13:20.000Z")
        out = self.ctl("account", "list").out
        self.assertRegex(out, r"Beta +UID-\S+ +player +never +banned, muted\n")
        self.assertRegex(out, r"Gamma +UID-\S+ +player +2023-11-14 22:13:20\n")


class GameServerKeyTests(HostCase):
    def known(self, key: str) -> bool:
        with database_of(self.folder) as tx:
            return knows_game_server(tx, key)

    @proves("svcctl gameserver-key add")
    def test_gameserver_key_add_makes_a_key_if_none_is_given(self) -> None:
        made = self.ctl("gameserver-key", "add", "--json").data["key"]
        self.assertRegex(made, r"^[0-9a-f]{64}$")
        self.assertTrue(self.known(made))

    @proves("svcctl gameserver-key add")
    def test_a_given_game_server_key_can_be_added_twice(self) -> None:
        for _ in range(2):
            ran = self.ctl("gameserver-key", "add", "my-own-game-server-key")
            self.assertEqual((ran.status, ran.out), (0, "registered\n"))
        self.assertTrue(self.known("my-own-game-server-key"))

    def test_a_revoked_key_is_no_longer_known(self) -> None:
        key = self.ctl("gameserver-key", "add", "--json").data["key"]
        second = self.ctl("gameserver-key", "add", "--json").data["key"]
        ran = self.ctl("gameserver-key", "revoke", key)
        self.assertEqual((ran.status, ran.out), (0, "revoked\n"))
        self.assertEqual((self.known(key), self.known(second)), (False, True))
        again = self.ctl("gameserver-key", "revoke", key)
        self.assertEqual((again.status, again.line), (1, "svcctl: the key is not registered"))

    @proves("svcctl gameserver-key add")
    def test_a_weak_key_is_refused(self) -> None:
        ran = self.ctl("gameserver-key", "add", "short")
        self.assertEqual(ran.status, 1)
        self.assertIn("16 to 256", ran.line)
        self.assertFalse(self.known("short"))


class InviteTests(HostCase):
    @proves("svcctl invite")
    def test_the_relay_can_decode_the_join_string(self) -> None:
        made = self.ctl("invite", "create", "--uses", 3, "--json").data
        invite = decode(made["join"])
        self.assertEqual((invite.host, invite.port), ("203.0.113.10", 443))
        self.assertEqual((invite.code, invite.name), (made["code"], "Game Server"))
        shown = self.ctl("cert", "fingerprint").out.strip()
        self.assertEqual(invite.fingerprint, shown)
        self.assertEqual(parse_qs(urlsplit(made["join"]).query)["fp"], [shown])
        listed = self.ctl("invite", "list", "--json").data["invites"]
        self.assertEqual(listed, [{"code": made["code"], "uses": 3}])

    @proves("svcctl invite")
    def test_a_qr_code_is_drawn_on_a_terminal_or_on_request(self) -> None:
        for options, terminal, drawn in (
            (["--qr"], False, True),
            (["--no-qr"], True, False),
            ([], True, True),
            ([], False, False),  # a script reads it
        ):
            self.patch(accounts, "on_terminal", lambda terminal=terminal: terminal)
            ran = self.ctl("invite", "create", *options)
            self.assertEqual("█" in ran.out, drawn, (options, terminal))
            self.assertIn("svc://join", ran.out)
            self.assertIn("Start it, and paste the line below", ran.out)

    def test_an_invite_of_a_loopback_host_has_no_join_string(self) -> None:
        (self.folder / "gateway.env").unlink()
        ran = self.ctl("invite", "create")
        self.assertEqual(ran.status, 0)
        self.assertNotIn("svc://", ran.out)

    @proves("svcctl invite")
    def test_a_revoked_invite_is_gone_and_cannot_be_revoked_again(self) -> None:
        code = self.ctl("invite", "create", "--json").data["code"]
        self.assertEqual(self.ctl("invite", "revoke", code.lower()).status, 0)
        self.assertEqual(self.ctl("invite", "list", "--json").data["invites"], [])
        self.assertEqual(self.ctl("invite", "revoke", code).status, 1)

    def test_uses_are_from_1_to_1000(self) -> None:
        for uses in (0, 1001, "many"):
            self.assertNotEqual(self.ctl("invite", "create", "--uses", uses).status, 0)


class PlaceTests(HostCase):
    @proves("every command takes --config, --env-file, --json")
    def test_env_file_and_config_exclude_each_other(self) -> None:
        ran = self.ctl("account", "list", "--env-file", self.folder / "metagame.env")
        self.assertEqual((ran.status, ran.line[:8]), (1, "svcctl: "))

    def test_an_env_file_alone_is_enough_to_list_accounts(self) -> None:
        ran = svcctl("account", "list", "--json", "--env-file", self.folder / "metagame.env")
        self.assertEqual([account["username"] for account in ran.data["accounts"]], ["Olga"])

    def test_a_missing_database_is_not_made_by_accident(self) -> None:
        (self.folder / "svc.db").unlink()
        ran = self.ctl("account", "list")
        self.assertEqual(ran.status, 1)
        self.assertIn("svcctl db upgrade", ran.line)
        self.assertFalse((self.folder / "svc.db").exists())

    def test_a_folder_without_a_host_fails_and_names_svcctl_init(self) -> None:
        ran = svcctl("account", "list", "--config", self.folder / "nowhere")
        self.assertEqual(ran.status, 1)
        self.assertIn("svcctl init", ran.line)

    def test_a_bad_database_url_names_the_variable(self) -> None:
        (self.folder / "metagame.env").write_text("DATABASE_URL=mysql://x\n")
        ran = self.ctl("account", "list")
        self.assertEqual(ran.status, 1)
        self.assertIn("DATABASE_URL", ran.line)
