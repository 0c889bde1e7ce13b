"""Runs many players' coroutines concurrently; the first failure cancels all others."""

import random
from collections.abc import Coroutine, Sequence
from typing import Any

from twisted.internet.defer import Deferred, FirstError, gatherResults

from svcserver.ctl.play.story import PlayFailed

WIDE = 256  # maximum number of concurrent coroutines


async def gather(work: Sequence[Coroutine[Any, Any, Any]], wide: int = WIDE) -> list[Any]:
    """Run at most ``wide`` coroutines at a time; return all results or raise the first error."""
    results: list[Any] = [None] * len(work)
    left = iter(enumerate(work))

    async def hand() -> None:
        for index, coroutine in left:
            results[index] = await coroutine

    workers = [Deferred.fromCoroutine(hand()) for _ in range(min(wide, len(work)))]
    try:
        await gatherResults(workers, consumeErrors=True)
    except FirstError as first:
        for worker in workers:
            worker.cancel()
        why = first.subFailure.value
        raise PlayFailed("player", repr(why)) if why is None else why from None
    finally:
        for _, never in left:
            never.close()
    return results


def some_of(seconds: float) -> float:
    """Return a random number of seconds from 0 to ``seconds``."""
    return random.uniform(0, seconds)  # noqa: S311 - no secret
