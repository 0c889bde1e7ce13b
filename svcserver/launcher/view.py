"""The data that the page and the terminal show, without keys and invite codes."""

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from svcserver.edge.sending import certificate_words
from svcserver.launcher import words
from svcserver.launcher.command import DOCUMENTED, BadCommand
from svcserver.launcher.membership import Membership, way_to
from svcserver.launcher.program import Launcher
from svcserver.launcher.stages import Stage


def launcher_version() -> str:
    """Return the version of ``svc-launcher`` or, if that package is missing, of ``svcserver``."""
    for name in ("svc-launcher", "svcserver"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


VERSION = launcher_version()
_ANSWERS = {words.NAME_FREE: True, words.NAME_UNTOLD: None, "": None}  # all other texts mean False


def show_all(launcher: Launcher) -> dict[str, Any]:
    """Return all data that the page shows, about the launcher and about each host."""
    hosts = [describe_host(member, launcher.relay_port) for member in launcher.members.values()]
    return {
        "hosts": hosts,
        "keys": launcher.keys.where,
        "invited": launcher.invited,
        "opened": launcher.opened,
        "refusal": launcher.refusal,
        "version": VERSION,
    }


def describe_host(member: Membership, relay_port: int) -> dict[str, Any]:
    """Return everything that the page and the terminal show about one host, ready for JSON."""
    record, host, news = member.record, member.host, member.news
    return {
        "id": record.id,
        "name": record.name,
        "address": f"{record.host}:{record.port}",
        "words": certificate_words(record.fingerprint, record.next_fingerprint),
        "public": record.public,
        "username": record.username,
        "stage": host.stage.name.lower(),
        "trouble": host.trouble,
        "note": host.note or member.files.note,
        "tried": member.tried,
        "saying": member.saying,
        "free": _ANSWERS.get(member.saying, False),
        "needs_code": member.needs_code,
        "standing": member.standing(),
        "announced": news.announced,
        "reachable": news.reachable,
        "wrong_certificate": news.wrong_certificate,
        "files": _files(member),
        "status": news.status,
        "hunter": news.hunter,
        "news": news.news,
        "accent": news.accent,
        "pictures": [{"credit": picture.credit} for picture in news.pictures],
        "settings": {
            "folder": str(member.folder),
            "command": member.command,
            "documented": DOCUMENTED,
            "runner": record.runner,
            "windows": sys.platform == "win32",
            "found": member.around.runner.name if member.around.runner is not None else "",
            "shown": _command(member, relay_port),
            "speed_limit": record.speed_limit,
        },
    }


def _files(member: Membership) -> dict[str, Any]:
    job = member.files
    progress, rate = job.progress, job.rate.per_second(member.around.clock.seconds())
    left = max(0, progress.bytes_total - progress.bytes_done)
    busy = member.host.stage is Stage.FETCHING
    done = min(progress.bytes_done, progress.bytes_total)
    return {
        "done": done,
        "total": progress.bytes_total,
        "files_done": progress.files_done,
        "files_total": progress.files_total,
        "so_far": f"{words.amount(done)} of {words.amount(progress.bytes_total)}",
        "pace": words.pace(rate, left / rate if busy and rate > 1 else None),
        "missing": words.amount(member.host.missing),
        "handed_out": member.host.hands_out_files,
        "build": job.build,
    }


def _command(member: Membership, relay_port: int) -> str:
    runner = member.runner
    front = runner.command if runner is not None else ""
    try:
        values = member.start_values(*(member.way or way_to(member.record, relay_port)))
        return values.shown(member.command, front, sys.platform)
    except BadCommand as error:
        return str(error)
