"""A substitute for the game client, which the launcher starts and ends like the real game.

The program logs in at its server with the key, loads its character, sends heartbeats, and writes
what it received to a file. With ``-hunt=ID`` it then goes on that hunt.
"""

import json
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

arguments = {"out": str(Path(__file__).with_name("played.json"))}
arguments |= dict(word.removeprefix("-").split("=", 1) for word in sys.argv[1:])
SERVER = "http://" + arguments["server"]


def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> dict[str, object]:
    request = urllib.request.Request(SERVER + path, body, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        text = answer.read()
    results: dict[str, object] = json.loads(text) if text else {}
    return results


form = {"grant_type": "exchange_code", "exchange_code": arguments["AUTH_PASSWORD"]}
login = ask("POST", "/account/api/oauth/token", urllib.parse.urlencode(form).encode())
bearer = {"Authorization": f"Bearer {login['access_token']}", "Content-Type": "application/json"}
characters = ask("GET", "/character", **bearer)
beat = json.dumps({"state": "city", "session_id": "1"}).encode()
ask("POST", "/heartbeat", beat, **bearer)
with open(arguments["out"], "w", encoding="utf-8") as file:
    json.dump({"account": login["account_id"], "characters": characters}, file)
if "hunt" in arguments:
    request = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": arguments["hunt"]}
    time.sleep(6)  # some time in the city
    ask("POST", "/candidate/join", json.dumps(request).encode(), **bearer)
    while ask("GET", "/candidate/status", **bearer)["status"] != "IN_PROGRESS":
        time.sleep(1)
    beat = json.dumps({"map": "cora_jamima", "state": "island", "session_id": "1"}).encode()
while True:
    time.sleep(5)
    ask("POST", "/heartbeat", beat, **bearer)
