"""The command ``svcctl passport``, for signed data that players bring from a trusted host."""

import time
from datetime import UTC, datetime
from pathlib import Path

import click
from attrs import evolve

from svcserver.ctl.as_owner import actor
from svcserver.ctl.database import transact
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.moderation import recorded, refuse
from svcserver.ctl.output import Out, fail
from svcserver.kernel.datafiles import BadData
from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.refusals import Conflict, Malformed, Refusal, TooLarge
from svcserver.kernel.settings import BadSetting, load
from svcserver.metagame.access.keys import BadKey, load_private
from svcserver.metagame.accounts.audit import AuditEntry
from svcserver.metagame.achievements.progression.store import configured_paths
from svcserver.metagame.owner.passports import rules, wire
from svcserver.metagame.owner.passports.acts import distrust as distrust_act
from svcserver.metagame.owner.passports.acts import take_in
from svcserver.metagame.owner.passports.acts import trust as trust_act
from svcserver.metagame.owner.passports.store import SqlHosts
from svcserver.metagame.owner.settings import rules as setting_rules
from svcserver.metagame.owner.settings.store import SqlSettings
from svcserver.metagame.settings import MetagameSettings

MAX_FILE = 64 * 1024 * 1024  # bytes


@click.group()
def passport() -> None:
    """Manage passports: signed copies of players' data."""


@host_command(passport, "key")
def key(host: Host, out: Out) -> None:
    """Print this host's key for another host's owner."""
    text = host.variables("metagame").get("AUTH_SIGNING_PRIVKEY_B64", "")
    try:
        public = rules.signing_key(load_private(text)).public_key()
    except BadKey as why:
        fail(f"AUTH_SIGNING_PRIVKEY_B64 is {why}")
    out.data({"key": rules.public_text(public)})
    out.text(rules.public_text(public))


@host_command(passport, "trust", reason=True)
@click.argument("key")
@click.option("--name", default="", help="A name for the host, for your own notes.")
def trust(host: Host, out: Out, key: str, name: str, reason: str) -> None:
    """Accept passports signed by the host whose key is KEY.

    The owner of the other host prints KEY with "svcctl passport key".
    """
    entry = AuditEntry(actor(), "passport trust", "", reason)
    text = _key(host, entry, key)
    entry = evolve(entry, target=text)
    if len(name) > 64 or not is_plain(name):
        why = f"the name must have at most 64 characters, without {NOT_PLAIN}"
        refuse(host, entry, Malformed(why))
    recorded(host, entry, trust_act(text, name, time.time))
    out.data({"trusted": text, "name": name})
    out.text("Trusted. Import a player's passport with svcctl passport import FILE NAME.")


@host_command(passport, "distrust", reason=True)
@click.argument("key")
def distrust(host: Host, out: Out, key: str, reason: str) -> None:
    """Stop accepting passports of the host with KEY.

    The data of imported passports stays in the accounts.
    """
    entry = AuditEntry(actor(), "passport distrust", "", reason)
    text = _key(host, entry, key)
    name = recorded(host, evolve(entry, target=text), distrust_act(text))
    out.data({"distrusted": text, "name": name})
    out.text("No longer trusted. Imported passports stay.")


@host_command(passport, "trusted")
def trusted(host: Host, out: Out) -> None:
    """List the trusted hosts, newest first."""
    hosts = transact(host, lambda tx: SqlHosts(tx).trusted())
    out.data(
        [
            {
                "key": trusted_host.signer,
                "name": trusted_host.name,
                "trustedAt": trusted_host.trusted_at,
                "imported": trusted_host.imported,
            }
            for trusted_host in hosts
        ]
    )
    rows = [
        [
            trusted_host.signer,
            trusted_host.name,
            _day(trusted_host.trusted_at),
            str(trusted_host.imported),
        ]
        for trusted_host in hosts
    ]
    if rows:
        out.table(["KEY", "NAME", "SINCE", "IMPORTED"], rows)
    else:
        out.text("No host is trusted yet. Add one with svcctl passport trust KEY.")


def _day(milliseconds: int) -> str:
    """Return the UTC date of a time in epoch milliseconds."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d}"


def _key(host: Host, entry: AuditEntry, text: str) -> str:
    """Return a host's key in its stored form; raises Failed for an invalid key.

    The audit row about an invalid key does not contain the text, because the text may be a secret
    key that was entered by mistake.
    """
    key = text.strip().lower()
    if not rules.is_public_text(key):
        why = "the key must be 64 hex characters, as svcctl passport key prints on the other host"
        refuse(host, entry, Malformed(why))
    return key


@host_command(passport, "import", reason=True)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("name")
def import_(host: Host, out: Out, file: Path, name: str, reason: str) -> None:
    """Import the passport FILE into the account NAME.

    Each player of another host can be imported only once. If the passport has more
    progress, items or currency than the account, the account gets the difference; nothing is
    lowered. Each imported character is stored as the newest save; earlier saves are kept.
    PASSPORT_TAKES in metagame.env limits what is imported.
    """
    entry = AuditEntry(actor(), "passport import", name, reason)
    try:
        passport = _unsealed(file)
        settings, _ = load(MetagameSettings, host.variables("metagame"))
        setting_rules.apply(settings, transact(host, lambda tx: SqlSettings(tx).all()))
        paths = configured_paths(settings.progression_config_dir, settings.active_hunt_pass)
        terms = rules.Terms.for_imports(settings)
    except (BadSetting, BadData) as why:
        refuse(host, entry, Conflict(str(why)))
    except Refusal as why:
        refuse(host, entry, why)
    done = recorded(host, entry, take_in(passport, name, paths, terms, time.time))
    _print_outcome(out, name, passport, done)


def _unsealed(file: Path) -> rules.Passport:
    """Verify and return the passport in a file; raises Refusal."""
    try:
        if file.stat().st_size > MAX_FILE:
            raise TooLarge(f"{file} is too large for a passport")
        return wire.unseal(file.read_bytes())
    except Malformed as why:
        raise Malformed(f"{file}: {why.message}") from why
    except OSError as why:
        raise Malformed(f"{file} cannot be read: {why.strerror}") from why


def _print_outcome(out: Out, name: str, passport: rules.Passport, done: rules.Taken) -> None:
    out.data(
        {
            "account": name,
            "from": passport.username,
            "tracks": done.tracks,
            "characters": done.characters,
            "items": done.items,
            "currencies": done.currencies,
            "loadouts": done.loadouts,
            "left_out": list(done.left_out),
        }
    )
    out.text(f"{name} now has what {passport.username} had on {passport.host[:64]}:")
    out.text(
        f"  {done.tracks} tracks raised, {done.characters} characters, {done.items} items, "
        f"{done.currencies} currencies, {done.loadouts} loadouts"
    )
    for reason in done.left_out:
        out.text(f"  left out: {reason}")
