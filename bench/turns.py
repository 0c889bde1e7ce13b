"""The longest turns of a metagame's event loop, and the code that ran in them.

A turn lasts from the return of one ``epoll`` call to the next call. ``watching`` makes a temporary
copy of this environment, whose programs measure each turn of a metagame. While a turn is long,
another thread samples the main thread's stack. The operating system reports for how long the turn
waited for a core.
"""

import gc
import json
import os
import sys
import sysconfig
import threading
import time
import venv
from collections import Counter
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from bench.servers import SERVER_CORE

REPOSITORY = Path(__file__).parent.parent
PLUGIN = "svc-metagame"
LEAST_MS = 5.0  # shorter turns are only counted
SAMPLER, SAMPLE_S = "turn-samples", 0.004
INNERMOST, OWN = 2, "/svcserver/"  # functions of a sampled stack that are kept
START_S = 5.0  # after the first turn, because the start is not part of the session


@frozen
class Turn:
    """A long turn: its wall-clock and CPU time, its wait for a core, its garbage collection."""

    at: float  # of the monotonic clock
    ms: float
    cpu_ms: float
    no_core_ms: float
    garbage_ms: float
    threads_ms: float  # in which other threads of the process waited for a core
    stacks: list[str]  # innermost function first, with the number of samples

    @property
    def own_ms(self) -> float:
        """Return the milliseconds that the turn would have taken with a free core.

        The time for which other threads waited for a core is also subtracted. Such a thread can
        hold the interpreter lock, and then the turn waits for this thread.
        """
        return max(self.cpu_ms, self.ms - self.no_core_ms - max(0.0, self.threads_ms))


@define
class TurnMeter:
    """The meter in a metagame's process, which writes each long turn as a line into ``file``."""

    file: Path
    began: float = field(factory=time.monotonic, init=False)
    garbage: float = field(default=0.0, init=False)
    samples: list[str] = field(factory=list, init=False)
    _stopped: bool = field(default=False, init=False)
    _since: tuple[float, float, int, int] | None = field(default=None, init=False)
    _first: float = field(default=0.0, init=False)
    _collection: float = field(default=0.0, init=False)
    _threads: dict[int, int] = field(factory=dict, init=False)  # schedstat files by thread
    _main: int = field(factory=threading.get_ident, init=False)

    def install(self) -> None:
        """Measure every turn of the reactor that will be installed."""
        from twisted.internet import epollreactor

        real, meter = epollreactor.epoll, self
        self.file.touch()

        class Epoll:
            def __init__(self, size: int) -> None:
                inner = real(size)
                self.register, self.unregister = inner.register, inner.unregister
                self.modify, self.close, self.fileno = inner.modify, inner.close, inner.fileno
                self._poll = inner.poll

            def poll(self, timeout: float, most: int) -> Any:
                meter.end()
                events = self._poll(timeout, most)
                meter.begin()
                return events

        epollreactor.epoll = Epoll
        gc.callbacks.append(self._collected)

    def begin(self) -> None:
        if not self._first:
            from twisted.internet import reactor

            # the players of the benches have left before the metagame stops
            reactor.addSystemEventTrigger("before", "shutdown", self._stop)  # type: ignore[attr-defined]
            self._main = threading.get_ident()
            self._first = time.monotonic()
            threading.Thread(target=self._sample_stacks, name=SAMPLER, daemon=True).start()
        if self._stopped:
            return
        self.garbage = 0.0
        self.samples.clear()
        self._since = time.monotonic(), time.thread_time(), *self._no_core_ns()

    def _stop(self) -> None:
        self._stopped, self._since = True, None

    def end(self) -> None:
        if self._since is None:
            return
        began, cpu, waited, others = self._since
        now = time.monotonic()
        ms = 1e3 * (now - began)
        if ms >= LEAST_MS and now - self._first > START_S:
            after = self._no_core_ns()
            turn = {
                "at": now,
                "ms": ms,
                "cpu_ms": 1e3 * (time.thread_time() - cpu),
                "no_core_ms": (after[0] - waited) / 1e6,
                "threads_ms": (after[1] - others) / 1e6,
                "garbage_ms": 1e3 * self.garbage,
                "stacks": [f"{n} x {stack}" for stack, n in Counter(self.samples).most_common(3)],
            }
            with self.file.open("a") as out:
                out.write(json.dumps(turn) + "\n")
        self._since = None

    def _no_core_ns(self) -> tuple[int, int]:
        """Return for how many ns the main thread, and all other threads, have waited for a core."""
        own, others = 0, 0
        for thread in threading.enumerate():
            number = thread.native_id or 0
            if number not in self._threads:
                file = f"/proc/self/task/{number}/schedstat"
                self._threads[number] = os.open(file, os.O_RDONLY)
            try:
                waited = int(os.pread(self._threads[number], 100, 0).split()[1])
            except ProcessLookupError:
                continue  # the thread has ended
            if thread.ident == self._main:
                own = waited
            elif thread.name != SAMPLER:
                others += waited
        return own, others

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection = time.monotonic()
        elif threading.get_ident() == self._main:
            took = time.monotonic() - self._collection
            self.garbage += took
            if took > LEAST_MS / 1e3:
                self.samples.append(f"collector, generation {info['generation']}")

    def _sample_stacks(self) -> None:
        while True:
            time.sleep(SAMPLE_S)
            since = self._since
            if since is None or time.monotonic() - since[0] < SAMPLE_S:
                continue
            names, frame = list[str](), sys._current_frames().get(self._main)
            while frame is not None:
                code = frame.f_code
                if len(names) < INNERMOST or OWN in code.co_filename:
                    names.append(f"{Path(code.co_filename).stem}:{frame.f_lineno}:{code.co_name}")
                frame = frame.f_back
            self.samples.append(" < ".join(names))


