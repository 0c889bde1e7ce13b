"""Checks that the components' settings agree with each other and suit the machine."""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from attrs import frozen

from svcserver.ctl.blueprint import CITY_MAP, is_private
from svcserver.ctl.doctor.case import Case, Finding
from svcserver.kernel.digits import whole_in
from svcserver.kernel.secrets import Secret
from svcserver.metagame.access.keys import MAX_FURTHER, BadKey, load_private, load_public


def secrets(case: Case) -> Iterator[Finding]:
    """Check that components that share a secret have the same value for the secret."""
    for name, service in (("metagame", case.metagame), ("content", case.content)):
        if service is not None and case.gateway is not None:
            ours, right = service.gateway_secret, case.gateway.secret
            yield from _secret("GATEWAY_SECRET", name, ours, "gateway", right)
    if case.allowlist is None:
        return
    right = case.allowlist.secret
    if case.gateway_allowlist is not None:
        yield from _secret(
            "ALLOWLIST_SECRET", "gateway", case.gateway_allowlist.secret, "allowlist", right
        )
    if case.metagame is not None and case.gateway is not None:
        yield from _withdrawing(case.metagame.allowlist_secret, right)


def _withdrawing(ours: Secret | None, right: Secret) -> Iterator[Finding]:
    if ours is not None:
        yield from _secret("ALLOWLIST_SECRET", "metagame", ours, "allowlist", right)
        return
    yield Finding.note(
        "metagame",
        "ALLOWLIST_SECRET is not set: a ban leaves the game ports open for a hunt that runs",
        "copy ALLOWLIST_SECRET from allowlist.env, and ALLOWLIST_URL from gateway.env",
    )


def _secret(
    name: str, component: str, value: Secret | None, source: str, expected: Secret
) -> Iterator[Finding]:
    if value is None:
        yield Finding(component, f"{name} is not set", f"copy it there from {source}.env")
    elif not value.matches(expected.reveal()):
        yield Finding(
            component,
            f"{name} differs from that in {source}.env",
            f"put the same value in {component}.env and {source}.env",
        )


def figures(case: Case) -> Iterator[Finding]:
    """Check that the metagame collects metrics, because alerts need them to report errors."""
    if case.metagame is not None and not case.metagame.backend_health:
        what = "BACKEND_HEALTH is off: there are no metrics, and no alerts about failing requests"
        yield Finding.note("metagame", what, "set BACKEND_HEALTH=1 in metagame.env")


def signing_keys(case: Case) -> Iterator[Finding]:
    """Check that the signing keys form a pair, and that the additional keys are readable."""
    if case.metagame is None:
        return
    cure = "put both keys of one pair in metagame.env (svcctl init makes a pair in a new folder)"
    words = case.metagame.signing_private_key.reveal(), case.metagame.signing_public_key
    try:
        private = load_private(words[0])
    except BadKey:
        fault = "is not an RSA key in PEM form, encoded as base64"
        what = f"AUTH_SIGNING_PRIVKEY_B64 {fault}: nobody can log in"
        yield Finding("metagame", what, f"restore it from a backup of the host, or {cure}")
        return
    try:
        public = load_public(words[1])
    except BadKey:
        fault = "is not an RSA key in PEM form, encoded as base64"
        what = f"AUTH_SIGNING_PUBKEY_B64 {fault}: no token is accepted"
        yield Finding("metagame", what, cure)
        return
    if private.public_key().public_numbers() != public.public_numbers():
        what = "AUTH_SIGNING_PRIVKEY_B64 and AUTH_SIGNING_PUBKEY_B64 are not a pair"
        yield Finding("metagame", what + ": no token is accepted", cure)
    for number, text in enumerate(case.metagame.verify_keys, start=1):
        if number > MAX_FURTHER or not _is_public_key(text):
            what = f"AUTH_VERIFY_KEYS_B64: key {number} is not used"
            yield Finding(
                "metagame",
                what
                + (": there are too many" if number > MAX_FURTHER else ": it is not a PEM key"),
                "remove it from the list",
            )


def _is_public_key(text: str) -> bool:
    try:
        load_public(text)
    except BadKey:
        return False
    return True


def shielding(case: Case) -> Iterator[Finding]:
    """Check that a metagame without a gateway listens on loopback or an overlay network."""
    if case.metagame is None or case.gateway is not None or case.file("gateway").is_file():
        return
    host = case.metagame.bind_host
    if not is_private(host) and not _here(host):
        yield Finding(
            "metagame",
            f"BIND_HOST is {host} and there is no gateway: the metagame is open to everybody",
            "set BIND_HOST to this machine's overlay address, or make a public host",
        )


def _launch_keys(case: Case) -> Iterator[Finding]:
    """Check that each launch gets a key of its own, and that the metagame can check these keys."""
    if case.deploy is None or case.metagame is None:
        return
    if not case.deploy.launch_keys:
        yield Finding.note(
            "deploy",
            "game servers share one key, which the machine's process list shows",
            "GAMESERVER_LAUNCH_KEYS=1 gives each launch its own key",
        )
    elif not case.metagame.deployserver_url:
        yield Finding(
            "metagame",
            "DEPLOYSERVER_URL is not set, and GAMESERVER_LAUNCH_KEYS=1 in deploy.env:"
            " no game server's key can be checked",
            "set DEPLOYSERVER_URL to an address like 127.0.0.1:61001, or"
            " GAMESERVER_LAUNCH_KEYS to 0",
        )


