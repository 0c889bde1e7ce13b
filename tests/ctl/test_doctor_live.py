"""``svcctl doctor`` checks the Valkey or Redis server of LIVE_URL."""

import socket
import threading
import time

import pytest

from svcserver.board.address import EngineAddress
from svcserver.ctl.doctor.machine import EngineFacts, EngineRefused, fetch_engine_facts
from tests.ctl.doctor_host import HEALTHY, DoctorCase, Quiet
from tests.support.valkey import BlockingEngine, Instance, fresh_url

URL = "valkey://ann:hidden@127.0.0.1:1"


class EngineTests(DoctorCase):
    def setUp(self) -> None:
        super().setUp()
        self.plant("metagame", "LIVE_URL", URL)

    def engine(
        self,
        slip: float = 0.0,
        save: str | None = None,
        buffers: str | None = None,
        is_open: bool = False,
        **info: str,
    ) -> Quiet:
        now = time.time()  # the clock stands still, however long the doctor takes
        return Quiet(at=now, facts=EngineFacts(HEALTHY | info, now + slip, save, buffers, is_open))

    def test_a_healthy_engine_is_no_fault(self) -> None:
        for fine in (
            self.engine(),
            self.engine(maxmemory_policy="volatile-ttl"),
            self.engine(save=""),
        ):
            self.assertEqual(self.wrong(fine), [])
        self.assertNotIn("live state", self.notes(self.engine(save="900 1", aof_enabled="0")))

    def test_an_engine_without_a_password_is_a_fault(self) -> None:
        self.finds("without a password", "requirepass", self.engine(is_open=True))

    def test_an_engine_that_evicts_entries_is_a_fault(self) -> None:
        for policy in ("allkeys-lru", "volatile-random", "allkeys-random"):
            self.finds(policy, "maxmemory-policy noeviction", self.engine(maxmemory_policy=policy))

    def test_an_engine_cluster_is_a_fault(self) -> None:
        self.finds("is a cluster", "cluster-enabled no", self.engine(cluster_enabled="1"))

    def test_an_engine_with_a_small_pubsub_buffer_is_a_fault(self) -> None:
        low = "normal 0 0 0 slave 1 1 60 pubsub 33554432 1048576 60"
        self.finds("with 1 MB unread", "pubsub 32mb 8mb 60", self.engine(buffers=low))
        for fine in ("33554432 8388608 60", "0 0 0"):
            self.assertEqual(self.wrong(self.engine(buffers=f"normal 0 0 0 pubsub {fine}")), [])

    def test_an_engine_of_an_old_version_is_a_fault(self) -> None:
        old = self.engine(valkey_version="", redis_version="6.0.16")
        self.finds("version 6.0.16", "install Valkey", old)

    def test_an_engine_whose_last_save_failed_is_a_fault(self) -> None:
        self.finds("last save", "make room", self.engine(rdb_last_bgsave_status="err"))
        self.finds("last append", "make room", self.engine(aof_last_write_status="err"))

    def test_an_engine_that_writes_nothing_to_disk_is_a_note(self) -> None:
        notes = self.notes(self.engine(save="", aof_enabled="0"))
        self.assertIn("writes nothing to disk", notes)

    def test_an_engine_clock_that_differs_by_30_s_is_a_fault(self) -> None:
        self.finds("differ by 30 s", "timedatectl", self.engine(slip=30.4))

    def test_a_silent_engine_is_a_fault_and_shows_no_password(self) -> None:
        for why in (ConnectionRefusedError(111, "Connection refused"), EngineRefused("WRONGPASS")):
            self.finds("does not answer", "correct LIVE_URL", Quiet(facts=why))
            [line] = self.wrong(Quiet(facts=why))
            self.assertNotIn("hidden", line)


@pytest.mark.live
def test_a_real_engine_reports_every_fact_that_is_checked() -> None:
    facts = fetch_engine_facts(EngineAddress.parse(fresh_url()), 5.0)
    assert {"redis_version", "maxmemory_policy", "aof_enabled", "rdb_last_bgsave_status"} <= set(
        facts.info
    )
    assert abs(facts.seconds - time.time()) < 60
    assert facts.save == ""
    assert "pubsub" in (facts.buffers or "")
    assert not facts.is_open


@pytest.mark.live
def test_a_real_engine_without_a_password_is_reported_as_open() -> None:
    engine = Instance.make()
    engine.start()
    try:
        with BlockingEngine(engine.port) as owner:
            owner.command("CONFIG", "SET", "requirepass", "")
        assert fetch_engine_facts(EngineAddress("127.0.0.1", engine.port), 5.0).is_open
        # an engine that admits everybody in addition to a user
        with BlockingEngine(engine.port) as owner:
            owner.command("ACL", "SETUSER", "svc", "on", ">hush", "~*", "&*", "+@all")
        assert fetch_engine_facts(
            EngineAddress("127.0.0.1", engine.port, 0, "svc", "hush"), 5.0
        ).is_open
    finally:
        engine.end()


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-NOAUTH no\r\n", b""])
def test_an_invalid_reply_or_a_refusal_raises_an_error(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            line, _ = listener.accept()
            with line:
                line.recv(100)
                line.sendall(reply)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises((EngineRefused, OSError)):
            fetch_engine_facts(EngineAddress("127.0.0.1", listener.getsockname()[1]), 5.0)
        thread.join(5)
