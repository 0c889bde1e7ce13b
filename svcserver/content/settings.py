"""The settings of ``svc-content``. Spec: 2 §4, docs/owners/configuration.md."""

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

from attrs import frozen

from svcserver.content.paths import is_clean
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    Bad,
    BadSetting,
    comma_list,
    env,
    folder,
    log_level,
    off_unless_1,
    strong_secret,
    whole,
)
from svcserver.kernel.settings import port as port_number

_PRIVATE_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in ("127.0.0.0/8", "::1/128", "100.64.0.0/10", "fd7a:115c:a1e0::/48")
)

NOT_HOSTS = "must be one or more IP addresses, separated by commas (localhost means 127.0.0.1)"


def bind_hosts(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of IP addresses or ``localhost``."""
    hosts = []
    for part in comma_list(text):
        try:
            hosts.append("127.0.0.1" if part == "localhost" else str(ipaddress.ip_address(part)))
        except ValueError:
            raise ValueError(NOT_HOSTS) from None
    if not hosts:
        raise ValueError(NOT_HOSTS)
    return tuple(dict.fromkeys(hosts))


def not_a_folder(text: str) -> Path:
    """Parse the path of a file; the file does not have to exist yet."""
    path = Path(text.strip())
    if os.path.isdir(path):
        raise ValueError("must be a file, not a folder")
    return path


def game_path(text: str) -> str:
    """Parse a path in manifest form: relative, with slashes, without ``..``."""
    path = text.strip()
    if not is_clean(path):
        raise ValueError(
            "must be a path inside the game folder, with / between its parts, such as "
            "Game/Binaries/Game.exe"
        )
    return path


def base_url(text: str) -> str:
    """Parse an http or https URL, and remove trailing slashes."""
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or parts.username is not None or " " in url:
        raise ValueError("must be an http:// or https:// URL, such as http://127.0.0.1:61000")
    return url


@frozen
class ContentSettings:
    """The content server's settings; each attribute is an environment variable."""

    port: int = env("PORT", port_number, default=61002)
    bind_hosts: tuple[str, ...] = env("BIND_HOST", bind_hosts, default=("127.0.0.1",))
    allow_any_bind: bool = env("CONTENT_ALLOW_ANY_BIND", off_unless_1, default=False)
    metagame_url: str = env("METAGAME_URL", base_url, default="http://127.0.0.1:61000")
    gateway_secret: Secret | None = env("GATEWAY_SECRET", strong_secret, default=None)
    game_dir: Path = env("CONTENT_GAME_DIR", folder)
    manifest: Path | None = env("CONTENT_MANIFEST", not_a_folder, default=None)
    game_program: str = env("CONTENT_GAME_PROGRAM", game_path, default="")
    branding_dir: Path | None = env("CONTENT_BRANDING_DIR", folder, default=None)
    news_file: Path | None = env("CONTENT_NEWS_FILE", not_a_folder, default=None)
    launcher_dir: Path | None = env("CONTENT_LAUNCHER_DIR", folder, default=None)
    streams_per_account: int = env("CONTENT_MAX_STREAMS_PER_ACCOUNT", whole(1, 64), default=6)
    streams_total: int = env("CONTENT_MAX_STREAMS_TOTAL", whole(1, 1024), default=48)
    auth_cache_s: int = env("CONTENT_AUTH_CACHE_SECONDS", whole(0, 3600), default=300)
    metrics_port: int | None = env("METRICS_PORT", port_number, default=None)
    log_level: str = env("LOG_LEVEL", log_level, default="info", bad=Bad.WARN)

    @property
    def manifest_file(self) -> Path:
        """Return CONTENT_MANIFEST, or ``manifest.json`` beside the game folder."""
        return self.manifest or self.game_dir.absolute().parent / "manifest.json"


def check(settings: ContentSettings) -> None:
    """Check rules that span several settings; raises BadSetting."""
    for host in settings.bind_hosts:
        address = ipaddress.ip_address(host)
        inside = any(address in network for network in _PRIVATE_NETWORKS)
        if not (inside or settings.allow_any_bind):
            raise BadSetting(
                f"BIND_HOST {host} is not a loopback or private overlay address; "
                "make only the gateway public, or set CONTENT_ALLOW_ANY_BIND=1"
            )
