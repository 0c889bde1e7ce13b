"""Machine tickets: the request that a ticket allows, its lifetime, and invalid tickets."""

from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.machine import LIVES_S, LONGEST, actor_of, machine_headers

NOW = 1_790_000_000.0
SECRET, TARGET = "key" * 20, "/svc/api/Route?name=a%26b"


def ticket(actor: str = "svcctl:ada", secret: str = SECRET) -> str:
    [(name, made)] = machine_headers(secret, actor, "GET", TARGET, NOW).items()
    assert name == "x-svc-machine"
    return made


def opened(
    sent: str, *, secret: str = SECRET, method: str = "GET", target: str = TARGET, at: float = NOW
) -> str | None:
    return actor_of(secret, sent, method, target.encode(), at)


class MachineTests(SynchronousTestCase):
    def test_a_ticket_names_its_actor(self) -> None:
        for actor in ("svcctl:ada", "svc-stack", "svcctl:Ünal x\n", "", "a:b:c"):
            self.assertEqual(opened(ticket(actor)), actor)
            self.assertTrue(ticket(actor).isascii() and ticket(actor).isprintable())

    def test_a_ticket_opens_one_request_and_expires(self) -> None:
        made = ticket()
        for second in (
            opened(made, method="POST"),
            opened(made, target="/svc/api/Route"),
            opened(made, target=TARGET + "c"),
            opened(made, secret=SECRET + "x"),
            opened(made, at=NOW + LIVES_S + 1),
            opened(made, at=NOW - LIVES_S - 1),
        ):
            self.assertIsNone(second)
        self.assertEqual(opened(made, at=NOW + LIVES_S), "svcctl:ada")

    def test_a_malformed_ticket_is_refused(self) -> None:
        at, actor, mark = ticket().split(":")
        for odd in (
            "",
            "::",
            mark,
            f"{at}:{actor}:",
            f"{at}:{actor}:{mark[:-1]}",
            f"{at}:{actor}:{mark.upper()}",
            f"{int(at) + 1}:{actor}:{mark}",
            f"{at}:{quote('svcctl:eve', safe='')}:{mark}",
            f"{at}:{actor}:\ud800ü",
            f"²:{actor}:{mark}",
            f"{'9' * LONGEST}:{actor}:{mark}",
        ):
            self.assertIsNone(opened(odd), odd)
        self.assertIsNone(opened(ticket("a" * LONGEST)))

    def test_without_a_signing_key_no_ticket_is_made_or_accepted(self) -> None:
        for secret in ("", " "):
            self.assertEqual(machine_headers(secret, "svcctl:ada", "GET", TARGET, NOW), {})
            self.assertIsNone(opened(ticket(), secret=secret))
