"""The settings of ``svc-metagame``, explained in docs/owners/configuration.md."""

import re
from collections.abc import Callable
from operator import attrgetter

from attrs import define, setters
from sqlalchemy.engine import URL

from svcserver.board.factory import IN_MEMORY, LiveUrl, live_url
from svcserver.db.engine import CONNECTIONS, DEFAULT_URL, database_url
from svcserver.http.crosssite import is_loopback
from svcserver.kernel.local_urls import Address, local_url, local_urls
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    Bad,
    BadSetting,
    Reader,
    comma_list,
    env,
    ip_address,
    ip_list,
    number,
    off_unless_1,
    on_unless_0,
    one_of,
    printable,
    secret,
    strong_secret,
    whole,
    zero_or_one,
)
from svcserver.kernel.settings import port as port_number
from svcserver.web.logs import level_word

DEFAULT_ENTITLEMENTS = ("season09b_premium", "season_premium_any", "season_free_any")


def cut_printable(longest: int) -> Reader:
    """Return a parser that trims a printable ASCII string and cuts it to ``longest`` characters."""

    def read(text: str) -> str:
        return str(printable(longest)(text.strip()[:longest]))

    return read


def commit(text: str) -> str:
    """Parse a commit name: 1 to 64 characters, which are letters, digits or ``._+-``."""
    if not re.fullmatch(r"[0-9A-Za-z._+-]{1,64}", text.strip()):
        raise ValueError("must be 1 to 64 letters, digits or . _ + -")
    return text.strip()


def on_unless_off(text: str) -> bool:
    """Parse PROGRESSION_CONFIRM; only ``off`` switches the feature off."""
    return text.strip().lower() != "off"


PASSPORT_PARTS = ("progress", "characters", "inventory", "currency", "loadouts")


def passport_parts(text: str) -> frozenset[str]:
    """Parse PASSPORT_TAKES, a list of names in ``PASSPORT_PARTS``; raises ValueError."""
    parts = frozenset(comma_list(text))
    if not parts <= frozenset(PASSPORT_PARTS):
        raise ValueError(f"may list only {', '.join(PASSPORT_PARTS)}, separated by commas")
    return parts


def cap(text: str) -> int:
    """Parse BODY_LOG_PER_PATH: at least 1, or 0 for no limit."""
    return int(whole(0)(text))


