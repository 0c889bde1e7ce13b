"""What the page and the terminal show, as plain data. No key, no invite code is in it."""

from __future__ import annotations

import sys
from typing import Any

from svcserver.edge.sending import certificate_words
from svcserver.launcher import words
from svcserver.launcher.command import DOCUMENTED, BadCommand
from svcserver.launcher.membership import Membership
from svcserver.launcher.program import Launcher
from svcserver.launcher.stages import Stage
from svcserver.launcher.starting import command_of, runner_of, start_at, way_to
from svcserver.launcher.version import launcher_version

VERSION = launcher_version()
_ANSWERS = {words.NAME_FREE: True, words.NAME_UNTOLD: None, "": None}  # else it is not


def show_all(launcher: Launcher) -> dict[str, Any]:
    """What the page shows: every host, where keys are kept, and an invite to look at."""
    hosts = [show(member, launcher.relay_port) for member in launcher.members.values()]
    return {
        "hosts": hosts,
        "keys": launcher.keys.where,
        "invited": launcher.invited,
        "version": VERSION,
    }


def show(member: Membership, relay_port: int) -> dict[str, Any]:
    """All that the page and the terminal show of one host, ready for JSON."""
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
        "standing": member.standing(),
        "announced": news.announced,
        "reachable": news.reachable,
        "files": _files(member),
        "status": news.status,
        "hunter": news.hunter,
        "news": news.news,
        "accent": news.accent,
        "pictures": [{"credit": one.credit} for one in news.pictures],
        "settings": {
            "folder": str(member.folder),
            "command": command_of(record),
            "documented": DOCUMENTED,
            "runner": record.runner,
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
    record, runner = member.record, runner_of(member)
    try:
        front = runner.command if runner is not None else ""
        return start_at(member, *way_to(record, relay_port)).shown(
            command_of(record), front, sys.platform
        )
    except BadCommand as why:
        return str(why)
