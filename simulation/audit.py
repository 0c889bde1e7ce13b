"""Compares the data at the end of a run with the replies that the players received."""

import json
from collections import defaultdict
from typing import Any

from attrs import frozen

from simulation import livestate
from simulation.audit_logs import LogsAudit
from simulation.belongings import held
from simulation.history import History
from simulation.holdings import LinkRow
from simulation.host import SAVES_KEPT, SimHost
from simulation.memberships import Roll
from simulation.player import SEASON, SimPlayer


def room_differences(host: SimHost) -> str:
    """Describe how the chat rooms differ between a host's metagames; "" if they are equal."""
    occupants = {
        name: {
            (key, occupant.nick)
            for key in chat.server.rooms.keys()  # noqa: SIM118 - no dict
            for occupant in chat.server.rooms.occupants(key)
        }
        for name, chat in host.chats.items()
    }
    everybody = set().union(*occupants.values())
    lacking = {name: sorted(everybody - there) for name, there in occupants.items()}
    differences = [f"{name} does not see {there[0]}" for name, there in lacking.items() if there]
    return ", ".join(differences)


@frozen
class Audit:
    """The final comparison, which reads the database directly, bypassing all code under test."""

    host: SimHost
    history: History
    players: list[SimPlayer]
    uses: dict[str, int]  # of each invite code at the start

    def run(self) -> None:
        """Run all comparisons and add the violations to ``history``."""
        self._saves()
        self._inventories()
        self._chosen()
        self._links()
        self._grants()
        self._accounts()
        self._friends()
        self._guilds()
        self._game_servers()
        self._live()
        LogsAudit(self.host, self.history).run()
        integrity = self.host.disk.rows("PRAGMA integrity_check")[0][0]
        if integrity != "ok":
            self._wrong("the database is whole", str(integrity))

    def _wrong(self, rule: str, what: str) -> None:
        self.history.wrong.add(rule, what)

    def _saves(self) -> None:
        rows = self.host.disk.rows(
            "SELECT c.id, c.update_version, s.data, s.version FROM characters c "
            "JOIN character_saves s ON s.id = c.save_id"
        )
        stored = {}
        for character, version, data, saved in rows:
            stored[character] = version
            if version != saved:
                self._wrong("versions agree", f"{character} has {version}, its save {saved}")
            if version:
                least = self.history.saves.acked.get(character, 0)
                self.history.saves.compare_save(character, version, json.loads(data), least)
        for character in self.history.saves.acked:
            if character not in stored:
                self._wrong("acknowledged means present", f"the character {character} is gone")
        histories: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for character, version, at_ms in self.host.disk.rows(
            "SELECT character_id, version, saved_at FROM character_saves ORDER BY id DESC"
        ):
            histories[character].append((version, at_ms))
        for character, saves in histories.items():
            self.history.saves.check_saves(character, saves, SAVES_KEPT)

    def _inventories(self) -> None:
        stacks: dict[str, dict[str, int]] = defaultdict(dict)
        things: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for character, catalog, quantity in self.host.disk.rows(
            "SELECT character_id, catalog_id, quantity FROM item_stacks"
        ):
            stacks[character][catalog] = quantity
        for character, body in self.host.disk.rows("SELECT character_id, body FROM item_instances"):
            things[character].append(json.loads(body))
        sizes = dict(self.host.disk.rows("SELECT character_id, items FROM inventory_sizes"))
        for character in {**self.history.stacks.of, **stacks, **things}:
            held(self.history, character, stacks[character], things[character])
            count, counted = (
                len(stacks[character]) + len(things[character]),
                sizes.get(character, 0),
            )
            if counted != count:
                self._wrong("counts agree", f"{character} has {count} items, {counted} counted")
        rights = self.host.disk.rows("SELECT account_id, name FROM entitlements WHERE revoked = 0")
        self.history.purchases.entitled(set(rights))

    def _chosen(self) -> None:
        """Check bounties, hunt passes and loadouts."""
        boards: dict[str, tuple[int, str]] = {}
        for account, bounty, version, data in self.host.disk.rows(
            "SELECT account_id, bounty_id, version, data FROM bounties"
        ):
            sent = json.dumps(json.loads(data), sort_keys=True)
            boards[f"{account}/{bounty}"] = version, sent
        for what, least in self.history.boards.acked.items():
            version, data = boards.get(what, (0, ""))
            self.history.boards.compare_save(what, version, data, least)
        passes = self.host.disk.rows("SELECT account_id, progression_id FROM hunt_passes")
        stored = {f"/huntpass/{account}": chosen for account, chosen in passes}
        for what in self.history.chosen.of:
            if what.startswith("/huntpass/"):
                self.history.chosen.check_value(what, stored.get(what), self.host.world.now)
        for character, slots, version, saved in self.host.disk.rows(
            "SELECT l.character_id, l.character_slots, l.version, s.version FROM loadouts l "
            "LEFT JOIN loadout_saves s ON s.id = l.save_id"
        ):
            self.history.slots.check_slots(character, slots)
            if (saved or 0) != version:
                self._wrong("versions agree", f"loadout of {character}: {version} and {saved}")

    def _links(self) -> None:
        rows = self.host.disk.rows("SELECT account_id, other_id, slot, link_id FROM slayer_links")
        self.history.links.settled([LinkRow(*row) for row in rows], self.host.world.now)

    def _grants(self) -> None:
        rows = self.host.disk.rows(
            "SELECT account_id, progress FROM progression_tracks WHERE progression_id = ?", SEASON
        )
        stored = dict(rows)
        for account in sorted({*self.history.grants.most, *stored}):
            self.history.grants.check_progress(account, stored.get(account, 0))

    def _accounts(self) -> None:
        stored = dict(self.host.disk.rows("SELECT username, id FROM accounts"))
        for name, account in self.history.registered.items():
            if stored.get(name) != account:
                self._wrong("acknowledged means present", f"the account {name} is gone")
        for name in stored.keys() - self.history.registered.keys() - self.history.unsure_names:
            self._wrong("nothing from nowhere", f"nobody registered {name}")
        left = dict(self.host.disk.rows("SELECT code, uses_remaining FROM invite_codes"))
        used = sum(self.uses.values()) - sum(left.values())
        if used != len(stored):
            self._wrong("an invite's use each", f"{used} uses for {len(stored)} accounts")
        keys = self.host.disk.rows("SELECT count(DISTINCT account_id) FROM account_keys")[0][0]
        if keys != len(stored):
            self._wrong("whole or not at all", f"{len(stored)} accounts and {keys} with a key")

    def _friends(self) -> None:
        requested = self.history.befriending
        rows = self.host.disk.rows(
            "SELECT account_low, account_high, status, asked_by FROM friendships"
        )
        stored = {(low, high): status for low, high, status, _ in rows}
        for low, high, status, first in rows:
            both = (low, high) in requested and (high, low) in requested
            if (first, high if first == low else low) not in requested:
                self._wrong("nothing from nowhere", f"{first} never asked: {low} and {high}")
            elif status == "ACCEPTED" and not both:
                self._wrong("nothing from nowhere", f"nobody accepted: {low} and {high}")
        for pair, known in self.history.friends.items():
            status = stored.get(pair)
            if known == "friends" and status != "ACCEPTED":
                self._wrong("acknowledged means present", f"the friendship {pair} is {status}")
            if known == "none" and status == "ACCEPTED":
                self._wrong("what was ended is ended", f"the friendship {pair} is {status}")

    def _guilds(self) -> None:
        disk = self.host.disk
        ranks: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for account, guild, rank in disk.rows(
            "SELECT account_id, guild_id, rank FROM guild_members ORDER BY account_id"
        ):
            ranks[guild].append((account, rank.lower()))
        guilds = disk.rows("SELECT id, name, leader_id FROM guilds ORDER BY id")
        rolls = [Roll(name, leader, tuple(ranks.pop(guild, ()))) for guild, name, leader in guilds]
        self.history.guilds.settled(rolls, self.host.world.now)
        known = {guild for guild, _, _ in guilds}
        for guild in ranks:
            self._wrong("whole or not at all", f"members of {guild}, which is no guild")
        for (guild,) in disk.rows("SELECT DISTINCT guild_id FROM guild_invites"):
            if guild not in known:
                self._wrong("whole or not at all", f"invites to {guild}, which is no guild")

    def _game_servers(self) -> None:
        servers, fleet = self.host.servers, self.host.supervisor.fleet
        for server in servers.running():
            if not server.stays:
                self._wrong("every game server ends", f"one is on port {server.line.port} still")
        for what in servers.twice:
            self._wrong("a port for each", f"two game servers on {what}")
        bound = sorted(entry.line.port for entry in servers.running())
        known = sorted(entry.port for entry in fleet.servers.values())
        if bound != known:
            self._wrong("counts agree", f"game servers on {bound}, and the fleet lists {known}")
        if fleet._held:
            self._wrong("ports are given back", f"{sorted(fleet._held)} are held for no launch")
        if self.host.swarm is not None:
            for what in self.host.swarm.leftovers():
                self._wrong("counts agree", what)
        rule = self.host.firewall.rule
        if rule is not None and rule.ips:
            self._wrong("ports are shut again", f"open for {', '.join(rule.ips)}")

    def _live(self) -> None:
        """Check that no player is left in the chat, at the gateway or in the live state."""
        for name, chat in self.host.chats.items():
            if len(chat.server) or list(chat.server.rooms.keys()):
                count = len(chat.server)
                self._wrong("live state agrees", f"{name} has {count} chat sessions of nobody")
        for end in self.host.network.ends.values():
            if end.process.name == "gateway" and end.far_end.process.name.startswith("pc-"):
                who = end.far_end.process.name
                self._wrong("live state agrees", f"a connection of {who} is left")
                break
        for rule, what in livestate.wrong(livestate.entries(self.host), self.host.world.now):
            self._wrong(rule, what)
