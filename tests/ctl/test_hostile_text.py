"""Hostile text must not control the owner's terminal, whichever command prints it.

The test puts the same hostile text into every text of the database and of every reply, into files,
file names and arguments. It then runs each ``svcctl`` command in a pseudo-terminal.
"""

import contextlib
import io
import json
import os
import pty
import re
import shutil
import sys
import tarfile
import threading
import tty
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import click
from sqlalchemy import Connection, insert, update

from svcserver.ctl import as_owner, edge_commands, up
from svcserver.ctl.backup import proving
from svcserver.ctl.database import know_every_table
from svcserver.ctl.keys import new_signing_keys
from svcserver.ctl.main import main
from svcserver.ctl.output import Out
from svcserver.ctl.status_command import draw
from svcserver.db.tables import METADATA
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.metagame.access.keys import load_private
from svcserver.metagame.accounts.audit import Trace
from svcserver.metagame.belongings.characters.store import CHARACTERS
from svcserver.metagame.owner.passports import rules, wire
from svcserver.metagame.owner.passports.acts import trust
from tests.ctl.command import database_of
from tests.ctl.hosts import change, value
from tests.ctl.test_accounts import HostCase
from tests.metagame.owner.maintenance.test_maintenance import GameServers
from tests.metagame.play.matchmaking.base import Reply
from tests.support.belongings import Owner
from tests.support.game import Game
from tests.support.nasty import FORGED, NASTY, unsafe_in

ACCOUNT = f"UID-{uuid.UUID(int=7)}"
NEVER, NEVER_MS = 4_102_444_800, 4_102_444_800_000  # the year 2100
NASTY_NAME = re.sub("[/\0\n\r]", "", NASTY)[:60] + "\udc80"  # of a file
# commands that start a reactor or a host; they print with the same functions
PROGRAMS = {"demo", "play"}
WORDS = {  # for columns with a fixed set of words, which hold no foreign text
    ("sanctions", "kind"): "ban",
    ("accounts", "staff_role"): None,
    ("audit_log", "before"): json.dumps({NASTY: NASTY}),
    ("audit_log", "after"): json.dumps({"outcome": NASTY}),
    ("maintenance", "then_act"): "",
    ("maintenance", "wait_until"): "nobody",
}
ID_OR_TIME = re.compile(
    r"((UID-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z)\Z"
)
DRAWN = re.compile("\r?\x1b\\[(?:\\?25[lh]|2K|1A|[0-9;]*m)")  # drawn by our own progress bars
DRAWS = ("content manifest", "content verify", "status --watch")
LEFT_OUT = {"env_file", "key", "restart_in", "lasts", "for_", "since", "until", "reason"}
SEES = """account list: account saves: account show: announce: audit: content verify: drain status:
gameserver list: gameserver console: guild list: invite list: passport trusted: passport import:
sanctions: status""".replace("\n", " ").split(": ")


