"""The simulated network: ordered bytes, connections that end, and machines that fall silent."""

import weakref
from typing import Any

from twisted.internet.protocol import ClientFactory, Factory, Protocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from simulation.clock import START, World
from simulation.ends import GIVEN_UP_S
from simulation.network import Network
from simulation.process import Process


class Recorder(Protocol):
    def __init__(self) -> None:
        self.received, self.ended = b"", ""

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure | None = None) -> None:
        self.ended = "" if reason is None else type(reason.value).__name__


class NetworkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(1)
        self.sent: list[bytes] = []
        self.network = Network(self.world, lambda number, name, data: self.sent.append(data))
        self.network.name("203.0.113.1", "host")
        self.host = Process(self.world, self.network, "server", "host", "203.0.113.1")
        self.pc = Process(self.world, self.network, "client", "pc", "198.51.100.1")
        self.far, self.near = Recorder(), Recorder()
        factory = Factory.forProtocol(lambda: self.far)  # type: ignore[arg-type,return-value]
        self.host.listenTCP(443, factory)
        self.failed: list[str] = []

    def connect(self, port: int = 443) -> None:
        near, failed = self.near, self.failed

        class Connecting(ClientFactory):
            noisy = False

            def buildProtocol(self, addr: object) -> Recorder:
                return near

            def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
                failed.append(type(reason.value).__name__)

        self.pc.connectTCP("203.0.113.1", port, Connecting(), timeout=10)
        self.world.run_until(self.world.now + 1)

    def test_bytes_arrive_in_order_and_both_ends_are_notified(self) -> None:
        self.connect()
        for number in range(20):
            self.near.transport.write(b"%d," % number)
            self.world.run_until(self.world.now + 0.001)
        self.near.transport.loseConnection()
        self.world.run_until(self.world.now + 1)
        self.assertEqual(self.far.received, b"".join(b"%d," % number for number in range(20)))
        self.assertEqual((self.near.ended, self.far.ended), ("ConnectionDone", "ConnectionDone"))
        self.assertEqual(self.network.ends, {})

    def test_parts_of_a_dead_process_are_released(self) -> None:
        self.connect()
        self.host.callLater(3600, self.far.dataReceived, b"much later")
        held = weakref.ref(self.far)
        self.host.die()
        self.host.program = self.far  # the services that ran in it
        del self.far
        self.world.run_until(self.world.now + 1)
        self.assertIsNotNone(held())
        self.world.bury()
        self.assertIsNone(held())
        self.assertEqual(self.near.ended, "ConnectionLost")
        self.world.run_until(self.world.now + 7200)

    def test_reserved_steps_run_before_others_of_their_instant(self) -> None:
        done: list[str] = []
        first = self.world.reserve(2)
        self.world.at(START + 9, lambda: done.append("asked for"))
        self.world.at_place(START + 9, first + 1, lambda: done.append("second"))
        self.world.at_place(START + 9, first, lambda: done.append("first"))
        self.world.run_until(START + 10)
        self.assertEqual(done, ["first", "second", "asked for"])

    def test_a_port_without_listener_refuses(self) -> None:
        self.connect(444)
        self.assertEqual(self.failed, ["ConnectionRefusedError"])

    def test_bytes_of_a_silent_machine_arrive_later(self) -> None:
        self.connect()
        self.network.silent.add("pc")
        self.near.transport.write(b"hello")
        self.world.run_until(self.world.now + 5)
        self.assertEqual(self.far.received, b"")
        self.network.silent.clear()
        self.world.run_until(self.world.now + 2)
        self.assertEqual(self.far.received, b"hello")

    def test_a_dying_process_notifies_only_its_peers(self) -> None:
        self.connect()
        called: list[int] = []
        self.host.callLater(1, called.append, 1)
        self.host.die()
        self.world.run_until(self.world.now + 2)
        self.assertEqual((self.far.ended, self.near.ended, called), ("", "ConnectionLost", []))
        self.connect()
        self.assertEqual(self.failed, ["ConnectionRefusedError"])

    def test_a_reader_that_pauses_holds_the_writer_up(self) -> None:
        self.connect()
        calls: list[str] = []

        class Producer:
            pauseProducing = staticmethod(lambda: calls.append("pause"))
            resumeProducing = staticmethod(lambda: calls.append("resume"))
            stopProducing = staticmethod(lambda: calls.append("stop"))

        self.near.transport.registerProducer(Producer(), True)
        self.far.transport.pauseProducing()
        self.near.transport.write(b"x" * 100_000)
        self.world.run_until(self.world.now + 1)
        self.assertEqual((calls, self.far.received), (["pause"], b""))
        self.far.transport.resumeProducing()
        self.world.run_until(self.world.now + 1)
        self.assertEqual((calls, len(self.far.received)), (["pause", "resume"], 100_000))

    def test_timers_of_one_instant_run_in_order(self) -> None:
        called: list[str] = []
        moved = self.world.later(5, lambda: called.append("moved"))
        for name in ("a", "b", "c"):
            self.world.later(1, lambda name=name: called.append(name))  # type: ignore[misc]
        moved.reset(1)
        self.world.later(1, lambda: called.append("never")).cancel()
        self.world.run_until(START + 2)
        self.assertEqual(called, ["a", "b", "c", "moved"])

    def test_a_slow_reader_delays_its_writer(self) -> None:
        self.connect()
        self.network.slow.add("pc")
        transport: Any = self.far.transport
        transport.write(b"x" * 2_000)
        self.world.run_until(self.world.now + 0.35)
        self.assertTrue(0 < len(self.near.received) < 2_000)
        self.world.run_until(self.world.now + 1)
        self.assertEqual(self.near.received, b"x" * 2_000)

    def test_one_connection_overtakes_another_on_the_same_machine(self) -> None:
        waits = {self.network.latency("host", "host") for _ in range(10)}
        self.assertEqual(len(waits), 10)

    def test_isolation_cuts_only_one_process_off(self) -> None:
        self.connect()
        self.network.isolate(self.pc, "host")
        self.world.run_until(self.world.now + 1)
        self.assertEqual((self.near.ended, self.far.ended), ("ConnectionLost",) * 2)
        self.near = Recorder()
        self.connect()
        self.assertEqual(self.near.transport, None)
        first_pc, self.pc = (
            self.pc,
            Process(self.world, self.network, "other", "pc", "198.51.100.1"),
        )
        self.connect()
        self.assertIsNot(self.near.transport, None)
        self.network.join(first_pc, "host")
        self.near, self.pc = Recorder(), first_pc
        self.connect()
        self.assertIsNot(self.near.transport, None)

    def test_isolation_spares_the_connection_that_is_named(self) -> None:
        self.connect()
        first, self.near = self.near, Recorder()
        self.connect()
        self.network.isolate(self.pc, "host", spared=1)
        self.world.run_until(self.world.now + 1)
        self.assertEqual((first.ended, self.near.ended), ("ConnectionLost", ""))

    def test_a_machine_without_power_neither_sends_nor_answers(self) -> None:
        self.connect()
        self.pc.vanish()
        self.world.run_until(self.world.now + 100)
        self.assertEqual((self.near.ended, self.far.ended), ("", ""))
        transport: Any = self.far.transport
        transport.write(b"hello?")
        self.world.run_until(self.world.now + 100)
        self.assertEqual(self.far.ended, "")
        # after it is switched on, the PC does not know the connection
        self.network.off.discard("pc")
        self.world.run_until(self.world.now + 2)
        self.assertEqual((self.near.received, self.far.ended), (b"", "ConnectionLost"))

    def test_undeliverable_bytes_end_the_connection(self) -> None:
        self.connect()
        self.pc.vanish()
        transport: Any = self.far.transport
        transport.write(b"hello?")
        self.world.run_until(self.world.now + GIVEN_UP_S - 10)
        self.assertEqual(self.far.ended, "")
        self.world.run_until(self.world.now + 20)
        self.assertEqual(self.far.ended, "ConnectionLost")

    def test_a_stalled_reader_resumes(self) -> None:
        self.connect()
        transport: Any = self.far.transport
        transport.stall(5)
        self.near.transport.write(b"hello")
        self.world.run_until(self.world.now + 4)
        self.assertEqual(self.far.received, b"")
        self.world.run_until(self.world.now + 2)
        self.assertEqual(self.far.received, b"hello")