@frozen
class Pointer:
    """A setting that contains the address of another component of this host."""

    component: str
    variable: str
    host: str
    port: int
    target: str
    right: int | None  # the target's port; None if the target is not on this host


def upstreams(case: Case) -> Iterator[Finding]:
    """Check that settings with the address of another component have the right port."""
    for pointer in _pointers(case):
        if pointer.right is not None and pointer.port != pointer.right and _here(pointer.host):
            yield Finding(
                pointer.component,
                f"{pointer.variable} leads to port {pointer.port}, but the {pointer.target} is on "
                f"{pointer.right}",
                f"set the port to {pointer.right} in {pointer.component}.env",
            )
    yield from _launch_keys(case)
    deploy = case.metagame.deployserver_url if case.metagame is not None else ""
    if case.metagame is not None and case.metagame.matchmaking and _host_and_port(deploy) is None:
        yield Finding(
            "metagame",
            "DEPLOYSERVER_URL is not host:port: no hunt or city starts",
            "set it to an address like 127.0.0.1:61001, without http://",
        )


def _pointers(case: Case) -> Iterator[Pointer]:
    metagame = case.metagame.port if case.metagame else None
    content = case.content.port if case.content else None
    chat = case.chat.port if case.chat else None
    if case.gateway is not None:
        for variable, these, name, right in (
            ("GATEWAY_METAGAME_URL", case.gateway.metagame, "metagame", metagame),
            ("GATEWAY_CONTENT_URL", case.gateway.content, "content", content),
            ("GATEWAY_WS_URL", case.gateway.chat, "chat", chat),
        ):
            if len(these) == 1:  # each of several workers has its own port
                yield Pointer("gateway", variable, these[0].host, these[0].port, name, right)
    if case.gateway_allowlist is not None and case.allowlist is not None:
        to = case.gateway_allowlist.url
        right = case.allowlist.port
        yield Pointer("gateway", "ALLOWLIST_URL", to.host, to.port, "allowlist", right)
    if case.metagame is not None and case.metagame.allowlist_secret is not None:
        to, right = case.metagame.allowlist_url, case.allowlist.port if case.allowlist else None
        yield Pointer("metagame", "ALLOWLIST_URL", to.host, to.port, "allowlist", right)
    if case.content is not None:
        url = urlsplit(case.content.metagame_url)
        port = url.port or (443 if url.scheme == "https" else 80)
        yield Pointer("content", "METAGAME_URL", url.hostname or "", port, "metagame", metagame)
    deploy = _host_and_port(case.metagame.deployserver_url) if case.metagame else None
    if deploy is not None:
        right_port = case.deploy.port if case.deploy else None
        yield Pointer("metagame", "DEPLOYSERVER_URL", *deploy, "deploy", right_port)


def _host_and_port(text: str) -> tuple[str, int] | None:
    host, colon, port = text.rpartition(":")
    number = whole_in(port, 5)
    if not (host and colon) or number is None or "/" in host:
        return None
    return host, number


def _here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def games(case: Case) -> Iterator[Finding]:
    """Check the city map, the public address and the game ports."""
    if case.deploy is not None:
        yield from _city(case)
        if case.deploy.my_ip and _here(case.deploy.my_ip):
            what = f"MY_IP is {case.deploy.my_ip}: only this machine can play"
            yield Finding.note("deploy", what, "set MY_IP", stops_play=True)
    yield from _ways_in(case)
    if case.deploy is None or case.allowlist is None or not case.deploy.has_ports:
        return
    first, last = case.deploy.first_port, case.deploy.last_port
    open_ports = case.allowlist.ports
    if not open_ports.low <= first <= last <= open_ports.high:
        yield Finding(
            "allowlist",
            f"ALLOWLIST_PORTS is {open_ports}, but game servers use {first}-{last}",
            f"set ALLOWLIST_PORTS={first}-{last} in allowlist.env",
        )


def _ways_in(case: Case) -> Iterator[Finding]:
    """Check that the gateway's public host name resolves to MY_IP."""
    public = case.relay.host if case.relay is not None else ""
    if case.gateway is None or not public or _here(public):
        return
    if _here(case.gateway.bind):
        what = f"GATEWAY_BIND is {case.gateway.bind}: only this machine reaches the gateway"
        yield Finding("gateway", what, "set GATEWAY_BIND=0.0.0.0 in gateway.env")
    addresses = case.machine.addresses(public)
    if not addresses:
        what = f"{public}, which players connect to, has no IPv4 address"
        cure = "correct its DNS entry, or SVC_RELAY_HOST in relay.env"
        yield Finding.note("relay", what, cure, stops_play=True)
    elif all(map(_here, addresses)):  # Debian's /etc/hosts maps a machine's own name to 127.0.1.1
        return
    elif case.deploy is not None and case.deploy.my_ip and case.deploy.my_ip not in addresses:
        what = f"MY_IP is {case.deploy.my_ip}, but {public} has the address {min(addresses)}"
        cure = "set MY_IP in deploy.env to the address at which games reach this machine"
        yield Finding.note("deploy", what, cure)


def _city(case: Case) -> Iterator[Finding]:
    if case.deploy is None:
        return
    if case.metagame is not None and case.metagame.city_map != case.deploy.city_map:
        what = "CITY_MAP differs from that in deploy.env: nobody can enter the city"
        yield Finding("metagame", what, "put the same map in metagame.env and deploy.env")
    if case.deploy.city_map == CITY_MAP:
        what = f"CITY_MAP is still the placeholder {CITY_MAP}"
        cure = "put your game's city in deploy.env and metagame.env"
        yield Finding.note("deploy", what, cure, stops_play=True)
