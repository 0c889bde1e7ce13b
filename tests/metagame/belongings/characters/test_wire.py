"""A character as the client reads it. Spec: 1 §2 Character."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.metagame.belongings.characters import wire
from svcserver.metagame.belongings.characters.rules import Character
from svcserver.metagame.belongings.documents import document


class ShownTests(SynchronousTestCase):
    def test_a_character_is_shown_with_its_document_as_a_text(self) -> None:
        kept = document('{"a":"ä"}')
        one = Character(CharacterId("c"), AccountId("UID-a"), "Ann", 7, 0.0, 86_400.0, kept)
        said = json.parse(json.dump(wire.show(one)))
        self.assertEqual(set(said), set(wire.CharacterReply.__annotations__))
        self.assertEqual(
            {key: said[key] for key in ("accountId", "id", "name", "updateVersion", "data")},
            {
                "accountId": "UID-a",
                "id": "c",
                "name": "Ann",
                "updateVersion": 7,
                "data": '{"a":"ä"}',
            },
        )
        self.assertIn("1970", said["createdDate"])
        self.assertNotEqual(said["createdDate"], said["lastModifiedDate"])
