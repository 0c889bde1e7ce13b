"""Checks that query each component of a host directly, to find which component is broken."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool

from svcserver.ctl.host import Host
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.wire import HttpWire
from svcserver.edge.certificate import BadCertificate, fingerprint
from svcserver.kernel.digits import whole_in
from svcserver.kernel.settings import off_unless_1, on_unless_0
from svcserver.relay.checking import verdict
from svcserver.relay.relaying import Target

TLS_S = 5.0
REPORT_S = 5.0  # the gateway reports players' addresses in the background
SHARED = (
    ("GATEWAY_SECRET", "gateway", "metagame"),
    ("ALLOWLIST_SECRET", "gateway", "allowlist"),
    ("CITY_MAP", "deploy", "metagame"),
)
SWITCHES = {
    "chat": ("chat", "CHAT=1"),
    "store": ("store", "STORE=free"),
    "guild": ("guilds", "GUILDS=1"),
    "links": ("slayer links", "SLAYER_LINKS=1"),
    "balance": ("balance", "BALANCE_FROM_INVENTORY=1"),
    "progression": ("progression", "PROGRESSION_MODE=real"),
}
MATCH = "/api/matchmaker/handle-matchmaking-for-player"
GAME_SERVER_KEY = "x-svc-gameserver-apikey"


@frozen
class Chain:
    """The components of a host on this machine, with addresses from the host's folder."""

    host: Host
    metagame: str
    deploy: str
    content: str
    allowlist: str
    gateway: Target
    game_server_key: str = field(repr=False)
    program: str
    allowlist_secret: str = field(repr=False)
    game_folder: Path
    city_map: str
    features: frozenset[str]
    ports: frozenset[int]  # TCP, of the host's own components

    @classmethod
    def from_host_settings(cls, host: Host) -> Chain:
        metagame, deploy = host.variables("metagame"), host.variables("deploy")
        gateway, allowlist = host.variables("gateway"), host.variables("allowlist")
        certificate = host.path(gateway.get("GATEWAY_CERT", ""))
        try:
            pinned = fingerprint(certificate.read_bytes())
        except (OSError, BadCertificate):
            raise PlayFailed("gateway", f"the certificate {certificate} cannot be read") from None
        content = host.variables("content")
        ports = {
            "metagame": _port(metagame, "PORT", 61000),
            "deploy": _port(deploy, "PORT", 61001),
            "content": _port(content, "PORT", 61002),
            "allowlist": _port(allowlist, "ALLOWLIST_PORT", 61005),
            "gateway": _port(gateway, "GATEWAY_PORT", 443),
            "chat": _port(metagame, "CHAT_PORT", 61099),
        }
        return cls(
            host,
            f"http://127.0.0.1:{ports['metagame']}",
            f"http://127.0.0.1:{ports['deploy']}",
            f"http://127.0.0.1:{ports['content']}",
            f"http://127.0.0.1:{ports['allowlist']}",
            Target("127.0.0.1", ports["gateway"], pinned),
            deploy.get("METAGAME_API_KEY", ""),
            deploy.get("GAMESERVER_BINARY_PATH", ""),
            allowlist.get("ALLOWLIST_SECRET", ""),
            host.path(content.get("CONTENT_GAME_DIR", "")),
            metagame.get("CITY_MAP", ""),
            _features(metagame),
            frozenset(ports.values()),
        )

    async def check_components(self, reactor: Any) -> None:
        """Check each component; raises PlayFailed for the first one that fails."""
        for name, component, source in SHARED:
            if self.host.variables(component).get(name) != self.host.variables(source).get(name):
                raise PlayFailed(
                    component, f"{name} differs between {component}.env and {source}.env"
                )
        metagame = HttpWire(reactor, self.metagame)
        deploy = HttpWire(reactor, self.deploy, link="deploy")
        content = HttpWire(reactor, self.content, link="content")
        allowlist = HttpWire(reactor, self.allowlist, link="allowlist")
        try:
            await metagame.send_request("GET", "/svc-status")
            await self._key(metagame)
            self._program()
            await deploy.send_request("GET", "/gameservers")
            await self._room(deploy)
            await content.send_request("GET", "/content/v1/manifest")
            secret = {"x-allowlist-secret": self.allowlist_secret}
            await allowlist.send_request("GET", "/status", headers=secret)
            await self._gateway(reactor)
        finally:
            for wire in (metagame, deploy, content, allowlist):
                await wire.close()

    def demand_all(self) -> None:
        """Raise PlayFailed if a setting turns off an optional feature."""
        for name, (link, cure) in SWITCHES.items():
            if name not in self.features:
                raise PlayFailed(link, f"is off; {cure} in metagame.env turns it on")

    async def let_in(self, reactor: Any, addresses: Sequence[str]) -> bool:
        """Wait until the allowlist has admitted each address; raises PlayFailed after ``REPORT_S``.

        Simulated players connect from loopback addresses. Without ALLOWLIST_ALLOW_PRIVATE=1, the
        allowlist refuses these addresses, and the result is False.
        """
        if not off_unless_1(self.host.variables("allowlist").get("ALLOWLIST_ALLOW_PRIVATE", "")):
            return False
        wire = HttpWire(reactor, self.allowlist, link="allowlist")
        secret = {"x-allowlist-secret": self.allowlist_secret}
        deadline = reactor.seconds() + REPORT_S
        try:
            while True:
                entries = (await wire.send_request("GET", "/status", headers=secret)).json[
                    "entries"
                ]
                missing = set(addresses) - {entry["ip"] for entry in entries}
                if not missing:
                    return True
                if reactor.seconds() > deadline:
                    fault = f"the gateway did not report the player at {min(missing)}"
                    raise PlayFailed("allowlist", fault)
                await deferLater(reactor, 0.1)
        finally:
            await wire.close()

    async def _key(self, metagame: HttpWire) -> None:
        """Check the game-server key with a request that gets 401 only if the key is unknown."""
        reply = await metagame.send_request(
            "GET", "/character", headers={GAME_SERVER_KEY: self.game_server_key}, want=()
        )
        if reply.status == 401:
            raise PlayFailed(
                "game-server key",
                "the metagame does not know METAGAME_API_KEY of deploy.env; "
                "register it with svcctl gameserver-key add",
            )

    async def _room(self, deploy: HttpWire) -> None:
        """Ask the deploy server for a city, as the metagame does.

        Raises PlayFailed if there is too little memory for a city.
        """
        request = {"GameMode": "CITY", "GameArgs": "", "HuntId": "", "ExpectedPlayers": []}
        try:
            reply = await deploy.send_request("POST", MATCH, request, want=())
        except PlayFailed:
            return  # a slow reply is no refusal; the players' requests will show the fault
        if reply.status == 503:
            raise PlayFailed(
                "deploy",
                "has too little memory for a game server; lower GAMESERVER_MIN_FREE_MB and "
                "GAMESERVER_STARTUP_MB in deploy.env, or free some memory",
            )

    def _program(self) -> None:
        if not self.program:
            raise PlayFailed("game server", "GAMESERVER_BINARY_PATH of deploy.env is not set")
        if not os.path.isfile(self.program) or not os.access(self.program, os.X_OK):
            raise PlayFailed(
                "game server", f"the program {self.program} is missing or not executable"
            )

    async def _gateway(self, reactor: Any) -> None:
        good, fault = await deferToThreadPool(
            reactor, reactor.getThreadPool(), verdict, self.gateway, TLS_S
        )
        if not good:
            raise PlayFailed("gateway", fault)


def _features(metagame: dict[str, str]) -> frozenset[str]:
    """Return the optional features that are enabled."""
    switches = {
        "chat": off_unless_1(metagame.get("CHAT", "")) and find_spec("svcserver.chat.adapter"),
        "store": metagame.get("STORE", "").strip().lower() == "free",
        "guild": on_unless_0(metagame.get("GUILDS", "")),
        "links": on_unless_0(metagame.get("SLAYER_LINKS", "")),
        "balance": on_unless_0(metagame.get("BALANCE_FROM_INVENTORY", "")),
        "progression": metagame.get("PROGRESSION_MODE", "").strip().lower() != "stub",
        "content": True,
    }
    return frozenset(name for name, on in switches.items() if on)


def _port(variables: dict[str, str], name: str, default: int) -> int:
    return whole_in(variables.get(name, "").strip(), 5) or default
