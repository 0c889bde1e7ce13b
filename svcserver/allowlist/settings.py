"""The settings of ``svc-allowlist``, explained in docs/owners/configuration.md."""

import ntpath
import posixpath

from attrs import frozen

from svcserver.allowlist.firewall import Paths
from svcserver.allowlist.scripts import NftSet, PortRange
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    Bad,
    env,
    log_level,
    off_unless_1,
    one_of,
    strong_secret,
    whole,
    zero_or_one,
)
from svcserver.kernel.settings import port as port_number

BACKENDS = ("auto", "nftables", "iptables", "netsh", "none")


dry_run = zero_or_one("must be 0 (change the firewall) or 1 (only log what would be done)")


def absolute(text: str) -> str:
    """Parse the absolute path of a program."""
    path = text.strip()
    if not (posixpath.isabs(path) or ntpath.isabs(path)) or "\0" in path:
        raise ValueError("must be an absolute path")
    return path


@frozen
class AllowlistSettings:
    """The allowlist helper's settings; each attribute is an environment variable."""

    dry_run: bool = env("ALLOWLIST_DRY_RUN", dry_run)
    bind_host: str = env("ALLOWLIST_BIND", one_of("127.0.0.1", "::1"), default="127.0.0.1")
    port: int = env("ALLOWLIST_PORT", port_number, default=61005)
    secret: Secret = env("ALLOWLIST_SECRET", strong_secret)
    ports: PortRange = env("ALLOWLIST_PORTS", PortRange.parse, default=PortRange(8770, 8777))
    ttl_s: int = env("ALLOWLIST_TTL_SECONDS", whole(1, 86400), default=600)
    min_interval_ms: int = env("ALLOWLIST_MIN_INTERVAL_MS", whole(50, 600000), default=3000)
    max_entries: int = env("ALLOWLIST_MAX_ENTRIES", whole(1, 1000), default=256)
    audit_log: str = env("ALLOWLIST_AUDIT_LOG", str.strip, default="allowlist-audit.log")
    state_file: str = env("ALLOWLIST_STATE_FILE", str.strip, default="allowlist-state.json")
    allow_private: bool = env("ALLOWLIST_ALLOW_PRIVATE", off_unless_1, default=False)
    backend: str = env("ALLOWLIST_BACKEND", one_of(*BACKENDS), default="auto")
    nft: str | None = env("ALLOWLIST_NFT", absolute, default=None)
    iptables: str | None = env("ALLOWLIST_IPTABLES", absolute, default=None)
    ipset: str | None = env("ALLOWLIST_IPSET", absolute, default=None)
    powershell: str | None = env("ALLOWLIST_POWERSHELL", absolute, default=None)
    nft_set: NftSet | None = env("ALLOWLIST_NFT_SET", NftSet.parse, default=None)
    metrics_port: int | None = env("METRICS_PORT", port_number, default=None)
    log_level: str = env("LOG_LEVEL", log_level, default="info", bad=Bad.WARN)

    @property
    def paths(self) -> Paths:
        """Return the paths of the firewall programs."""
        return Paths(self.nft, self.iptables, self.ipset, self.powershell)
