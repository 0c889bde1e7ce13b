"""A session's input: the bytes received, their effects, and the stages. Spec: 2 §4 Chat."""

import base64

from automat import NoTransition
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat import stanza
from svcserver.chat.effects import (
    Announce,
    Effect,
    End,
    Join,
    Leave,
    LogIn,
    MakeRoom,
    Over,
    PresenceStatus,
    RefuseLogin,
    Say,
    SessionBound,
    StanzaReply,
    Whisper,
    Withdraw,
)
from svcserver.chat.rates import Rates
from svcserver.chat.session import Session, SessionStage, Where, steps_of
from svcserver.chat.settings import ChatSettings
from svcserver.chat.stanza import serialize
from tests.chat.fixture import DOMAIN, RecordingWire, account, resource

OPEN = f'<open xmlns="{stanza.FRAMING}" to="{DOMAIN}" version="1.0"/>'
ME = account(1)


class ReceiveTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.done: list[Effect] = []
        settings, clock = ChatSettings(), Clock()
        self.session = Session(
            1, RecordingWire(), "", 0.0, settings, clock.seconds, Rates(settings), self.act
        )

    def act(self, _: Session, effect: Effect) -> None:
        self.done.append(effect)

    def receive(self, text: str) -> list[Effect]:
        return list(self.session.receive(text.encode()))

    def kinds(self, text: str) -> list[str]:
        return [type(item).__name__ for item in self.receive(text)]

    def auth(self) -> list[Effect]:
        proof = base64.b64encode(f"\0{ME}\0word".encode()).decode()
        return self.receive(f'<auth xmlns="{stanza.SASL}" mechanism="PLAIN">{proof}</auth>')

    def bind(self) -> None:
        self.receive(OPEN)
        self.auth()
        self.session.log_in(ME, "Ann")
        self.receive(f'<iq type="set" id="b"><bind xmlns="{stanza.BIND}"/></iq>')

    def test_a_session_has_no_account_until_its_login_is_done(self) -> None:
        self.assertEqual(self.kinds(OPEN), ["StanzaReply", "StanzaReply"])
        self.assertEqual(self.auth(), [LogIn(ME, "word")])
        self.assertEqual((self.session.account, self.done), ("", []))
        self.assertEqual(self.auth(), [End("refused")])

    def test_a_login_without_a_valid_proof_is_refused_at_once(self) -> None:
        self.receive(OPEN)
        replies = self.receive(f'<auth xmlns="{stanza.SASL}" mechanism="PLAIN">?</auth>')
        self.assertEqual(replies, [RefuseLogin("not-authorized", "bad-format")])

    def test_a_proof_has_12000_characters_at_most(self) -> None:
        def proof(length: int) -> str:
            rest = f"\0{ME}\0word"
            padding = "x" * (length // 4 * 3 - len(rest) - len(ME) - 1)
            return base64.b64encode(f"{ME}@{padding}{rest}".encode()).decode()

        for length, effect in ((12_000, LogIn), (12_004, RefuseLogin)):
            self.setUp()
            self.receive(OPEN)
            self.assertEqual(len(proof(length)), length)
            text = f'<auth xmlns="{stanza.SASL}" mechanism="PLAIN">{proof(length)}</auth>'
            [result] = self.receive(text)
            self.assertIsInstance(result, effect)

    def test_a_legacy_login_is_refused_with_a_short_id(self) -> None:
        for length, kinds in ((128, ["StanzaReply", "End"]), (129, ["End"])):
            self.setUp()
            query = f'<query xmlns="{stanza.LEGACY_AUTH}"/>'
            self.assertEqual(self.kinds(f'<iq type="set" id="{"x" * length}">{query}</iq>'), kinds)

    def test_before_bind_only_a_second_login_ends_the_session(self) -> None:
        self.receive(OPEN)
        self.auth()
        self.session.log_in(ME, "Ann")
        for text in ("<presence/>", '<message type="chat"/>', "<x/>"):
            self.assertEqual(self.receive(text), [])
        self.assertEqual(self.auth(), [End("refused")])

    def test_unknown_stanzas_have_no_effect(self) -> None:
        self.bind()
        for text in ("<message/>", '<message type="x"/>', "<x/>", "<presence type='x' to='y'/>"):
            self.assertEqual(self.receive(text), [])

    def test_binding_makes_room_first_and_answers_last(self) -> None:
        self.receive(OPEN)
        self.auth()
        self.session.log_in(ME, "Ann")
        name = f"<resource>{resource(1)}</resource>"
        bind = f'<iq type="set" id="b"><bind xmlns="{stanza.BIND}">{name}</bind></iq>'
        effects = iter(self.session.receive(bind.encode()))
        self.assertEqual(next(effects), MakeRoom(resource(1)))
        self.assertFalse(self.session.bound)
        [bound] = effects
        assert isinstance(bound, SessionBound)
        self.assertTrue(self.session.bound)
        self.assertIn(f"<jid>{ME}@{DOMAIN}/{resource(1)}</jid>", serialize(bound.result))

    def test_each_stanza_of_a_bound_session_is_one_effect(self) -> None:
        self.bind()
        room = f"City-1@muc.{DOMAIN}"
        self.assertEqual(self.receive(f'<presence to="{room}/n"/>'), [Join(f"{room}/n")])
        gone = f'<presence type="unavailable" to="{room}/n"/>'
        self.assertEqual(self.receive(gone), [Leave(f"{room}/n")])
        self.assertEqual(self.receive("<presence/>"), [Announce(PresenceStatus())])
        self.assertEqual(self.receive('<presence type="unavailable"/>'), [Withdraw()])
        for kind, effect in (("groupchat", Say), ("chat", Whisper)):
            [result] = self.receive(f'<message type="{kind}" to="x"><body>y</body></message>')
            self.assertIsInstance(result, effect)
        self.assertEqual(self.receive("<iq type='result' id='1'/>"), [])
        self.assertEqual(self.receive(serialize(stanza.CLOSE)), [End("close")])

    def test_bytes_that_are_not_utf_8_end_the_session(self) -> None:
        self.assertEqual(list(self.session.receive(b"\xff")), [End("refused")])

    def test_stanzas_of_a_waiting_session_keep_their_order(self) -> None:
        self.bind()
        self.session.wait()
        for number in (1, 2):
            self.assertEqual(self.receive(f'<iq type="get" id="{number}"/>'), [])
        self.session.resume(lambda: self.done.append(End("a mark")))
        mark, *replies = self.done
        self.assertEqual(mark, End("a mark"))
        ids = [reply.stanza["id"] for reply in replies if isinstance(reply, StanzaReply)]
        self.assertEqual(ids, ["1", "2"])

    def test_an_ended_session_reports_its_end_once_and_ignores_input(self) -> None:
        self.bind()
        self.session.end("socket")
        self.session.end("close")
        self.assertEqual(self.done, [Over("socket", was_bound=True)])
        self.assertEqual(self.receive(OPEN), [])
        self.session.resume(lambda: self.fail("it is over"))


class StageTests(SynchronousTestCase):
    def test_a_connection_goes_from_stage_to_stage_and_waits_on_its_way(self) -> None:
        where = Where()
        steps = steps_of(where)
        for step, stage in (
            (steps.opened, SessionStage.OPENED),
            (steps.tried, SessionStage.TRIED),
            (steps.asked, SessionStage.ASKING),
            (steps.answered, SessionStage.TRIED),
            (steps.logged_in, SessionStage.KNOWN),
            (steps.opened, SessionStage.KNOWN),
            (steps.bound, SessionStage.BOUND),
            (steps.asked, SessionStage.WAITING),
            (steps.answered, SessionStage.BOUND),
            (steps.ended, SessionStage.ENDED),
        ):
            step()
            self.assertIs(where.stage, stage)

    def test_no_stage_is_skipped_and_an_end_is_final(self) -> None:
        steps = steps_of(Where())
        for step in (steps.tried, steps.logged_in, steps.bound, steps.asked, steps.answered):
            self.assertRaises(NoTransition, step)
        steps.ended()
        for step in (steps.opened, steps.ended):
            self.assertRaises(NoTransition, step)