def install() -> None:
    """Measure this process if it is a metagame.

    The copied environment calls this function at the start of every Python process.
    """
    if PLUGIN in sys.orig_argv and (file := Path(sys.prefix, "turns-file")).is_file():
        # the load runs on the other core: see ``bench.evening``
        os.sched_setaffinity(0, {SERVER_CORE})
        TurnMeter(Path(file.read_text())).install()


def watching(folder: Path, file: Path) -> Path:
    """Create an environment whose metagames write their long turns into ``file``.

    Return the folder of its programs.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    (folder / "turns-file").write_text(str(file))
    programs, site = folder / "bin", Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    ours, start = sysconfig.get_path("purelib"), f"#!{programs / 'python'}\n"
    (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    (site / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(REPOSITORY)!r})\nfrom bench import turns\n"
        "turns.install()\n"
    )
    for script in Path(sys.executable).parent.iterdir():
        if script.is_file() and not (programs / script.name).exists():
            first, _, rest = script.read_bytes().partition(b"\n")
            if first.startswith(b"#!") and b"python" in first:
                (programs / script.name).write_bytes(start.encode() + rest)
                (programs / script.name).chmod(0o755)
    return programs


def longest(file: Path, since: float = 0.0, count: int = 15) -> list[Turn]:
    """Return the ``count`` turns with the highest ``own_ms``.

    Only turns that ended after ``since`` are considered.
    """
    if not file.exists():
        raise SystemExit("No metagame has measured its turns.")
    lines = file.read_text().splitlines()
    turns = [turn for turn in (Turn(**json.loads(line)) for line in lines) if turn.at > since]
    return sorted(turns, key=lambda turn: turn.own_ms, reverse=True)[:count]


def print_turns(turns: list[Turn], began: float) -> None:
    """Print the turns as a table, with their times after ``began``."""
    print("| at, s | turn, ms | CPU | without a core | threads without | collector | running |")
    print("|---:|---:|---:|---:|---:|---:|---|")
    for turn in turns:
        waits = (turn.no_core_ms, turn.threads_ms)
        figures = (turn.at - began, turn.ms, turn.cpu_ms, *waits, turn.garbage_ms)
        cells = " | ".join(f"{figure:.1f}" for figure in figures)
        print(f"| {cells} | {'; '.join(turn.stacks)} |")
