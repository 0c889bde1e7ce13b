"""The command ``svcctl init``, which writes a ready-to-run host."""

import shlex
from pathlib import Path
from urllib.parse import urlsplit

import click
from attrs import astuple, evolve, field, frozen
from click.core import ParameterSource

from svcserver.board.address import SCHEMES
from svcserver.board.factory import live_url
from svcserver.ctl.blueprint import EVERYWHERE, LOOPBACK, Ports, Scale, is_private, own_address
from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.host import as_owner_of_its_folder, find
from svcserver.ctl.host_creation import DATABASE, LIVE_CONFIG, UNITS, CreatedHost, create_host
from svcserver.ctl.output import Out, config_of, fail, program, warn
from svcserver.db.engine import database_url
from svcserver.edge.invite import is_host
from svcserver.kernel.digits import whole_in
from svcserver.kernel.port_holders import PortHolder
from svcserver.kernel.secrets import hex_token
from svcserver.kernel.settings import BadSetting
from svcserver.stack.workers import MOST, check

DATABASE_VARIABLE, LIVE_VARIABLE = "SVC_DATABASE_URL", "SVC_LIVE_URL"
ENGINE_CONFIG = "/etc/valkey/svcserver.conf"  # Debian's Valkey cannot read a host's folder
LONGEST_PORT = 5  # digits
FIRST_NO_PORT = 65_536
PORTS_OF_A_HOST = 300  # from its base port upwards, workers included
FIRST_ALTERNATIVE, STEP = 62_000, 500  # base ports to suggest if a port is taken

base_port_option = click.option(
    "--base-port",
    metavar="N",
    type=click.IntRange(1024, FIRST_NO_PORT - PORTS_OF_A_HOST),
    help="Use the ports from N on, for a second host on this machine.",
)


