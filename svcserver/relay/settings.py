"""The settings of ``svc-relay``. Spec: 2 §4 Launcher relay."""

import re

from attrs import frozen

from svcserver.edge import invite
from svcserver.edge.invite import BadInvite
from svcserver.kernel.digits import whole_in
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import Bad, BadSetting, env, log_level, secret, whole
from svcserver.relay.relaying import DEFAULT_PORT, Target

_HEX = re.compile(r"[0-9a-f]{64}\Z")


def own_port(text: str) -> int:
    """Read a port from 1024 to 65535, without leading zeros."""
    if text != str(whole_in(text, 5)):
        raise ValueError("must be a whole number from 1024 to 65535 without leading zeros")
    return int(whole(1024, 65535)(text))


def host(text: str) -> str:
    """Read an IPv4 address or a DNS name, in the form that an invite uses."""
    name = text.strip().lower()
    if not invite.is_host(name):
        raise ValueError("must be an IPv4 address or a DNS name, without scheme and port")
    return name


def fingerprint(text: str) -> str:
    """Read a certificate's SHA-256, which has 64 lowercase hex digits; raises ValueError."""
    if not _HEX.match(text.strip()):
        raise ValueError(
            "must have 64 characters: only digits and the lower-case letters a to f. To print the "
            "value, run: svcctl cert fingerprint"
        )
    return text.strip()


def milliseconds(text: str) -> float:
    """Read a time from 1000 to 60000 milliseconds; return seconds."""
    return float(whole(1000, 60_000)(text)) / 1000


@frozen
class RelaySettings:
    """The relay's settings; each attribute is an environment variable."""

    port: int = env("SVC_RELAY_PORT", own_port, default=DEFAULT_PORT, bad=Bad.WARN)
    invite: Secret | None = env("SVC_RELAY_INVITE", secret, default=None)
    host: str = env("SVC_RELAY_HOST", host, default="")
    gateway_port: int = env("SVC_RELAY_GATEWAY_PORT", whole(1, 65535), default=0)
    fingerprint: str = env("SVC_RELAY_FINGERPRINT", fingerprint, default="")
    connect_timeout_s: float = env("SVC_RELAY_CONNECT_TIMEOUT_MS", milliseconds, default=10.0)
    metrics_port: int | None = env("METRICS_PORT", whole(1, 65535), default=None)
    log_level: str = env("LOG_LEVEL", log_level, default="info", bad=Bad.WARN)


def target_of(settings: RelaySettings, argument: str | None) -> Target:
    """Return the target from the three override settings, or else from the invite.

    Raises BadSetting. ``argument`` is the invite from the command line. The invite contains a code,
    which is a secret and is not stored.
    """
    three = (settings.host, settings.gateway_port, settings.fingerprint)
    if any(three):
        if not all(three):
            raise BadSetting(
                "SVC_RELAY_HOST, SVC_RELAY_GATEWAY_PORT and SVC_RELAY_FINGERPRINT go together; "
                "set all three or none"
            )
        return Target(*three)
    text = argument or (settings.invite.reveal() if settings.invite is not None else "")
    if not text:
        raise BadSetting(
            "SVC_RELAY_INVITE is not set; give it an invite string or the path of an invite file"
        )
    try:
        parsed = invite.read_invite(text)
        if not parsed.public:
            raise BadInvite("private")
    except BadInvite as error:
        raise BadSetting(f"SVC_RELAY_INVITE is not usable ({error.code}): {error}") from None
    return Target(parsed.host, parsed.port, parsed.fingerprint, parsed.next_fingerprint)
