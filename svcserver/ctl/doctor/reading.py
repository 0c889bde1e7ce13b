"""Checks that read each component's settings in the same way as the component does."""

import difflib
from collections.abc import Iterator
from contextlib import chdir
from typing import TypeVar

from svcserver.allowlist.settings import AllowlistSettings
from svcserver.chat.settings import ChatSettings
from svcserver.chat.settings import check as check_chat
from svcserver.content.settings import ContentSettings
from svcserver.content.settings import check as check_content
from svcserver.ctl.doctor.case import Case, Finding
from svcserver.ctl.output import Failed
from svcserver.deploy.settings import DeploySettings, numbers
from svcserver.deploy.settings import check as check_deploy
from svcserver.gateway.settings import AllowlistClientSettings, GatewaySettings
from svcserver.kernel.datafiles import BadData
from svcserver.kernel.settings import BadSetting, load, variables
from svcserver.metagame.achievements.progression import config
from svcserver.metagame.settings import MetagameSettings
from svcserver.metagame.settings import check as check_metagame
from svcserver.relay.settings import RelaySettings, target_of
from svcserver.stack.components import ORDER

S = TypeVar("S")

SHAPES: dict[str, tuple[type, ...]] = {
    "metagame": (MetagameSettings, ChatSettings),
    "deploy": (DeploySettings,),
    "content": (ContentSettings,),
    "allowlist": (AllowlistSettings,),
    "gateway": (GatewaySettings, AllowlistClientSettings),
    "relay": (RelaySettings,),
}
PUBLIC = ("allowlist", "gateway", "relay")  # components that only a public host has
ALIKE = 0.8  # minimum similarity to a known name (0 to 1) for a typing error


def settings(case: Case) -> Iterator[Finding]:
    """Load all settings into ``case``; find bad values, unknown names and missing files."""
    for name in ORDER:
        if not case.file(name).is_file():
            if name in PUBLIC and _is_private(case):
                continue
            yield Finding.note(
                name,
                f"there is no {name}.env",
                "this is fine if another host runs this service, or nobody needs the service",
            )
            continue
        try:
            case.variables[name] = case.host.variables(name)
        except Failed as why:
            yield Finding.from_message(name, why.message, "correct the file")
            continue
        yield from _unknown(case, name)
    with chdir(case.folder):  # the working directory of the services
        yield from _metagame(case)
        yield from _deploy(case)
        yield from _content(case)
        yield from _edges(case)


def _unknown(case: Case, name: str) -> Iterator[Finding]:
    """Find unknown setting names that resemble a known name."""
    known = {variable for shape in SHAPES[name] for variable in variables(shape)}
    for word in sorted(set(case.variables[name]) - known):
        near = difflib.get_close_matches(word, known, 1, ALIKE)
        if near:
            yield Finding(name, f"{word} is not a setting", f"write {near[0]} in {case.file(name)}")


def _read(case: Case, name: str, shape: type[S]) -> Iterator[Finding]:
    """Load a component's settings into ``case``; find the component's warnings and errors."""
    if name not in case.variables:
        return
    correct = f"correct it in {case.file(name)}"
    place = {ChatSettings: "chat", AllowlistClientSettings: "gateway_allowlist"}.get(shape, name)
    try:
        loaded, warnings = load(shape, case.variables[name])
    except BadSetting as why:
        yield Finding.from_message(name, str(why), correct)
        return
    setattr(case, place, loaded)
    for line in warnings:
        yield Finding(name, line.partition(";")[0], correct)


def _metagame(case: Case) -> Iterator[Finding]:
    correct = f"correct it in {case.file('metagame')}"
    yield from _read(case, "metagame", MetagameSettings)
    loaded = case.metagame
    if loaded is None:
        return
    try:
        for line in check_metagame(loaded):
            yield Finding.from_message("metagame", line, correct)
    except BadSetting as why:
        yield Finding.from_message("metagame", str(why), correct)
    if loaded.gateway_secret is None and not loaded.production:
        yield _development("metagame")
    try:
        config.load(loaded.progression_config_dir, loaded.active_hunt_pass)
    except BadData as why:
        yield Finding.from_message("metagame", str(why), correct)
    yield from _chat(case)


def _chat(case: Case) -> Iterator[Finding]:
    if case.metagame is None or not case.metagame.chat:
        return
    mine = [finding for finding in _read(case, "metagame", ChatSettings) if "CHAT" in finding.what]
    yield from (finding for finding in mine if not finding.what.startswith("CHAT "))
    if case.chat is None:
        return
    try:
        check_chat(case.chat)
    except BadSetting as why:
        yield Finding("metagame", str(why), "correct it in metagame.env; the chat does not start")


def _deploy(case: Case) -> Iterator[Finding]:
    correct = f"correct it in {case.file('deploy')}"
    yield from _read(case, "deploy", DeploySettings)
    loaded = case.deploy
    if loaded is None:
        return
    for line in check_deploy(loaded):
        what, _, harm = line.partition("; ")
        yield Finding("deploy", f"{what}: {harm}", correct)
    if not loaded.production:
        yield _development("deploy")
    figures = {
        "GAMESERVER_MIN_FREE_MB": loaded.min_free_mb,
        "GAMESERVER_STARTUP_MB": loaded.startup_mb,
        "GAMESERVER_HUNT_STARTUP_MB": loaded.hunt_startup_mb or "1",
        "GAMESERVER_RESERVATION_SECONDS": loaded.reservation_seconds,
    }
    for name, text in figures.items():
        try:
            numbers(text)
        except ValueError as why:
            yield Finding("deploy", f"{name} {why}: every launch fails", correct)


def _content(case: Case) -> Iterator[Finding]:
    yield from _read(case, "content", ContentSettings)
    if case.content is None:
        return
    try:
        check_content(case.content)
    except BadSetting as why:
        yield Finding.from_message("content", str(why), "correct it in content.env")


def _edges(case: Case) -> Iterator[Finding]:
    yield from _read(case, "gateway", GatewaySettings)
    if case.gateway is not None and case.gateway.allowlist:
        yield from _read(case, "gateway", AllowlistClientSettings)
    elif case.gateway is not None:
        yield Finding.note(
            "gateway",
            "GATEWAY_ALLOWLIST is 0: no game port is opened for any player",
            "set it to 1",
            stops_play=True,
        )
    yield from _read(case, "allowlist", AllowlistSettings)
    yield from _read(case, "relay", RelaySettings)
    if case.relay is None:
        return
    try:
        target_of(case.relay, None)
    except BadSetting as why:
        yield Finding.from_message("relay", str(why), "correct it in relay.env")


def _is_private(case: Case) -> bool:
    """Return whether the host needs no gateway.

    Such a host has no GATEWAY_SECRET, and no env file for a component that only public hosts use.
    """
    secret = case.variables.get("metagame", {}).get("GATEWAY_SECRET")
    return not secret and not any(case.file(name).is_file() for name in PUBLIC)


def _development(name: str) -> Finding:
    return Finding(
        name,
        "NODE_ENV is not production: error pages show tracebacks",
        f"set NODE_ENV=production in {name}.env",
    )
