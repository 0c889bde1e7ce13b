"""Checks of the Valkey or Redis server at LIVE_URL.

The server must reply, have all commands that the host needs, and keep its data.
"""

from collections.abc import Iterator, Mapping

from svcserver.ctl.doctor.case import Case, Finding
from svcserver.ctl.doctor.machine import EngineFacts, EngineRefused

ENGINE = "live state"
OLDEST = (6, 2)  # the first version with GETEX
SAFE_EVICTION = ("noeviction", "volatile-ttl")
NEWS_BUFFER = 8 << 20  # bytes of unread messages that the server must buffer for a worker
SLIP_S = 2.0  # allowed difference between the server's clock and ours


def live_state(case: Case) -> Iterator[Finding]:
    """Check the Valkey or Redis server at LIVE_URL, if one is set."""
    if case.metagame is None or case.metagame.live_url.in_memory:
        return
    url, wall_clock = case.metagame.live_url, case.machine.wall_clock
    try:
        facts = case.machine.engine(url.address)
    except (OSError, EngineRefused) as why:
        reason = getattr(why, "strerror", None) or str(why)
        cure = "start it, or correct LIVE_URL in metagame.env"
        yield Finding(ENGINE, f"the live-state server ({url}) does not answer: {reason}", cure)
        return
    if facts.is_open:
        what = (
            f"the live-state server ({url}) accepts commands without a password: every program "
            "and user that reaches it can read the chat, act as players and stop the host"
        )
        cure = (
            "write requirepass PASSWORD into its configuration and restart it; then set "
            "valkey://:PASSWORD@HOST:PORT as LIVE_URL in metagame.env and gateway.env"
        )
        yield Finding(ENGINE, what, cure)
    yield from _version(facts.info)
    yield from _keeping(facts)
    slip = facts.seconds - wall_clock()
    if abs(slip) > SLIP_S:
        what = f"the clocks of the live-state server and this machine differ by {abs(slip):.0f} s"
        yield Finding(ENGINE, what, "set both clocks (timedatectl set-ntp true)")


def _version(info: Mapping[str, str]) -> Iterator[Finding]:
    version = info.get("valkey_version") or info.get("redis_version", "")
    parts = version.split(".")
    if not all(part.isdigit() for part in parts[:2]):
        yield Finding.note(ENGINE, "the live-state server hides its version", "use Valkey")
    elif tuple(map(int, parts[:2])) < OLDEST:
        what = f"the live-state server has version {version}, which lacks a command"
        yield Finding(ENGINE, what, "install Valkey, or Redis of 6.2 to 7.2")


def _keeping(facts: EngineFacts) -> Iterator[Finding]:
    info = facts.info
    if info.get("cluster_enabled") == "1":
        what = "the server is a cluster, but one transaction needs keys of several slots"
        yield Finding(ENGINE, what, "use a server without cluster mode (cluster-enabled no)")
    least = _least_buffer(facts.buffers or "")
    if least is not None and least < NEWS_BUFFER:
        what = f"the server drops subscribers with {least >> 20} MB unread: workers lose messages"
        cure = "set client-output-buffer-limit pubsub 32mb 8mb 60 in its configuration"
        yield Finding(ENGINE, what, cure)
    policy = info.get("maxmemory_policy", SAFE_EVICTION[0])
    if policy not in SAFE_EVICTION:
        what = f"the server's maxmemory-policy is {policy}: it can drop parties in use"
        yield Finding(ENGINE, what, "set maxmemory-policy noeviction in its configuration")
    for name, what in (("rdb_last_bgsave_status", "save"), ("aof_last_write_status", "append")):
        if info.get(name, "ok") != "ok":
            text = f"the server's last {what} to its disk failed: it may refuse every write"
            yield Finding(ENGINE, text, "see its log, and make room on its disk")
    if info.get("aof_enabled") == "0" and facts.save == "":
        what = "the server writes nothing to disk: its restart ends parties, queues and sign-ins"
        cure = "set save or appendonly yes in its configuration, if that matters to you"
        yield Finding.note(ENGINE, what, cure)


def _least_buffer(buffers: str) -> int | None:
    """Return the lower of a subscriber's two buffer limits, in bytes.

    Returns None if neither limit is set.
    """
    words = buffers.split()
    if "pubsub" not in words:
        return None
    limits = words[words.index("pubsub") + 1 :][:2]
    return min((int(limit) for limit in limits if limit.isdigit() and limit != "0"), default=None)