def commands(group: click.Group = main, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        elif path + name not in PROGRAMS:
            yield path + name, command


def plant(tx: Connection) -> None:
    """Insert a row into every table, with the hostile text in every text column."""
    know_every_table()
    for table in METADATA.sorted_tables:
        row = {column.name: _value(table.name, column) for column in table.columns}
        tx.execute(insert(table).prefix_with("OR REPLACE"), row)


def _value(table: str, column: Any) -> Any:
    if (table, column.name) in WORDS:
        return WORDS[table, column.name]
    if table in ("announcements", "maintenance") and column.name == "id":
        return 1  # the id of the only row
    if column.name == "account_id" or (table, column.name) == ("accounts", "id"):
        return ACCOUNT
    if (table, column.name) in (("announcements", "ends_at"), ("audit_log", "at")):
        return NEVER_MS
    longest = getattr(column.type, "length", None) or None
    values = {str: NASTY[:longest], bytes: b"{}", bool: True}
    return values.get(column.type.python_type, NEVER)


def spoilt(value: Any) -> Any:
    """Return a reply in which every text, except ids and times, is the hostile text."""
    if isinstance(value, dict):
        return {key: spoilt(child) for key, child in value.items()}
    if isinstance(value, list):
        return [spoilt(child) for child in value]
    return NASTY if isinstance(value, str) and not ID_OR_TIME.match(value) else value


@contextmanager
def terminal() -> Iterator[list[bytes]]:
    """Redirect the command's output to a pseudo-terminal; yield the list that collects it."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    read: list[bytes] = []

    def follow() -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(master, 65_536):
                read.append(data)

    reader = threading.Thread(target=follow)
    reader.start()
    out = os.fdopen(slave, "w", encoding="utf-8", errors="surrogateescape", buffering=1)
    try:
        with (
            open(os.devnull) as nothing,
            mock.patch.multiple(sys, stdout=out, stderr=out, stdin=nothing),
        ):
            yield read
    finally:
        out.close()
        reader.join(10)
        os.close(master)


class HostileTextTests(HostCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(mock.patch.object(sys, "excepthook", sys.excepthook))
        deploy = GameServers()
        deploy.answer = Reply(200, {"id": NASTY, "lines": [NASTY, FORGED]})
        signing = {
            name: value(self.folder, "metagame", name)
            for name in (SIGNING_KEY, "AUTH_SIGNING_PUBKEY_B64")
        }
        self.game = Game(self, http=deploy, BACKEND_HEALTH="1", GUILDS="on", **signing)
        self.olga = self.game.player("Olga", admin=True)
        self.ann = Owner.of(self.game, "Ann_1")
        (self.folder / "owner.key").write_text(self.olga.key + "\n")
        self.game.ledger.run(plant)
        self.game.ledger.run(lambda tx: tx.execute(update(CHARACTERS).values(name=NASTY[:64])))
        with database_of(self.folder) as tx:
            plant(tx)
        self.patch(as_owner, "epoch", self.game.clock.seconds)
        self.patch(proving, "prove", lambda *_, **__: None)
        self.paths = self.plant_files()

    def plant_files(self) -> list[Path]:
        """Create files with hostile contents and names: a passport, the game, an archive."""
        folder = self.folder / NASTY_NAME
        folder.mkdir()
        (folder / NASTY_NAME).write_text(NASTY)
        listed = {"path": f"Game/{NASTY}", "size": 1, "sha256": "0" * 64}
        manifest = {"format": 1, "build": NASTY, "files": [listed]}
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        key = rules.signing_key(load_private(new_signing_keys().private))
        body = {
            **dict.fromkeys(("subject", "username", "host"), "Elsewhere"),
            "tracks": {NASTY: 5},
            "characters": [{"name": NASTY, "data": "{}"}],
        }
        passport = self.folder / f"{NASTY_NAME}.passport"
        passport.write_text(json.dumps(wire.seal(body, key)))
        with database_of(self.folder) as tx:
            trust(rules.public_text(key.public_key()), NASTY, lambda: NEVER / 2)(tx, Trace())
        (self.folder / "backups").mkdir(exist_ok=True)
        (self.folder / "backups" / f"svc-{NASTY_NAME}.tar.gz").write_text(NASTY)
        (self.folder / "alert-phone.env").write_text(f"FORM={NASTY}\nURL={NASTY}\n")
        (self.folder / "stack.log").write_text(NASTY.replace("\n", "") + "\n")
        change(self.folder, "allowlist", "ALLOWLIST_DRY_RUN", "1")
        return [folder, passport, self.folder / f"new-{NASTY_NAME}"]

    def exchange(self, base: str, method: str, path: str, headers: Any, *more: Any) -> Any:
        body: dict[str, Any] = {"data": more[2]} if len(more) > 2 else {}
        page = self.game.browse(method, path, headers=headers, **body)
        reply = spoilt(page.json) if page.body else {}
        return page.status, json.dumps(reply).encode()

    def words(self, command: click.Command, text: str, path: Path, *, bare: bool) -> list[str]:
        """Return the command's required arguments and, unless ``bare``, all text options."""
        options, arguments = list[str](), list[str]()
        for parameter in command.params:
            is_text = isinstance(parameter.type, click.types.StringParamType)
            word = "1"
            if isinstance(parameter.type, click.Choice):
                word = str(parameter.type.choices[0])
            elif isinstance(parameter.type, click.Path):
                word = str(path)
            elif is_text:
                word = text
            if parameter.name == "config":
                options.append(f"--config={self.folder}")
            elif isinstance(parameter, click.Argument) and isinstance(parameter.type, click.Path):
                arguments.append(word)
            elif parameter.name in LEFT_OUT or not (parameter.required or (is_text and not bare)):
                continue
            elif isinstance(parameter, click.Argument):
                arguments.append(word)
            else:
                options.append(f"{parameter.opts[0]}={word}")
        return [*options, "--", *arguments]

    def run_in_terminal(self, name: str, words: list[str]) -> str:
        with terminal() as read:
            try:
                main(args=[*name.split(), *words])
            except SystemExit:
                pass
            except Exception:
                sys.excepthook(*sys.exc_info())
        return b"".join(read).decode("utf-8", "surrogateescape")

    def replace_programs(self) -> None:
        """Replace the functions that start a reactor, start a host or connect.

        Their replacements return the hostile text.
        """

        def run(host: Any, ready: Any) -> str:
            ready(NASTY)
            return NASTY

        self.patch(edge_commands, "close_ports", lambda settings: NASTY)
        self.patch(edge_commands, "verdict", lambda target, timeout_s: (False, NASTY))
        self.patch(up, "run", run)
        self.patch(up, "check", lambda host, out: None)
        self.patch(up, "supply", lambda host, out: None)

    # slow: 40 s: every command several times
    def test_no_command_prints_terminal_control_characters(self) -> None:
        self.patch(as_owner, "_exchange", self.exchange)
        self.replace_programs()
        whole, names = self.folder.with_name("whole"), set()
        shutil.copytree(self.folder, whole)
        for name, command in commands():
            wants_path = any(isinstance(parameter.type, click.Path) for parameter in command.params)
            for path in self.paths if wants_path else self.paths[:1]:
                bare = self.words(command, "Ann_1", path, bare=True)
                full = self.words(command, NASTY.replace("\0", ""), path, bare=False)
                for words in (bare, ["--json", *bare], full):
                    shutil.rmtree(self.folder)
                    shutil.copytree(whole, self.folder)
                    output = self.run_in_terminal(name, words)
                    self.check(f"{name} {words}", output)
                    if "owned" in output:
                        names.add(name)
        self.assertEqual(sorted(set(SEES) - names), [])

    def check(self, command: str, output: str) -> None:
        for line in (DRAWN.sub("", output) if command.startswith(DRAWS) else output).split("\n"):
            self.assertEqual(unsafe_in(line), "", f"{command}: {line[:300]!a}")
            self.assertFalse(line.startswith(FORGED), f"{command}: {line[:300]!a}")
            if line.startswith('{"'):
                self.assertTrue(line.isascii(), command)
                json.loads(line)

    def test_no_program_prints_terminal_control_characters(self) -> None:
        self.replace_programs()
        target = ("HOST=127.0.0.1", "GATEWAY_PORT=9", f"FINGERPRINT={'0' * 64}")
        (self.folder / "relay.env").write_text("".join(f"SVC_RELAY_{line}\n" for line in target))
        config = f"--config={self.folder}"
        for name, *words in (
            ("up", str(self.folder)),
            ("up", "--json", str(self.folder)),
            ("relay check", config),
            ("relay check", "--json", config),
            ("allowlist close-ports", config),
            ("allowlist close-ports", "--json", config),
        ):
            output = self.run_in_terminal(name, words)
            self.check(name, output)
            self.assertIn("owned", output, name)

    def test_exports_and_bundles_contain_no_unsafe_text(self) -> None:
        self.patch(as_owner, "_exchange", self.exchange)
        made = self.folder.parent / "made"
        for words in (["bundle", made / "bundle"], ["account", "export", ACCOUNT, made / "export"]):
            made.mkdir(exist_ok=True)
            ran = self.ctl(*words)
            self.assertEqual(ran.status, 0, ran.err)
        self.check("export", (made / "export").read_text())
        with tarfile.open(made / "bundle") as bundle:
            for part in bundle:
                file = bundle.extractfile(part)
                assert file is not None
                self.check(part.name, file.read().decode())

    def test_the_live_table_draws_no_foreign_escape(self) -> None:
        entry = {"name": NASTY, "where": NASTY, "kind": NASTY, "title": NASTY, "map": NASTY}
        state = {
            **dict.fromkeys(("name", "version", "registration"), NASTY),
            **{"playersOnline": 1, "uptimeSeconds": 1, "players": [entry], "instances": [entry]},
        }
        with contextlib.redirect_stdout(io.StringIO()) as out:
            draw(Out(), state, {"x": {NASTY: NASTY}})
        self.check("status --watch", out.getvalue())

    def test_a_reason_of_two_lines_is_refused_with_one_line(self) -> None:
        ran = self.ctl("ban", "Olga", "--reason", f"x\n{FORGED}")
        self.assertEqual((ran.status, ran.out), (1, ""))
        self.assertTrue(ran.line.startswith("svcctl: --reason has line breaks"))
