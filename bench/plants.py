"""The bugs that ``bench.planted`` plants, each a text replacement in one module."""

from attrs import frozen


@frozen
class Plant:
    """A planted bug: ``old`` is replaced by ``new`` in ``module``."""

    name: str
    kind: str
    module: str
    old: str
    new: str
    swarm: bool = False  # game servers run on a simulated Docker Swarm


def on_swarm(name: str, kind: str, old: str, new: str, module: str = "swarm") -> Plant:
    """Return a bug in the code that starts game servers as services of a Docker Swarm."""
    return Plant(name, kind, f"svcserver.deploy.{module}", old, new, swarm=True)


M = "svcserver.metagame."
PLANTS = (
    Plant(
        "an older save replaces a newer one",
        "missing comparison",
        M + "belongings.characters.rules",
        "    if version <= before.update_version < MAX_VERSION:",
        "    if version == before.update_version:",
    ),
    Plant(
        "a failed commit is answered as if it had worked",
        "answer without the commit",
        "svcserver.db.sqlite",
        "        return [(done, failure) for done, _ in batch]",
        "        return [(done, b'{}') for done, _ in batch]",
    ),
    Plant(
        "an answer is never written",
        "lost answer",
        "svcserver.web.channel",
        "        send(self.transport, head + data, PROMPT)",
        "        len(data) % 29 == 7 or send(self.transport, head + data, PROMPT)",
    ),
    Plant(
        "the gateway loses an answer",
        "lost answer",
        "svcserver.edge.exchange",
        "            send(self.client.transport, head + rest)\n            self._complete",
        "            len(rest) % 29 == 7 or send(self.client.transport, head + rest)\n"
        "            self._complete",
    ),
    Plant(
        "nobody is let in",
        "refusal of everybody",
        M + "accounts.login",
        "        if login is None:\n",
        "        if login is not None:\n",
    ),
    Plant(
        "the batch is rolled back and answered",
        "answer before the commit",
        "svcserver.db.sqlite",
        '        self._raw.execute("COMMIT")',
        '        self._raw.execute("ROLLBACK" if self._raw.total_changes % 41 == 40 else "COMMIT")',
    ),
    Plant(
        "a job that failed leaves what it had written",
        "lost rollback",
        "svcserver.db.sqlite",
        '            self._raw.execute("ROLLBACK TO job")',
        "            pass",
    ),
    Plant(
        "a repeated transaction counts again",
        "lost idempotence",
        M + "belongings.inventory.store",
        "        if holder.answer is not None:",
        "        if False:",
    ),
    Plant(
        "an invite code is used for nothing",
        "reused invite",
        M + "accounts.rules",
        "    if spelled is not None and not accounts.spend(spelled):",
        "    if spelled is not None and not spelled:",
    ),
    Plant(
        "a port leaks when a launch fails",
        "leak",
        "svcserver.deploy.fleet",
        '        """Free the port of a failed launch."""\n        self._held.discard(port)',
        '        """Free the port of a failed launch."""',
    ),
    Plant(
        "a game server that ended is kept in the list",
        "lost removal",
        "svcserver.deploy.fleet",
        "        self.servers.pop(server_id, None)",
        "        self.servers.get(server_id)",
    ),
    Plant(
        "two game servers get one port",
        "missing check of a claim",
        "svcserver.deploy.fleet",
        "if port not in unusable and not is_bound(port):",
        "if port not in self._held:",
    ),
    Plant(
        "a launch never gives the turn back",
        "lost release",
        "svcserver.deploy.supervisor",
        "            self._queue.release()",
        "            pass",
    ),
    Plant(
        "ended sessions stay valid",
        "stale cache",
        M + "access.tokens",
        "        if not claims.issued_at >= self.epochs.not_before(claims.account_id):",
        "        if False:",
    ),
    Plant(
        "a leader who leaves goes on leading",
        "two leaders",
        M + "social.parties.rules",
        "        self.stored.keep(evolve(party, leader=member))",
        "        self.stored.keep(evolve(party, leader=member, members=(leader,)))",
    ),
    Plant(
        "one too many in a party",
        "off by one",
        M + "social.parties.rules",
        'MAX_MEMBERS:\n            raise Conflict("the party is full")\n        self._drop',
        'MAX_MEMBERS + 1:\n            raise Conflict("the party is full")\n        self._drop',
    ),
    Plant(
        "who joins another party stays in the old one",
        "lost removal",
        M + "social.parties.rules",
        "        self._drop(invite)\n        self.leave(invite.recipient)",
        "        self._drop(invite)",
    ),
    Plant(
        "an address stays allowed for ever",
        "lost expiry",
        "svcserver.allowlist.entries",
        "if until <= now]",
        "if until <= now - 1e9]",
    ),
    Plant(
        "some lines of the chat are delivered twice",
        "double delivery",
        "svcserver.chat.rooms",
        "                session.deliver(frames",
        "                len(body) % 7 or session.deliver(frame_for(address))\n"
        "                session.deliver(frames",
    ),
    Plant(
        "some do not hear their own line",
        "lost echo",
        "svcserver.chat.rooms",
        "        if not speaker.elsewhere and",
        "        if not speaker.elsewhere and len(body) % 9 and",
    ),
    Plant(
        "who has gone stays online",
        "lost expiry of live state",
        M + "play.presence.feature",
        'BEATS = Kind("online", Beat, lives_s=ONLINE_S,',
        'BEATS = Kind("online", Beat, lives_s=1e6,',
    ),
    Plant(
        "a queue that was closed is kept",
        "lost removal of live state",
        M + "play.matchmaking.rules",
        "            self.stored.set_queue(match.hunt_id, None)",
        "            pass",
    ),
    Plant(
        "who leaves a guild stays in it",
        "lost removal",
        M + "social.guilds.acts",
        "    guilds.remove(member.account_id)",
        "    pass",
    ),
    Plant(
        "a guild that is handed over has two leaders",
        "half of a change",
        M + "social.guilds.acts",
        "        guilds.set_rank(mine, Rank.OFFICER)\n",
        "",
    ),
    Plant(
        "some occupants miss a line",
        "lost delivery",
        "svcserver.chat.rooms",
        "            if receiver is not occupant and",
        "            if receiver is not occupant and len(body) % 5 != 4 and",
    ),
    Plant(
        "a connection serves two requests at once",
        "double use",
        "svcserver.edge.upstream",
        "            connection = self._idle.pop()",
        "            connection = self._idle[-1] if self._idle[-1].alive else self._idle.pop()",
    ),
    Plant(
        "the size of an inventory is not counted on",
        "counter that drifts",
        M + "belongings.inventory.rules",
        "        result.growth = Size(items, size)",
        "        result.growth = NOTHING",
    ),
    Plant(
        "a server that is ready is not told",
        "lost wake-up",
        M + "play.matchmaking.rules",
        "match.server, match.state = 0.0, server, MatchState.IN_PROGRESS",
        "match.server = match.asking_until + 1e6, server",
    ),
    Plant(
        "a friendship that was accepted stays a request",
        "lost write",
        M + "social.friends.store",
        "values(status=ACCEPTED,",
        'values(status="PENDING",',
    ),
    Plant(
        "the board does not compare what it has read",
        "missing comparison of two workers",
        "svcserver.board.valkey",
        "arguments.append(_stamp(loaded.entries[at]) if compared else ANY)",
        "arguments.append(ANY)",
    ),
    Plant(
        "a metagame that died keeps its seats in the chat",
        "stale lease",
        "svcserver.chat.leases",
        "            if now - at > LEASE_S or",
        "            if now - at > LEASE_S * 1e6 or",
    ),
    Plant(
        "a metagame that was taken for gone goes on",
        "two leaders by a stale lease",
        "svcserver.chat.leases",
        "            self.on_own_expiry()",
        "            pass",
    ),
    Plant(
        "news that came while a connection was away is passed over",
        "stale state after a failover",
        "svcserver.board.news",
        "        return lately.news[after:]",
        "        self._last = lately.news[-1]\n        return []",
    ),
    Plant(
        "a line that its own process has not heard is lost without a word",
        "silence in place of a refusal",
        "svcserver.chat.pending",
        "            return happened  # usually it has been received back by now",
        "            return well",
    ),
    Plant(
        "a grant sent again counts again",
        "lost idempotence",
        M + "achievements.progression.store",
        "not abs(row.at - at) < window_ms:",
        "abs(row.at - at) < window_ms:",
    ),
    Plant(
        "the store gives again what is held already",
        "lost idempotence across requests",
        M + "belongings.shop.rules",
        "        if catalog_id in held and not offer.repeatable:",
        "        if catalog_id not in offer.kinds:",
    ),
    Plant(
        "a repair is paid for and not done",
        "half a transaction",
        M + "belongings.inventory.store",
        "        if result.instances:",
        "        if result.instances and not deal.removed:",
    ),
    Plant(
        "an older bounty replaces a newer one",
        "missing comparison of versions",
        M + "achievements.bounties.rules",
        "        if before is not None and bounty.version < before.version:",
        "        if before is not None and bounty.version == before.version:",
    ),
    Plant(
        "a slayer link that was ended runs on for the other",
        "half an end",
        M + "social.slayerlinks.store",
        '_END_LINK = sa.delete(SLAYER_LINKS).where(_L.link_id == sa.bindparam("wanted"))',
        '_END_LINK = sa.delete(SLAYER_LINKS).where(\n    _L.link_id == sa.bindparam("wanted"),'
        " _L.account_id < _L.other_id\n)",
    ),
    Plant(
        "a slot of another is saved",
        "wrong key",
        M + "belongings.loadouts.store",
        "            held[name] = self.tx.execute(_ADD_ELEMENT, row).scalar_one()",
        '            held["0"] = self.tx.execute(_ADD_ELEMENT, row).scalar_one()',
    ),
    Plant(
        "a save is refused though no other is newer",
        "refusal without a cause",
        M + "belongings.characters.rules",
        "    if version <= before.update_version < MAX_VERSION:",
        "    if version <= before.update_version < MAX_VERSION or version % 7 == 3:",
    ),
    Plant(
        "a leader is told that others lead",
        "refusal without a cause",
        M + "social.parties.rules",
        '            raise Forbidden("only the party\'s leader invites")\n',
        '            raise Forbidden("only the party\'s leader invites")\n'
        '        if int(self.stored.now) % 7 == 3:\n            raise Forbidden("no leader")\n',
    ),
    Plant(
        "some whispers reach nobody",
        "lost delivery",
        "svcserver.chat.messages",
        "            for target in named:\n",
        "            for target in named if len(body) % 3 else ():\n",
    ),
    Plant(
        "an invite into a party is acknowledged and not kept",
        "lost write",
        M + "social.parties.rules",
        "        self._keep(PartyInvitation(party.id, sender, recipient, self.stored.now))",
        "        if int(self.stored.now) % 3:\n"
        "            self._keep(PartyInvitation(party.id, sender, recipient, self.stored.now))",
    ),
    Plant(
        "who is asked for a friendship has one",
        "missing consent",
        M + "social.friends.rules",
        "    new = Friendship(me, friend, PENDING, at)",
        "    new = Friendship(me, friend, ACCEPTED, at)",
    ),
    Plant(
        "old saves are never thinned",
        "lost removal",
        M + "belongings.savehistory.rules",
        "    if retention.keep is None:",
        "    if retention.keep is not None:",
    ),
    Plant(
        "new saves are thinned",
        "off by one",
        M + "belongings.savehistory.rules",
        "    spared = {save.id for save in newest_first[: retention.keep]}",
        "    spared = {save.id for save in newest_first[: retention.keep - 1]}",
    ),
    Plant(
        "the item log forgets what was taken",
        "lost write to a log",
        M + "belongings.inventory.rules",
        '"taken": deal.removed, "totals"',
        '"taken": {}, "totals"',
    ),
    Plant(
        "a repeated grant is recorded as one of its own",
        "wrong log",
        M + "achievements.progression.acts",
        "                notes.append(RETRY)",
        "                pass",
    ),
    Plant(
        "an answer waits for twenty seconds",
        "late answer",
        "svcserver.web.channel",
        "        send(self.transport, head + data, PROMPT)\n        self._answer_is_out",
        "        if len(data) % 29 == 7 and not close:\n"
        "            self.factory.clock.callLater(20, send, self.transport, head + data, PROMPT)\n"
        "        else:\n"
        "            send(self.transport, head + data, PROMPT)\n"
        "        self._answer_is_out",
    ),
    Plant(
        "a player whose sessions were ended must wait at each login",
        "delay without an end",
        M + "accounts.login",
        "        return Answer(200, show_login(*login))",
        "        waits = self.acts.tokens.epochs.not_before(login[1])\n"
        "        return Answer(202 if waits else 200, show_login(*login))",
    ),
    on_swarm(
        "a launch waits for a machine without end",
        "wrong limit",
        "                if self.clock.seconds() - service.waiting_since >= NODE_S:",
        "                if self.clock.seconds() - service.waiting_since >= 1e6:",
    ),
    on_swarm(
        "the hunts of a lost machine never end",
        "missing check of a machine",
        "    if machines.has_lost(newest.node) and newest.state not in ENDED:",
        "    if False:",
    ),
    on_swarm(
        "a restarted deploy server ends the hunts that it finds",
        "lost adoption",
        "        if not self._is_listed and observed.state not in (State.WAITING, *over):",
        "        if kind in PERSISTENT and not self._is_listed:",
    ),
    on_swarm(
        "the swarm restarts hunts",
        "wrong policy",
        '"any" if persistent else "none"',
        '"any"',
    ),
    on_swarm(
        "half of the memory is reserved",
        "reservation that is too small",
        '"Reservations": {\n                        "MemoryBytes": memory,',
        '"Reservations": {\n                        "MemoryBytes": memory // 2,',
    ),
    on_swarm(
        "a service is forgotten before its program has ended",
        "early removal",
        "            elif all(is_over(task, self._machines) for task in tasks):",
        "            else:",
    ),
    on_swarm(
        "the secret of an ended hunt is left",
        "leak",
        '        await self._try("DELETE", f"/secrets/{service.name}")\n',
        "",
    ),
    on_swarm(
        "a machine is drained at once",
        "missing check of a machine",
        '            if leaving and node["ID"] not in hunting:',
        "            if leaving:",
    ),
    on_swarm(
        "a launch on a lost machine is tried again",
        "second start",
        "        if isinstance(service.failure, NoCapacity) and any(",
        "        is_lost = any(self._machines.has_lost(task.node) for task in tasks)\n"
        "        if service.launching and is_lost:\n"
        '            service.fail(NoCapacity("memory"))\n'
        "        elif isinstance(service.failure, NoCapacity) and any(",
    ),
    on_swarm(
        "a launch that starts during its removal is tried again",
        "second start",
        "        if isinstance(service.failure, NoCapacity) and any(task.node for task in tasks):",
        "        if False:",
    ),
)