@define(on_setattr=setters.frozen)
class MetagameSettings:
    """The settings of the metagame, each read from an environment variable.

    Settings marked ``live`` may change while the metagame runs; only ``owner/settings`` assigns
    them.
    """

    port: int = env("PORT", port_number)
    shared_port: int | None = env("SHARED_PORT", port_number, default=None)
    bind_host: str = env("BIND_HOST", ip_address, default="127.0.0.1")
    node_env: str = env("NODE_ENV", str.strip, default="")
    auth_mode: str = env("AUTH_MODE", default="")
    signing_private_key: Secret = env("AUTH_SIGNING_PRIVKEY_B64", secret, empty_is_a_value=True)
    signing_public_key: str = env("AUTH_SIGNING_PUBKEY_B64")
    verify_keys: tuple[str, ...] = env("AUTH_VERIFY_KEYS_B64", comma_list, default=())
    registration_mode: str | None = env("REGISTRATION_MODE", default=None, live=True)
    database_url: URL = env("DATABASE_URL", database_url, default=database_url(DEFAULT_URL))
    database_connections: int = env("DATABASE_CONNECTIONS", whole(3, 100), default=CONNECTIONS)
    live_url: LiveUrl = env("LIVE_URL", live_url, default=LiveUrl(IN_MEMORY))
    metrics_port: int | None = env("METRICS_PORT", port_number, default=None)
    gateway_secret: Secret | None = env("GATEWAY_SECRET", secret, default=None)
    allowlist_secret: Secret | None = env("ALLOWLIST_SECRET", strong_secret, default=None)
    allowlist_url: Address = env("ALLOWLIST_URL", local_url, default=Address("127.0.0.1", 61005))
    allowlist_more: tuple[Address, ...] = env("ALLOWLIST_ADDITIONAL_URLS", local_urls, default=())
    gameserver_allow_from: tuple[str, ...] = env(
        "GAMESERVER_ALLOW_FROM", ip_list, default=(), live=True
    )
    fleet_port: int | None = env("FLEET_PORT", port_number, default=None)
    log_level: str = env("LOG_LEVEL", level_word, default="info", bad=Bad.WARN, live=True)
    log_requests: bool = env("LOG_REQUESTS", on_unless_0, default=True)
    log_bodies: bool = env("LOG_BODIES", off_unless_1, default=False)
    body_log_file: str = env("BODY_LOG_FILE", default="bodies.log")
    body_log_per_path: int = env("BODY_LOG_PER_PATH", cap, default=20, bad=Bad.WARN)
    verify_stub_account: bool = env("VERIFY_STUB_ACCOUNT", off_unless_1, default=False)
    backend_health: bool = env("BACKEND_HEALTH", off_unless_1, default=False)
    misc_routes: bool = env("MISC_ROUTES", on_unless_0, default=True)

    matchmaking_mode: str = env("MATCHMAKING_MODE", str.strip, default="")
    deployserver_url: str = env("DEPLOYSERVER_URL", str.strip, default="")
    qos_target_url: str = env("QOS_TARGET_URL", str.strip, default="")
    target_changelist: str = env("TARGET_CHANGELIST", str.strip, default="239827")
    matchmaking_cancel: bool = env("MATCHMAKING_CANCEL", off_unless_1, default=False)
    deploy_timeout_ms: int = env(
        "MATCHMAKING_DEPLOY_TIMEOUT_MS", whole(1000, 600000), default=30000, bad=Bad.WARN
    )
    launch_cooldown_s: float = env(
        "MATCHMAKING_LAUNCH_COOLDOWN_S", number(0, 300), default=60.0, bad=Bad.WARN, live=True
    )
    city_map: str = env("CITY_MAP", str.strip, default="")
    city_title: str = env("CITY_TITLE", printable(64), default="The City", bad=Bad.WARN)
    server_name: str = env("SERVER_NAME", cut_printable(64), default="Game Server", bad=Bad.WARN)
    server_version: str = env("SERVER_VERSION", printable(32), default="", bad=Bad.WARN)
    git_commit: str = env("GIT_COMMIT", commit, default="", bad=Bad.WARN)
    source_url: str = env("SOURCE_URL", printable(256), default="", bad=Bad.WARN)
    content_port: int | None = env("CONTENT_PORT", port_number, default=None, bad=Bad.WARN)
    status_extra: bool = env("STATUS_EXTRA", on_unless_0, default=True)

    progression_mode: str = env(
        "PROGRESSION_MODE",
        one_of("real", "stub", any_case=True),
        default="real",
        bad=Bad.WARN,
    )
    progression_real_accounts: tuple[str, ...] = env(
        "PROGRESSION_REAL_ACCOUNTS", comma_list, default=()
    )
    progression_config_dir: str | None = env("PROGRESSION_CONFIG_DIR", default=None)
    active_hunt_pass: str = env("ACTIVE_HUNT_PASS", str.strip, default="season09b")
    progression_grant_cap: int = env(
        "PROGRESSION_GRANT_CAP", whole(1), default=5000, bad=Bad.WARN, live=True
    )
    progression_replay_window_s: float = env(
        "PROGRESSION_REPLAY_WINDOW_S", number(0), default=5.0, bad=Bad.WARN, live=True
    )
    progression_confirm: bool = env("PROGRESSION_CONFIRM", on_unless_off, default=True)
    progression_confirm_entitlements: bool = env(
        "PROGRESSION_CONFIRM_ENTITLEMENTS", off_unless_1, default=False, live=True
    )
    progression_allow_delete: bool = env(
        "PROGRESSION_ALLOW_DELETE", off_unless_1, default=False, live=True
    )
    entitlements_default: tuple[str, ...] = env(
        "ENTITLEMENTS_DEFAULT", comma_list, default=DEFAULT_ENTITLEMENTS, empty_is_a_value=True
    )
    escalation_mode: str = env(
        "ESCALATION_MODE", one_of("stub", "real", any_case=True), default="stub", bad=Bad.WARN
    )
    escalation_strict: bool = env("ESCALATION_STRICT", off_unless_1, default=False)
    save_history_keep: int | None = env("SAVE_HISTORY_KEEP", whole(2), default=None, bad=Bad.WARN)
    save_history_hourly: int = env("SAVE_HISTORY_HOURLY", whole(0), default=48, bad=Bad.WARN)
    save_history_daily: int = env("SAVE_HISTORY_DAILY", whole(0), default=30, bad=Bad.WARN)
    inventory_max_items: int = env(
        "INVENTORY_MAX_ITEMS", whole(1), default=20_000, bad=Bad.WARN, live=True
    )
    inventory_max_bytes: int = env(
        "INVENTORY_MAX_BYTES", whole(1), default=8_388_608, bad=Bad.WARN, live=True
    )
    item_log_max_bytes: int = env(
        "ITEM_LOG_MAX_BYTES", whole(1), default=67_108_864, bad=Bad.WARN, live=True
    )
    character_max_bytes: int = env("CHARACTER_MAX_BYTES", whole(2), default=524_288, bad=Bad.WARN)
    loadout_max_bytes: int = env("LOADOUT_MAX_BYTES", whole(2), default=65_536, bad=Bad.WARN)
    breadcrumbs_max_bytes: int = env(
        "BREADCRUMBS_MAX_BYTES", whole(2), default=262_144, bad=Bad.WARN
    )
    bounties_max_bytes: int = env("BOUNTIES_MAX_BYTES", whole(2), default=262_144, bad=Bad.WARN)
    achievements_max: int = env("ACHIEVEMENTS_MAX", whole(1), default=10_000, bad=Bad.WARN)
    passport_takes: frozenset[str] = env(
        "PASSPORT_TAKES",
        passport_parts,
        default=frozenset(PASSPORT_PARTS),
        empty_is_a_value=True,
    )
    account_bytes_a_day: int = env(
        "ACCOUNT_BYTES_A_DAY", whole(0), default=268_435_456, bad=Bad.WARN, live=True
    )
    disk_reserve_mb: int = env("DISK_RESERVE_MB", whole(0), default=256, bad=Bad.WARN)
    inventory_refuse_overspend: bool = env(
        "INVENTORY_REFUSE_OVERSPEND", off_unless_1, default=False, live=True
    )
    inventory_report_removals: bool = env(
        "INVENTORY_REPORT_REMOVALS", on_unless_0, default=True, live=True
    )
    balance_from_inventory: bool = env("BALANCE_FROM_INVENTORY", on_unless_0, default=True)
    store: str = env("STORE", one_of("off", "free", any_case=True), default="off", bad=Bad.WARN)
    store_repeatable_tokens: bool = env("STORE_REPEATABLE_TOKENS", off_unless_1, default=False)

    account_display_name: bool = env("ACCOUNT_DISPLAY_NAME", on_unless_0, default=True, live=True)
    account_mapping: bool = env("ACCOUNT_MAPPING", on_unless_0, default=True, live=True)
    accountinfo_public_legacy: bool = env(
        "ACCOUNTINFO_PUBLIC_LEGACY", off_unless_1, default=False, live=True
    )
    guilds: bool = env("GUILDS", on_unless_0, default=True)
    guild_reserved_names: bool = env("GUILD_RESERVED_NAMES", on_unless_0, default=True, live=True)
    guild_create_activity_fallback: bool = env(
        "GUILD_CREATE_ACTIVITY_FALLBACK", off_unless_1, default=False
    )
    guild_max_members: int = env(
        "GUILD_MAX_MEMBERS", whole(1, 10000), default=100, bad=Bad.WARN, live=True
    )
    guild_invite_ttl_days: float = env(
        "GUILD_INVITE_TTL_DAYS", number(0, 365, above=True), default=7.0, bad=Bad.WARN, live=True
    )
    guild_name_denylist: tuple[str, ...] = env(
        "GUILD_NAME_DENYLIST", comma_list, default=(), live=True
    )
    slayer_links: bool = env("SLAYER_LINKS", on_unless_0, default=True)
    party_solo_stub: bool = env("PARTY_SOLO_STUB", on_unless_0, default=True, live=True)
    chat: bool = env("CHAT", zero_or_one(), default=False, bad=Bad.WARN)
    chat_presence: bool = env("CHAT_PRESENCE", off_unless_1, default=False)

    @property
    def production(self) -> bool:
        """Return whether NODE_ENV=production: logs are then JSON, and errors show no traceback."""
        return self.node_env == "production"

    @property
    def login(self) -> str:
        """Return ``APIKEY``, ``NONE`` (login without a key) or "" (no login). Spec: 1 §5."""
        if self.auth_mode == "APIKEY" or (self.auth_mode == "NONE" and not self.production):
            return self.auth_mode
        return ""

    @property
    def matchmaking(self) -> bool:
        """Return whether MATCHMAKING_MODE lets players join hunts."""
        return self.matchmaking_mode not in ("", "DISABLED")

    def real_progression(self, account_id: str) -> bool:
        """Return whether the account has its own progression, not the fixed one. Spec: 1 §4."""
        return self.progression_mode == "real" or account_id in self.progression_real_accounts


