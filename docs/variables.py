"""The classes of settings, and the owner's page that documents them."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import fields

from svcserver.agent.settings import AgentSettings
from svcserver.allowlist.settings import AllowlistSettings
from svcserver.chat.settings import ChatSettings
from svcserver.content.settings import ContentSettings
from svcserver.deploy.settings import DeploySettings
from svcserver.gateway.settings import AllowlistClientSettings, GatewaySettings
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.kernel.settings import secret, strong_secret
from svcserver.metagame.settings import MetagameSettings
from svcserver.relay.settings import RelaySettings
from svcserver.stack.service import StackSettings

OWNERS_PAGE = Path(__file__).parent / "owners" / "configuration.md"
SERVICES: dict[str, tuple[type[Any], ...]] = {  # keyed by the first words of a section
    "Metagame": (MetagameSettings, ChatSettings),
    "Deploy server": (DeploySettings,),
    "Gateway": (GatewaySettings, AllowlistClientSettings),
    "Allowlist helper": (AllowlistSettings,),
    "Content server": (ContentSettings,),
    "Launcher relay": (RelaySettings,),
    "Node agent": (AgentSettings,),
    "Stack": (StackSettings, BackupSettings),
}


FILES = {  # in the host's folder; the node agent is on another machine and has none there
    "Metagame": "metagame",
    "Deploy server": "deploy",
    "Gateway": "gateway",
    "Allowlist helper": "allowlist",
    "Content server": "content",
    "Launcher relay": "relay",
    "Stack": "stack",
}


def catalogue(text: str) -> str:
    """Return the JSON file of the dashboard's settings page, made from the owner's page."""
    sections: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ").partition(" (")[0]
            name = FILES.get(title.partition(":")[0])
            settings: list[dict[str, Any]] = []
            if name is not None:
                sections.append({"title": title, "component": name, "settings": settings})
        elif sections and line.startswith("| ") and not line.startswith("| Name"):
            _, names, default, allowed, effect, *_ = _cells(line)
            bare = re.sub("[,;] secret$", "", default)
            service = title.partition(":")[0]
            settings += [
                {
                    "name": variable,
                    "default": _plain(bare),
                    "allowed": _plain(allowed),
                    "meaning": _plain(effect),
                    "secret": bare != default or _is_secret(service, variable),
                    **({"empty": True} if _may_be_empty(service, variable) else {}),
                }
                for variable in names.split(", ")
            ]
    return json.dumps({"sections": sections}, indent=1, ensure_ascii=False) + "\n"


def _is_secret(service: str, variable: str) -> bool:
    return any(about["read"] in (secret, strong_secret) for about in _metadata(service, variable))


def _may_be_empty(service: str, variable: str) -> bool:
    return any(about["empty"] for about in _metadata(service, variable))


def _metadata(service: str, variable: str) -> Iterator[Any]:
    for shape in SERVICES[service]:
        for field in fields(shape):
            if field.metadata["name"] == variable:
                yield field.metadata


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]


def _plain(markdown: str) -> str:
    """Return text without links, emphasis, code marks and escapes."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"\*(\w[^*]*)\*", r"\1", text)
    return text.replace("`", "").replace("\\|", "|")


def described(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the service, variable, default and effect in each row of the owner's page."""
    service = ""
    for line in text.splitlines():
        if line.startswith("## "):
            [service] = [name for name in SERVICES if line.removeprefix("## ").startswith(name)]
        if service and line.startswith("| ") and not line.startswith("| Name"):
            cells = _cells(line)
            for name in cells[1].split(", "):
                yield service, name, cells[2], cells[4]


if __name__ == "__main__":
    sys.stdout.write(catalogue(OWNERS_PAGE.read_text("utf-8")))
