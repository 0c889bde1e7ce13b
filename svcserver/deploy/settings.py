"""The settings of ``svc-deploy``, explained in docs/owners/configuration.md."""

import re
from contextlib import suppress
from urllib.parse import urlsplit

from attrs import frozen

from svcserver.kernel.launch_requests import MAP_PATH
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    Bad,
    comma_list,
    env,
    ip_address,
    number,
    off_unless_1,
    on_unless_0,
    one_of,
    secret,
    whole,
)
from svcserver.kernel.settings import port as port_number
from svcserver.web.logs import level_word

TCP = "tcp://"


def split_words(text: str) -> tuple[str, ...]:
    """Split arguments at blanks; quotes have no special meaning."""
    return tuple(text.split())


def map_path(text: str) -> str:
    """Read a map path such as ``/Game/Maps/city/name``; raises ValueError."""
    if not MAP_PATH.match(text.strip()):
        raise ValueError("must be a map path such as /Game/Maps/city/name")
    return text.strip()


def host_handed_out(text: str) -> str:
    """Read the IPv4 address that players connect to; raises ValueError."""
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", text.strip()):
        raise ValueError("must be an IPv4 address")
    return ip_address(text)


def engine_address(text: str) -> str:
    """Read an engine's address: ``tcp://host:port``, or the absolute path of a socket.

    The path can begin with ``unix://``.
    """
    address = text.strip().removeprefix("unix://")
    with suppress(ValueError):  # such as a port that is too large
        target = urlsplit(address)
        if address.startswith("/") or (target.scheme == "tcp" and target.hostname and target.port):
            return address
    raise ValueError(
        "must be tcp://host:port or a unix socket, such as unix:///var/run/docker.sock"
    )


@frozen
class DeploySettings:
    """The deploy server's settings; each attribute is an environment variable."""

    port: int = env("PORT", port_number)
    bind_host: str = env("BIND_HOST", ip_address, default="127.0.0.1")
    node_env: str = env("NODE_ENV", str.strip, default="")
    log_level: str = env("LOG_LEVEL", level_word, default="info", bad=Bad.WARN)
    metrics_port: int | None = env("METRICS_PORT", port_number, default=None)
    my_ip: str = env("MY_IP", host_handed_out, default="", bad=Bad.WARN)
    first_port: int = env("PORT_RANGE_BEGIN", port_number, default=0, bad=Bad.WARN)
    last_port: int = env("PORT_RANGE_END", port_number, default=0, bad=Bad.WARN)
    engine: str = env("GAMESERVER_ENGINE", one_of("process", "swarm"), default="process")
    docker: str = env("DOCKER_HOST", engine_address, default="/var/run/docker.sock")
    docker_certificates: str = env("DOCKER_CERT_PATH", str.strip, default="")
    image: str = env("GAMESERVER_IMAGE", str.strip, default="")
    trusted: tuple[str, ...] = env("GAMESERVER_TRUSTED", comma_list, default=())
    cpus: float = env("GAMESERVER_CPUS", number(0.1, 64), default=1.0, bad=Bad.WARN)
    binary: str = env("GAMESERVER_BINARY_PATH", str.strip, default="")
    launcher: tuple[str, ...] = env("GAMESERVER_LAUNCHER", split_words, default=())
    arguments: tuple[str, ...] = env(
        "GAMESERVER_ARGS", split_words, default=("-server", "-nullrhi"), empty_is_a_value=True
    )
    key: Secret | None = env("METAGAME_API_KEY", secret, default=None)
    signing_key: Secret | None = env("AUTH_SIGNING_PRIVKEY_B64", secret, default=None)
    launch_keys: bool = env("GAMESERVER_LAUNCH_KEYS", off_unless_1, default=False)
    city_map: str = env("CITY_MAP", map_path, default="", bad=Bad.WARN)
    trials_map: str = env("TRIALS_MAP", map_path, default="", bad=Bad.WARN)
    spacing_s: float = env(
        "SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP", number(0), default=0.0, bad=Bad.WARN
    )
    dojo_at_boot: bool = env("ENABLE_DOJO", off_unless_1, default=False)
    liveness: bool = env("PERSISTENT_WORLD_LIVENESS", on_unless_0, default=True)
    hunt_worker: bool = env("HUNT_WORKER", off_unless_1, default=False)
    memory_guard: bool = env("GAMESERVER_MEMORY_GUARD", on_unless_0, default=True)
    # these are read at each launch: a bad value makes only the launch fail
    min_free_mb: str = env("GAMESERVER_MIN_FREE_MB", default="3072")
    startup_mb: str = env("GAMESERVER_STARTUP_MB", default="1536")
    hunt_startup_mb: str = env("GAMESERVER_HUNT_STARTUP_MB", default="")
    reservation_seconds: str = env("GAMESERVER_RESERVATION_SECONDS", default="60")
    startup_grace_ms: str = env("GAMESERVER_STARTUP_GRACE_MS", default="0")
    frozen_s: int = env("GAMESERVER_FROZEN_SECONDS", whole(0, 3600), default=120, bad=Bad.WARN)
    ready_dir: str = env("GAMESERVER_READY_DIR", str.strip, default="")

    @property
    def production(self) -> bool:
        """True with NODE_ENV=production; then logs are in JSON, and no page shows a traceback."""
        return self.node_env == "production"

    @property
    def has_ports(self) -> bool:
        """True if the settings have a port range: END is at least BEGIN + 1."""
        return 0 < self.first_port < self.last_port


def check(settings: DeploySettings) -> list[str]:
    """Return warnings about settings; raises BadSetting if Docker's certificates are unusable."""
    warnings = []
    if settings.engine == "swarm" and settings.docker.startswith(TCP):
        # TLS takes a tenth of a second to import
        from svcserver.deploy.docker_api import tls_options

        tls_options("localhost", settings.docker_certificates)
    if not settings.has_ports:
        warnings.append(
            "PORT_RANGE_BEGIN must be above 0 and below PORT_RANGE_END; no game server can start"
        )
    elif settings.last_port - settings.first_port < 2:
        warnings.append(
            "PORT_RANGE_BEGIN and PORT_RANGE_END leave no port for hunts; lower PORT_RANGE_BEGIN"
        )
    if settings.engine == "swarm" and not settings.image:
        warnings.append("GAMESERVER_IMAGE is not set; no game server can start")
    if settings.engine == "swarm" and not settings.launch_keys:
        warnings.append(
            "GAMESERVER_LAUNCH_KEYS is not 1: game servers on other machines cannot write to the "
            "metagame, and their machines see METAGAME_API_KEY"
        )
    if not settings.my_ip and settings.engine == "process":
        warnings.append("MY_IP is not set; no player can be sent to a game server")
    if not settings.binary:
        warnings.append("GAMESERVER_BINARY_PATH is not set; no game server can start")
    if not settings.city_map and not settings.hunt_worker:
        warnings.append("CITY_MAP is not set; the city cannot start")
    if settings.key is None and not settings.launch_keys:
        warnings.append("METAGAME_API_KEY is not set; game servers cannot write to the metagame")
    return warnings


numbers = whole(1)
