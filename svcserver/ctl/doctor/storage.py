"""Checks of the database (existence, damage, revision, accounts, keys) and the clock."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from svcserver.ctl import database
from svcserver.ctl.database_commands import cure_of_damage, sqlite_faults
from svcserver.ctl.doctor.case import Case, Finding
from svcserver.ctl.host import OWNER_KEY
from svcserver.ctl.keys import expired_at
from svcserver.ctl.output import Failed, config_of
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, is_sqlite, make_engine
from svcserver.db.faults import cure_of
from svcserver.db.migrations import revisions
from svcserver.db.suitable import refuse_unsuitable
from svcserver.db.transaction import transaction
from svcserver.kernel.alert_settings import read_channels
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.kernel.settings import BadSetting, load
from svcserver.metagame.access.keys import BadKey
from svcserver.metagame.accounts.rules import MODES
from svcserver.metagame.accounts.store import SqlAccounts, knows_game_server
from svcserver.metagame.owner.settings.rules import REGISTRATION_MODE
from svcserver.metagame.owner.settings.store import SqlSettings
from svcserver.stack import workers as stack_workers
from svcserver.stack.service import StackSettings

OWNERS_CONNECTIONS = 2  # connections for a command and a backup
_CONNECTION_QUERIES = (
    "SELECT current_setting('max_connections')",
    "SELECT current_setting('superuser_reserved_connections')",
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND datname <> current_database()",
)
ALLOWED_SLIP_S = 300  # how far the clock may be behind the newest file's modification time


def storage(case: Case) -> Iterator[Finding]:
    """Check the database at DATABASE_URL."""
    if case.metagame is None:
        return
    url = database.url_of(case.host)
    file = database.file_of(url)
    if url.get_backend_name() == "sqlite" and file is None:
        what = "DATABASE_URL is a database in memory: a restart loses everything"
        yield Finding("database", what, "set DATABASE_URL=sqlite:///svc.db in metagame.env")
        return
    if file is not None:
        unusable = list(_file(case, file))
        yield from unusable
        if file.parent != case.folder:
            yield from _room(case, file)
        if unusable:
            return
    yield from _inside(case, url)


def _file(case: Case, file: Path) -> Iterator[Finding]:
    try:
        database.existing_file(file)
        if (hindrance := database.obstacle(file)) is not None:
            yield Finding("database", *hindrance)
            return
        if file.stat().st_size > migrations.LOOKED_THROUGH:
            what = f"{file} is large and was not checked"
            yield Finding.note("database", what, "run svcctl db check")
            return
        faults = sqlite_faults(file)
    except Failed as why:
        yield Finding.from_message("database", why.message, "correct DATABASE_URL in metagame.env")
        return
    if faults:
        what = f"{file} is damaged ({faults[0]})"
        yield Finding("database", what, cure_of_damage(faults))


def _room(case: Case, file: Path) -> Iterator[Finding]:
    reserve = case.metagame.disk_reserve_mb if case.metagame is not None else 0
    left = case.machine.room(file.parent).free >> 20
    if left < reserve:  # ``places.room`` checks the disk of the host's own folder
        what = f"the disk of {file} has {left} MB left: nothing is saved"
        yield Finding("database", what, f"make room: DISK_RESERVE_MB keeps {reserve} MB free")


def _inside(case: Case, url: URL) -> Iterator[Finding]:
    engine = make_engine(url)
    try:
        refuse_unsuitable(engine)
        with transaction(engine) as tx:
            yield from list(_content(case, tx))
    except BadDatabase as why:
        yield Finding.from_message("database", str(why), "correct DATABASE_URL in metagame.env")
    except SQLAlchemyError as why:
        cure = cure_of(why) or "correct DATABASE_URL in metagame.env; is the server running?"
        yield Finding("database", f"the database cannot be used: {describe(why)}", cure)
    finally:
        engine.dispose()


def _content(case: Case, tx: Connection) -> Iterator[Finding]:
    cure = f"run svcctl db upgrade {config_of(case.folder)}, or restart the metagame"
    revision = revisions.present(tx)
    if revision is None:
        restore = "if this host had players, correct DATABASE_URL or restore a backup; otherwise"
        yield Finding("database", "the database is empty", f"{restore} {cure}")
        return
    newer = revisions.newer(tx)
    if newer is not None:
        what, lacking = migrations.too_new(newer), migrations.unfit(tx)
        if lacking is not None:
            yield Finding("database", f"{what}, and {lacking}", migrations.INSTALL)
            return
        what = f"the database can be used, although {what}"
        yield Finding.note("database", what, migrations.INSTALL)
    elif revision != revisions.known()[-1]:
        needed = revisions.known()[-1]
        what = f"the database's revision is {revision}, but this version needs {needed}"
        yield Finding("database", what, cure)
        return
    with suppress(BadSetting):  # the check ``workers`` reports the bad setting
        yield from _engine(case, tx, workers_of(case))
    yield from _registration(case, SqlSettings(tx).all().get(REGISTRATION_MODE))
    yield from _accounts(case, SqlAccounts(tx))
    yield from _old_keys(case, tx)
    key = case.deploy.key if case.deploy is not None else None
    if key is not None and not knows_game_server(tx, key.reveal()):
        yield Finding(
            "deploy",
            "METAGAME_API_KEY is not registered: game servers can save nothing",
            f"run svcctl gameserver-key add {config_of(case.folder)}, and put the new key into"
            " deploy.env",
        )


def _registration(case: Case, on_page: str | None) -> Iterator[Finding]:
    """Check the registration mode.

    A mode that is set on the dashboard overrides the mode in metagame.env.
    """
    mode = on_page or (case.metagame.registration_mode if case.metagame is not None else None)
    place = "metagame.env" if on_page is None else "the dashboard's page Settings"
    if mode not in MODES:
        yield Finding(
            "metagame",
            "REGISTRATION_MODE is not NONE, INVITECODE or OPEN: nobody can register",
            f"set REGISTRATION_MODE=INVITECODE in {place}",
        )
    elif mode == "OPEN":
        yield Finding.note(
            "metagame",
            "anybody may register",
            f"set REGISTRATION_MODE=INVITECODE in {place} to require an invite",
        )


def workers(case: Case) -> Iterator[Finding]:
    """Check the settings in ``stack.env``: WORKERS and the settings for backups.

    Several workers need a PostgreSQL database and a Valkey or Redis server.
    """
    try:
        count = workers_of(case)
        stack_workers.check(count, case.host.variables("metagame"))
        load(BackupSettings, _stack(case))
    except BadSetting as why:
        yield Finding.from_message("stack", str(why), "correct stack.env")


def check_alert_channels(case: Case) -> Iterator[Finding]:
    """Find alert channels that do not work or whose webhooks are not signed."""
    for fault in read_channels(case.folder)[1]:
        nobody = "correct the file: no alert reaches this channel"
        cure = "add the line; until then alerts are sent as before" if fault.usable else nobody
        yield Finding.note("alerts", fault.text, cure)


def workers_of(case: Case) -> int:
    """Return the setting WORKERS in ``stack.env``; raises BadSetting."""
    return load(StackSettings, _stack(case))[0].workers


def _stack(case: Case) -> dict[str, str]:
    """Return the settings in ``stack.env``, empty if there is no such file; raises BadSetting."""
    file = case.folder / stack_workers.WORKER_FILE
    return stack_workers.read_env_file(file) if file.is_file() else {}


def _engine(case: Case, tx: Connection, metagames: int = 1) -> Iterator[Finding]:
    """Check that PostgreSQL accepts as many connections as the host opens."""
    if case.metagame is None or is_sqlite(tx.engine):
        return
    most, reserved, elsewhere = (
        int(tx.execute(text(query)).scalar_one()) for query in _CONNECTION_QUERIES
    )
    each, left = case.metagame.database_connections, most - reserved - elsewhere
    if metagames * each + OWNERS_CONNECTIONS > left:
        times = f"{metagames} times " if metagames > 1 else ""
        yield Finding(
            "database",
            f"{times}DATABASE_CONNECTIONS={each} and {OWNERS_CONNECTIONS} for svcctl are more than "
            f"the {left} connections that PostgreSQL has left for this host",
            "lower DATABASE_CONNECTIONS in metagame.env, or raise max_connections in"
            " postgresql.conf",
        )


def _accounts(case: Case, accounts: SqlAccounts) -> Iterator[Finding]:
    if not any(account.is_admin for account in accounts.everyone()):
        cure = "run svcctl account create NAME --owner, or svcctl account promote NAME"
        yield Finding.note("metagame", "no account is an owner", cure)
    with suppress(OSError, UnicodeDecodeError):
        key = (case.folder / OWNER_KEY).read_text(encoding="utf-8").strip()
        if accounts.by_key(key) is None:
            yield Finding(
                "host",
                f"{case.folder / OWNER_KEY} is not the key of an account",
                "make an account (svcctl account create NAME --owner) and put its key there",
            )


def _old_keys(case: Case, tx: Connection) -> Iterator[Finding]:
    if case.metagame is None or not case.metagame.verify_keys:
        return
    try:
        until = expired_at(tx, case.metagame.signing_public_key)
    except BadKey:
        return  # the check matching.signing_keys reports the fault
    if until is None:
        what = "the metagame still signs with the key that svcctl keys rotate replaced"
        yield Finding.note("metagame", what, "restart the metagame")
    elif until.timestamp() <= case.machine.wall_clock():
        what = "AUTH_VERIFY_KEYS_B64 holds keys whose last tokens have expired"
        yield Finding.note("metagame", what, "run svcctl keys retire and restart the metagame")


def clock(case: Case) -> Iterator[Finding]:
    """Check that the clock is not behind the modification times of existing files."""
    newest = 0.0
    for path in case.folder.glob("*"):
        with suppress(OSError):
            newest = max(newest, path.stat().st_mtime)
    behind = newest - case.machine.wall_clock()
    if behind > ALLOWED_SLIP_S:
        yield Finding(
            "host",
            f"the clock is behind its own files by {behind:.0f} s: tokens are refused "
            "or valid too long",
            "set the clock (timedatectl set-ntp true)",
        )
