"""Compares the sums of the logs with the data at the end of a run.

The rows of ``item_log`` must account for every stack and instanced item, and the rows of
``progression_events`` for every track and hunt pass. Every row must have an existing owner. The
tables that the players do not use must be empty.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from simulation.clock import START
from simulation.history import History
from simulation.host import SimHost
from simulation.outcomes import ACKED
from simulation.player import SEASON
from svcserver.db.tables import METADATA
from svcserver.metagame.owner.people.data import account_columns, is_of_character

LOG_S = 80 * 86_400.0  # rows of the item log are deleted after 90 days
RETRY = "a retry: "  # the note of a grant that was answered with the stored reply
# never written by players or game servers of the simulation
UNTOUCHED = (
    "announcements",
    "banned_networks",
    "blocks",
    "bounty_drafts",
    "breadcrumbs",
    "cooldowns",
    "dashboard_access",
    "dashboard_sessions",
    "deleted_accounts",
    "encountered_content",
    "escalation_seasons",
    "maintenance",
    "muted_networks",
    "passport_hosts",
    "passport_imports",
    "registration_mode",
    "sanctions",
    "setting_changes",
)
# the reason why no audit reads these tables, which have no owner
UNREAD = {
    "audit_log": "acts of staff, which the simulation does not have",
    "figures": "counts for a chart that no player sees",
    "gameserver_keys": "one, made at the start",
    "gameserver_keys_to_register": "one, made at the start",
    "signing_keys": "for hosts whose tokens the game checks itself",
}


def owned() -> Iterator[tuple[str, str, str]]:
    """Yield each table whose rows belong to accounts or characters.

    Each item consists of three names: the table, the table's column with the owner's id, and the
    table that contains the owners.
    """
    for name, table in METADATA.tables.items():
        yield from ((name, column, "accounts") for column in account_columns(table))
        if is_of_character(table):
            yield name, "character_id", "characters"


@frozen
class LogsAudit:
    """The comparison of the logs, which reads the database directly and reports to ``history``."""

    host: SimHost
    history: History

    def run(self) -> None:
        """Run all comparisons."""
        if self.host.world.now - START < LOG_S:
            self._items()
        self._tracks()
        self._passes()
        self._owners()

    def _wrong(self, rule: str, what: str) -> None:
        self.history.wrong.add(rule, what)

    def _items(self) -> None:
        """Check that the logged changes add up to the held items.

        Also check that each acknowledged transaction is logged exactly once.
        """
        sums: dict[str, Counter[str]] = defaultdict(Counter)
        things: dict[str, dict[str, None]] = defaultdict(dict)
        done: dict[str, Counter[str]] = defaultdict(Counter)
        for character, transaction, text in self.host.disk.each(
            "SELECT character_id, transaction_id, changes FROM item_log ORDER BY id"
        ):
            changes = json.loads(text)
            stacks = changes.get("stacks", {"added": {}, "taken": {}})
            sums[character].update(stacks["added"])
            sums[character].subtract(stacks["taken"])
            for gone in changes.get("removed", ()):
                things[character].pop(gone, None)
            things[character].update(dict.fromkeys(changes.get("made", ())))
            done[character][transaction] += 1
        held: dict[str, Counter[str]] = defaultdict(Counter)
        for character, catalog, quantity in self.host.disk.rows(
            "SELECT character_id, catalog_id, quantity FROM item_stacks"
        ):
            held[character][catalog] = quantity
        stored: dict[str, dict[str, None]] = defaultdict(dict)
        for character, item in self.host.disk.rows(
            "SELECT character_id, instance_id FROM item_instances"
        ):
            stored[character][item] = None
        for character in {**sums, **held, **stored}:
            self._explained(character, sums[character], held[character])
            if things[character].keys() != stored[character].keys():
                differing = sorted(things[character].keys() ^ stored[character].keys())
                self._wrong("logs explain what is held", f"{differing[0]} of {character}")
        for character, known in self.history.stacks.of.items():
            for name, earning in known.items():
                if earning.state == ACKED and done[character][name] != 1:
                    count = done[character][name]
                    self._wrong("logs explain what is held", f"{name} is logged {count} times")

    def _explained(self, character: str, sums: Counter[str], held: Counter[str]) -> None:
        for catalog in sums | held:
            if sums[catalog] != held[catalog]:
                text = f"{character} has {held[catalog]} of {catalog}, logged are {sums[catalog]}"
                self._wrong("logs explain what is held", text)

    def _events(self, route: str) -> Iterator[tuple[str, Any]]:
        """Yield the account and body of each request to this route, oldest first."""
        rows = self.host.disk.each(
            "SELECT account_id, route, body, status, note FROM progression_events ORDER BY id"
        )
        for account, what, body, status, note in rows:
            if what == f"POST /{route}/{account}" and status == 200 and not note.startswith(RETRY):
                yield account, json.loads(body)

    def _tracks(self) -> None:
        """Check that progress is the sum of the recorded grants, with each grant counted once."""
        sums: Counter[str] = Counter()
        for account, body in self._events("progression"):
            for track in body["progress_tracks"]:
                if track["progression_id"] == SEASON:
                    sums[account] += track["progress"]
        rows = self.host.disk.rows(
            "SELECT account_id, progress FROM progression_tracks WHERE progression_id = ?", SEASON
        )
        stored = Counter(dict(rows))
        for account in sums | stored:
            if sums[account] != stored[account]:
                text = f"{account} has {stored[account]}, recorded are {sums[account]}"
                self._wrong("logs explain what is held", text)

    def _passes(self) -> None:
        """Check that each account's stored hunt pass is the last pass that the account chose."""
        last = {account: body["progression_id"] for account, body in self._events("huntpass")}
        rows = self.host.disk.rows("SELECT account_id, progression_id FROM hunt_passes")
        stored = dict(rows)
        for account in {**last, **stored}:
            if last.get(account) != stored.get(account):
                text = f"{account} has {stored.get(account)}, recorded is {last.get(account)}"
                self._wrong("logs explain what is held", text)

    def _owners(self) -> None:
        """Check that each row's account or character exists, and that unused tables are empty."""
        for table, column, owners in owned():
            for (who,) in self.host.disk.rows(
                f"SELECT DISTINCT {column} FROM {table} "  # noqa: S608 - names of ours
                f"WHERE {column} NOT IN (SELECT id FROM {owners})"
            ):
                self._wrong("whole or not at all", f"{table} has rows of {who}, who is nobody")
        for table in UNTOUCHED:
            rows = self.host.disk.rows(f"SELECT count(*) FROM {table}")  # noqa: S608
            if rows[0][0]:
                self._wrong("nothing from nowhere", f"{rows[0][0]} rows of {table}")
