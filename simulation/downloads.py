"""The players' downloads of game files."""

import hashlib
import random
from urllib.parse import quote

from simulation.player import SimPlayer

ACCOUNT_KEY = "x-svc-user-api-key"
FILES = "/content/v1/files/"


async def download(me: SimPlayer, dice: random.Random) -> None:
    """Download a file of the manifest, in one or two parts, and check its bytes."""
    reply = await me.make_request("GET", "/content/v1/manifest")
    if reply.status != 200 or not me.key:
        return
    entry = dice.choice(reply.json["files"])
    path, size, key = FILES + quote(entry["path"]), entry["size"], {ACCOUNT_KEY: me.key}
    if dice.random() < 0.5:
        whole = await me.make_request("GET", path, headers=key, lose=dice.random() < 0.2)
        if whole.status == 200:
            _check(me, entry, whole.body)
        return
    cut = dice.randrange(1, size)
    first = await me.make_request("GET", path, headers={**key, "Range": f"bytes=0-{cut - 1}"})
    rest = await me.make_request(
        "GET", path, headers={**key, "Range": f"bytes={cut}-"}, patient=True
    )
    if (first.status, rest.status) == (206, 206):
        _check(me, entry, first.body + rest.body)


def _check(me: SimPlayer, entry: dict[str, str], body: bytes) -> None:
    if hashlib.sha256(body).hexdigest() != entry["sha256"]:
        text = f"{me.name} got {len(body)} bytes of {entry['path']} that are not the file's"
        me.history.wrong.add("whole or not at all", text)
