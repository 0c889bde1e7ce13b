"""A token that is not valid yet (nbf), signed with the host's own key. Spec: 1 §5."""

import base64
import time

import jwt
import pytest

from svcserver.db.engine import database_url, make_engine
from svcserver.metagame.access.tokens import ISSUER, LIFETIME_S
from svcserver.metagame.accounts.store import add_game_server_key
from tests.chat.sockets import Talker
from tests.support.game import GAME_SERVER_KEY, signing_keys
from tests.support.joined import FREE, Beside, beside_a_metagame
from tests.support.processes import bearer, eventually, register

pytestmark = pytest.mark.live

SOON_S = 3


def signed(account_id: str, starts_at: float) -> dict[str, str]:
    """Return a token signed by the metagame's key, with one claim changed."""
    private = base64.b64decode(signing_keys()[0])
    now = int(time.time())
    claims = {"userId": account_id, "iat": now, "exp": now + LIFETIME_S, "nbf": starts_at}
    token = jwt.encode(claims | {"iss": ISSUER, "aud": ISSUER}, private, algorithm="RS256")
    return {"id": account_id, "token": token}


def statuses(service: Beside, player: dict[str, str]) -> list[int]:
    """Return the statuses of four requests with the token; a game server sends the last request."""
    server = {"x-svc-gameserver-apikey": GAME_SERVER_KEY}
    request = {"gameMode": "CITY", "gameArgs": "", "playerHuntId": ""}
    return [
        service.ask("GET", "/accountinfo", None, bearer(player))[0],
        service.ask("POST", "/heartbeat", {}, bearer(player))[0],
        service.ask("POST", "/candidate/join", request, bearer(player))[0],
        service.ask("POST", "/heartbeat", {}, bearer(player) | server)[0],
    ]


# slow: a token's time is waited for
@beside_a_metagame(
    CHAT="1", CHAT_PORT=FREE, MATCHMAKING_MODE="DEPLOYSERVER", DEPLOYSERVER_URL="127.0.0.1:1"
)
def test_a_token_is_refused_until_its_start_time(service: Beside) -> None:
    engine = make_engine(database_url(service.environ["DATABASE_URL"]))
    with engine.begin() as tx:
        add_game_server_key(tx, GAME_SERVER_KEY)
    engine.dispose()
    port = service.port("CHAT_PORT")
    ann = register(service, "Ann_1")
    later = signed(ann["id"], time.time() + 600)
    soon = signed(ann["id"], time.time() + SOON_S)
    # 500, as this route answers every bad token
    assert statuses(service, later) == [401, 401, 401, 500]
    stranger = Talker(port, ann["id"], "Ann_1")
    assert "not-authorized" in stranger.try_token(later["token"])
    eventually(lambda: statuses(service, soon) == [200] * 4)
    player = Talker(port, ann["id"], "Ann_1").log_in(soon["token"])
    assert statuses(service, later) == [401, 401, 401, 500]  # although the token was seen before
    for entry in (stranger, player):
        entry.wire.close()
