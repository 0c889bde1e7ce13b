"""Runs one coroutine in this process's reactor, for a command that needs the network once."""

import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

Result = TypeVar("Result")


def run_in_reactor(work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
    """Run ``work(reactor)`` in the reactor; return its result or raise its error.

    The log is discarded. Raises KeyboardInterrupt if Ctrl-C, SIGTERM or a closed terminal stopped
    the reactor before the work had ended. The work is then abandoned, so its caller must clean up.
    """
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    results: list[Result | Failure] = []
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = not results

    def start(reactor: Any) -> Deferred[None]:
        stop_with_the_terminal(reactor)
        # the reactor then closes all connections, and the work may take that for a result
        reactor.addSystemEventTrigger("before", "shutdown", interrupt)
        return Deferred.fromCoroutine(work(reactor)).addBoth(results.append)

    with suppress(SystemExit):  # raised by ``react`` at its end
        react(start)
    if interrupted:
        raise KeyboardInterrupt
    [result] = results
    if isinstance(result, Failure):
        result.raiseException()
    return result


def stop_with_the_terminal(reactor: Any) -> None:
    """Stop the reactor when the terminal closes, as on Ctrl-C, unless SIGHUP is ignored (nohup)."""
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
        signal.signal(hangup, lambda *_: reactor.callFromThread(reactor.stop))
