"""The classes of settings, and the owner's page that documents them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from svcserver.allowlist.settings import Settings as Allowlist
from svcserver.chat.settings import Settings as Chat
from svcserver.content.settings import Settings as Content
from svcserver.deploy.settings import Settings as Deploy
from svcserver.gateway.settings import AllowlistSettings as Doorkeeper
from svcserver.gateway.settings import Settings as Gateway
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.metagame.settings import Settings as Metagame
from svcserver.relay.settings import Settings as Relay
from svcserver.stack.service import Settings as Stack

OWNERS_PAGE = Path(__file__).parent / "owners" / "configuration.md"
SERVICES: dict[str, tuple[type[Any], ...]] = {  # keyed by the first words of a section
    "Metagame": (Metagame, Chat),
    "Deploy server": (Deploy,),
    "Gateway": (Gateway, Doorkeeper),
    "Allowlist helper": (Allowlist,),
    "Content server": (Content,),
    "Launcher relay": (Relay,),
    "Stack": (Stack, BackupSettings),
}


def described(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the service, variable, default and effect in each row of the owner's page."""
    service = ""
    for line in text.splitlines():
        if line.startswith("## "):
            [service] = [name for name in SERVICES if line.removeprefix("## ").startswith(name)]
        if service and line.startswith("| ") and not line.startswith("| Name"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
            for name in cells[1].split(", "):
                yield service, name, cells[2], cells[4]
