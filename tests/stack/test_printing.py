"""The lines of components as the stack prints them: for people, and with --json for machines."""

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.times import iso
from svcserver.stack.printing import Printer, message_in

AT = "2026-11-22T11:18:05.070Z"
REQUEST = orjson.dumps(
    {
        "time": AT,
        "level": "info",
        "namespace": "svcserver.gateway.proxy_policy",
        "message": "request",
        "ip": "203.0.113.9",
        "status": 200,
        "ua": "a b",
        "reason": "",
    }
).decode()


def printed(line: str, *, as_json: bool = False) -> list[str]:
    chunks: list[str] = []
    Printer(chunks.append, as_json, lambda: 0.0)("gateway", line)
    return "".join(chunks).split("\n")[:-1]


class ForPeopleTests(SynchronousTestCase):
    def test_readable_line_has_the_fields_the_message_lacks(self) -> None:
        [line] = printed(REQUEST)
        self.assertEqual(
            line,
            f'[gateway] {AT} info gateway.proxy_policy: request ip=203.0.113.9 status=200 ua="a b"',
        )
        [line] = printed('{"time":"t","level":"info","namespace":"x","message":"GET 200","s":200}')
        self.assertEqual(line, "[gateway] t info x: GET 200")

    def test_fields_in_the_message_are_not_repeated(self) -> None:
        for message, value in (
            ("GET /party gs=0 200 1.5ms via=gateway ip=127.0.0.1", " via=gateway ip=127.0.0.1"),
            ("GET /party gs=0 200 1.5ms", 1.5),
            ("city c on port 8777 ended: code 0", "code 0"),
            ("cannot be read: No such file or directory; look", "No such file or directory"),
            ("live state of 20 s ago was read", 20.4371),
            ("back after 0.3 s", 0.2519),
            ("line\\x1b[2J", "line\x1b[2J"),
            ("sent a request in the name of 'Ann B'", "Ann B"),
            ("listens on 127.0.0.1:61000", 61000),
        ):
            line = orjson.dumps({"message": message, "field": value}).decode()
            self.assertEqual(printed(line), [f"[gateway] - info -: {message}"])

    def test_a_field_within_another_word_or_number_is_printed(self) -> None:
        for message, value in (
            ("from 127.0.0.1", 1),
            ("from 127.0.0.1", "27.0.0.1"),
            ("from 127.0.0.11", "127.0.0.1"),
            ("took 1.5 s", 5),
            ("took 1.5 s", 1),
            ("the cityhall", "city"),
        ):
            line = orjson.dumps({"message": message, "field": value}).decode()
            self.assertEqual(printed(line), [f"[gateway] - info -: {message} field={value}"])

    def test_a_traceback_is_lines_of_the_same_component(self) -> None:
        record = {"message": "broken", "level": "error", "traceback": "Traceback\n  at x\nE: y\n"}
        first, *rest = printed(orjson.dumps(record).decode())
        self.assertTrue(first.endswith(" error -: broken"))
        self.assertEqual(rest, ["[gateway] Traceback", "[gateway]   at x", "[gateway] E: y"])

    def test_foreign_lines_are_printed_unchanged(self) -> None:
        for odd in (f"{AT} info x: hello", "plain", '{"a":1}', '{"message":7}', "[1]", "", "{"):
            self.assertEqual(printed(odd), [f"[gateway] {odd}"])
            self.assertEqual(message_in(odd), odd)
        self.assertEqual(message_in('{"message":"no port"}'), "no port")

    @given(st.text(st.characters(), max_size=40))
    @settings(max_examples=60, deadline=None)
    def test_hostile_field_cannot_control_the_terminal(self, text: str) -> None:
        try:
            line = orjson.dumps({"message": "m", "level": text, "ua": text}).decode()
        except TypeError:  # a lone surrogate
            return
        [shown] = printed(line)
        self.assertTrue(shown.isprintable())


class ForMachinesTests(SynchronousTestCase):
    def test_json_line_gains_the_components_name(self) -> None:
        [line] = printed(REQUEST, as_json=True)
        record = orjson.loads(line)
        self.assertEqual(record, {**orjson.loads(REQUEST), "service": "gateway"})
        self.assertEqual(list(record)[:5], ["time", "level", "service", "namespace", "message"])

    def test_text_lines_become_json_of_the_same_schema(self) -> None:
        [line] = printed(f"{AT} warn relay.x: slow: 3 s", as_json=True)
        wanted = {"time": AT, "level": "warn", "service": "gateway"}
        self.assertEqual(
            orjson.loads(line), {**wanted, "namespace": "relay.x", "message": "slow: 3 s"}
        )
        for odd in ("svc-gateway: PORT: no", '{"a":1}', "", "{"):
            record = orjson.loads(printed(odd, as_json=True)[0])
            self.assertEqual((record["time"], record["level"]), (iso(0.0), "info"))
            self.assertEqual((record["namespace"], record["message"]), ("-", odd))