@click.command("init")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--public-host",
    metavar="H[:PORT]",
    help="Make a public host that players reach at this name or address.",
)
@click.option(
    "--private-host",
    metavar="A",
    help="Make a private host on this IPv4 address. Default: the overlay network's address.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MOST),
    default=1,
    help="Number of processes of the metagame, which is the central server.",
)
@click.option(
    "--database",
    metavar="URL",
    default="",
    envvar=DATABASE_VARIABLE,
    show_envvar=True,
    help="A postgresql:// URL. Default: an SQLite file.",
)
@click.option(
    "--live",
    metavar="URL",
    default="",
    envvar=LIVE_VARIABLE,
    show_envvar=True,
    help="A valkey:// or valkeys:// URL. Default: in-process memory.",
)
@click.option(
    "--share-database",
    "shared",
    is_flag=True,
    help="Use the existing database of another host.",
)
@base_port_option
@click.option("--owner", metavar="NAME", default="owner", help="The owner's account name.")
@click.option(
    "--data",
    metavar="DATA_DIR",
    type=click.Path(path_type=Path),
    help="Folder for database, game files and logs. Default: DIR.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@as_owner_of_its_folder
def init(
    folder: Path,
    public_host: str | None,
    private_host: str | None,
    workers: int,
    database: str,
    live: str,
    shared: bool,
    base_port: int | None,
    owner: str,
    data: Path | None,
    as_json: bool,
) -> None:
    """Create a new host's folder with keys and settings.

    Existing files are never overwritten. With --public-host, players connect over the internet
    through the gateway. Without it the host is private, and players connect over an overlay network
    such as a VPN.

    If a URL contains a password, pass the URL in the environment variable shown below, because
    every user on the machine can see the command line.
    """
    out = Out(as_json)
    place = place_of(public_host, private_host, base_port)
    scale = scale_of(workers, database, live, private=place.private)
    taken = taken_port(place, Machine(), workers)
    made = create_host(
        folder,
        place.address,
        owner,
        ports=place.ports,
        private=place.private,
        scale=scale,
        data=data,
        shared=shared,
    )
    print_created_host(out, made, database_of(made))
    if taken:
        out.text("", f"ATTENTION: {taken}")


@frozen
class PublicAddress:
    """The address at which players reach a new host."""

    address: str
    private: bool
    ports: Ports = field(factory=Ports)
    port_given: bool = False


def place_of(
    public_host: str | None, private_host: str | None, base_port: int | None = None
) -> PublicAddress:
    """Return the public address from the options of ``init`` and ``up``; raises Failed."""
    ports = Ports() if base_port is None else Ports.from_base(base_port)
    if public_host is not None and private_host is not None:
        fail("Give only one option: --public-host or --private-host.")
    if private_host is not None and not is_private(private_host):
        fail(
            f"--private-host {private_host} must be an IPv4 address in 100.64.0.0/10 or "
            "127.0.0.0/8. On any other address, the metagame would be open to everybody. For any "
            "other address, use --public-host instead of --private-host."
        )
    if public_host is None:
        address = private_host or own_address() or LOOPBACK
        return PublicAddress(address, private=True, ports=ports)
    name, colon, port = public_host.partition(":")
    number = whole_in(port, LONGEST_PORT) if colon else ports.gateway
    if not is_host(name.lower()) or number is None or not 0 < number < FIRST_NO_PORT:
        fail(
            f"--public-host {public_host} must be NAME or NAME:PORT. NAME is an IPv4 address or a "
            "DNS name, such as play.example.org. PORT is a number from 1 to 65535."
        )
    if not colon:
        return PublicAddress(name, private=False, ports=ports)
    if number in astuple(evolve(ports, gateway=0)):
        fail(
            f"--public-host {public_host} has the port {number}, which another component of the "
            "host uses. Choose another port."
        )
    ports = evolve(ports, gateway=number)
    return PublicAddress(name, private=False, ports=ports, port_given=True)


def taken_port(place: PublicAddress, machine: Machine, workers: int = 1) -> str:
    """Return a message if a port of the new host is taken, or "" if all ports are free.

    The message names the port, the program that uses it, and the fix.
    """
    taken = _taken(place, machine, workers)
    if taken is None:
        return ""
    host, port, udp = taken
    holder = machine.holder(host, port, udp=udp)
    for base in range(FIRST_ALTERNATIVE, FIRST_NO_PORT - PORTS_OF_A_HOST, STEP):
        alternative = evolve(place, ports=Ports.from_base(base), port_given=False)
        if _taken(alternative, machine, workers) is None:
            cure = (
                f"Make the host with --base-port {base}, whose ports are free, or end that program."
            )
            break
    else:
        cure = "End that program, or give --base-port another number."
    return f"{'UDP port' if udp else 'port'} {port} is taken by {holder_name(holder)}. {cure}"


def holder_name(holder: PortHolder | None) -> str:
    """Return a description of the program that uses a port."""
    if holder is None:
        return "another program"
    component = next((word[4:] for word in holder.words if word.startswith("svc-")), "")
    settings = holder.settings_of(component)
    name = f"the {component} of the host in {settings.parent}" if settings else holder.words[0]
    return f"{name} (process {holder.pid})"


def _taken(place: PublicAddress, machine: Machine, workers: int) -> tuple[str, int, bool] | None:
    """Return the first taken port with its address, and whether it is a UDP port."""
    addresses = {place.address if place.private else LOOPBACK, LOOPBACK}
    tcp, gateway = place.ports.tcp(private=place.private, workers=workers), place.ports.gateway
    listens = [
        *((address, port, False) for address in sorted(addresses) for port in tcp),
        *((EVERYWHERE, port, False) for port in tcp if port == gateway),
        *((EVERYWHERE, port, True) for port in place.ports.udp),
    ]
    for host, port, udp in listens:
        if machine.port(host, port, udp=udp).taken:
            return host, port, udp
    return None


def scale_of(workers: int, database: str, live: str, *, private: bool) -> Scale:
    """Check the options for the workers, the database and the live state; return them as a Scale.

    Raises Failed.
    """
    if workers > 1 and private:
        fail(
            "A private host cannot have several workers, because it has no gateway. "
            "Make a public host with --public-host, or leave out --workers."
        )
    try:
        if database:
            database_url(database)
    except ValueError as why:
        fail(f"the database URL in --database or {DATABASE_VARIABLE} {why}")
    try:
        if live:
            live_url(live)
    except ValueError as why:
        fail(f"the live-state URL in --live or {LIVE_VARIABLE} {why}")
    try:
        check(workers, {"DATABASE_URL": database, "LIVE_URL": live})
    except BadSetting as why:
        fail(
            f"{why} For a new host, give DATABASE_URL with the option --database or in the "
            f"environment variable {DATABASE_VARIABLE}. Give LIVE_URL with the option --live or in "
            f"the environment variable {LIVE_VARIABLE}."
        )
    warn_of_passwords(Scale(workers, database, live))
    parts = urlsplit(live.strip())
    if parts.scheme in SCHEMES and not parts.password:
        password = hex_token(48)
        place = parts.netloc.rpartition("@")[2]
        url = parts._replace(netloc=f":{password}@{place}").geturl()
        return Scale(workers, database, url, password)
    return Scale(workers, database, live)


def warn_of_passwords(scale: Scale) -> None:
    """Warn about passwords on the command line, and name a safe alternative."""
    database = scale.database and database_url(scale.database).password
    live = scale.live and urlsplit(scale.live.strip()).password
    for name, password, variable in (
        ("database", database, DATABASE_VARIABLE),
        ("live", live, LIVE_VARIABLE),
    ):
        if password and source_of(name) is ParameterSource.COMMANDLINE:
            warn(
                f"the URL in --{name} contains a password. Every user of this machine can see the"
                " command line, and the shell keeps it in its history. Change the password, and"
                f" next time set the environment variable {variable} instead of --{name}."
            )


def source_of(name: str) -> ParameterSource | None:
    """Return where an option of this command was set: command line, environment or default."""
    return click.get_current_context().get_parameter_source(name)


def database_of(made: CreatedHost) -> str:
    """Return the text that tells the owner which database the host uses.

    For SQLite, the text is the path of the database file. For PostgreSQL, it is the URL without its
    password, and the option or variable that contained the URL.
    """
    if not made.plan.scale.database:
        return str(made.plan.data / DATABASE)
    is_from_there = source_of("database") is ParameterSource.ENVIRONMENT
    who = DATABASE_VARIABLE if is_from_there else "--database"
    return f"{database_url(made.plan.scale.database).render_as_string()} from {who}"


def print_created_host(out: Out, made: CreatedHost, database: str) -> None:
    """Print what was written and the next steps."""
    out.data(
        {
            "folder": str(made.folder),
            "owner": made.owner,
            "fingerprint": made.fingerprint,
            "mode": "public" if made.fingerprint else "private",
            "host": made.address,
            "database": database,
            "dashboard": find(str(made.folder), None).dashboard(),
        }
    )
    address = made.address
    svcctl, config = program("svcctl"), config_of(made.folder)
    out.text(
        f"host         {made.folder}",
        f"owner        {made.owner}, key in owner.key",
        f"database     {database}",
        f"fingerprint  {made.fingerprint}"
        if made.fingerprint
        else f"private      on {address}, without a gateway",
        "",
        "Next:",
        "  1. deploy.env: GAMESERVER_BINARY_PATH, and CITY_MAP there and in metagame.env",
        f"  2. check:   {svcctl} doctor {config}",
        f"  3. start:   {program('twistd')} --nodaemon --pidfile= svc-stack {config}",
        f"     or by systemd, with the units in {made.folder / UNITS}",
        f"  4. invite:  {svcctl} invite create {config}",
        f"  5. friends without a launcher: {svcctl} content launcher FILE {config}",
        f"  6. look:    {find(str(made.folder), None).dashboard()} in a browser on this machine,",
        f"              or {svcctl} status {config}",
    )
    if (made.folder / LIVE_CONFIG).exists():
        out.text(
            "",
            "First of all, give Valkey or Redis the password that init made. Copy this file to a",
            "folder where the server can read it (with Redis, write redis for -o valkey):",
            f"  sudo install -o valkey -m 640 {shlex.quote(str(made.folder / LIVE_CONFIG))}"
            f" {ENGINE_CONFIG}",
            f"Add the line  include {ENGINE_CONFIG}  to its configuration, and restart the server.",
        )
    warn_of_my_ip(out, made)
    if address == LOOPBACK:
        out.text(
            "",
            "It listens on 127.0.0.1: only this machine can play. Use --public-host, or",
            "--private-host with this machine's address in your overlay network.",
        )


def warn_of_my_ip(out: Out, made: CreatedHost) -> None:
    """Warn if MY_IP is not an address that players' games can reach."""
    address = made.address
    if made.my_ip and (address in (LOOPBACK, made.my_ip) or not made.my_ip.startswith("127.")):
        return
    resolved = (
        f"resolves here only to {made.my_ip}"
        if made.my_ip
        else "does not resolve to an IPv4 address here"
    )
    out.text(
        "",
        f"ATTENTION: {address} {resolved}, so nobody can join a hunt yet:",
        f"write this host's public IPv4 address as MY_IP into {made.folder / 'deploy.env'}",
    )
