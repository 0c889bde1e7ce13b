"""Inputs that the specification allows, but that earlier versions of the server refused.

Two such inputs are tested here: notes on invites, and the number 2.0 in place of 2. A third such
input, befriending a player again after a block, is tested in ``tests/live/test_chat.py``.
"""

import orjson
import pytest

from tests.ctl.command import svcctl
from tests.support.joined import Beside, beside_a_metagame
from tests.support.processes import bearer, eventually, register

pytestmark = pytest.mark.live


@beside_a_metagame()
def test_whole_floats_and_notes_of_invites_are_accepted(
    service: Beside,
) -> None:
    environ = service.folder / "metagame.env"
    environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
    made = svcctl("account", "create", "Olga", "--admin", "--env-file", environ, "--json")
    owner = {"x-svc-user-api-key": made.data["key"]}
    ann = register(service, "Ann_1")
    own = orjson.loads(service.ask("GET", "/character", None, bearer(ann))[1])[0]["id"]
    save = {"characterId": own, "updateVersion": 1, "data": "{}"}
    assert service.ask("POST", "/character", save, bearer(ann))[0] == 200
    met = f"/encountered-content/{own}"
    met_again = f"/encountered-content/query/{own}"
    for path, body, by in (
        (met, '{"content_type":2.0,"content_id":"ITEM_A"}', bearer(ann)),
        (met_again, '{"content_types":[2.0]}', bearer(ann)),
        ("/svc/api/CreateInvite", '{"uses":2.0,"name":"for the smith"}', owner),
        (
            "/svc/api/RegisterInviteCode",
            '{"NewInviteCode":"ABCD-EFGH","Uses":2.0,"InfiniteUses":false}',
            owner,
        ),
        ("/svc/api/RollbackCharacter", f'{{"CharacterId":"{own}","Version":1.0}}', owner),
    ):
        status, reply = service.ask("POST", path, body.encode(), by)
        assert status == 200, (path, status, reply)
        half = body.replace(".0", ".5")
        assert service.ask("POST", path, half.encode(), by)[0] == 400, path
    document = orjson.loads(service.ask("POST", met_again, {"content_types": [2]}, bearer(ann))[1])
    assert document["payload"]["content_types"] == [{"content": ["ITEM_A"], "content_type": 2}]
    eventually(lambda: "uses 2, note 'for the smith'" in service.log)