MISC_ROUTES: Callable[[MetagameSettings], bool] = attrgetter("misc_routes")
"""The ``when=`` of all routes that MISC_ROUTES=0 switches off."""


def check(settings: MetagameSettings) -> list[str]:
    """Check that the settings fit together; return warnings or raise BadSetting. Spec: 1 §5.8."""
    warnings = []
    if settings.login == "" and settings.gateway_secret is None:
        warnings.append("AUTH_MODE is not APIKEY: No login method configured! set AUTH_MODE=APIKEY")
    if settings.matchmaking and not settings.qos_target_url:
        warnings.append("QOS_TARGET_URL is not set; the region list is empty")
    if settings.chat_presence and not settings.chat:
        warnings.append("CHAT_PRESENCE has no effect without CHAT=1")
    if settings.gateway_secret is not None:
        warnings += _check_public(settings, len(settings.gateway_secret))
    return warnings


def _check_public(settings: MetagameSettings, secret_length: int) -> list[str]:
    if settings.auth_mode != "APIKEY":
        raise BadSetting("AUTH_MODE must be APIKEY when GATEWAY_SECRET is set (public mode)")
    warnings = []
    if secret_length < 16:
        warnings.append("GATEWAY_SECRET is shorter than 16 characters; use 32 or more")
    if not is_loopback(settings.bind_host):
        warnings.append(
            "BIND_HOST is not loopback: clients can reach the metagame without the gateway"
        )
    if not settings.production:
        warnings.append("NODE_ENV is not production: error pages show tracebacks")
    if not re.fullmatch(r"http://127\.0\.0\.1:\d{1,5}/QoS", settings.qos_target_url):
        warnings.append("QOS_TARGET_URL is not http://127.0.0.1:<port>/QoS, the players' relay")
    return warnings
