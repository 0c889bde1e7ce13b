"""The texts that the player reads, and the formats of numbers and times in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

UNREACHABLE = (
    "The host cannot be reached. It may be switched off or full, or your internet connection is "
    "down; the launcher goes on trying."
)
RESTARTING = "The host is restarting. The launcher goes on trying; this is gone when it is back."
WRONG_CERTIFICATE = (
    "This is not the host of your invite: its certificate is another one. Nothing was sent to it. "
    "Ask the owner for a new invite, and compare the words."
)
NOT_OUR_HOST = (
    "The host answers in a way this launcher does not understand. Ask the owner about it."
)
NAME_TAKEN = "Another player has this name already. Choose another one."
NAME_FREE = "This name is free."
NAME_UNTOLD = "Whether this name is free, the host says when you make your account."
NAME_INVALID = "A name has 3 to 16 letters, digits or underscores, and nothing else."
INVITE_INVALID = "This invite has been used up or taken back. Ask the owner for a new one."
CLOSED = "This host takes no new players at the moment. Ask the owner."
TOO_OFTEN = "The host asks for a pause. Try again in {minutes}."
REGISTER_LOST = (
    "The connection was cut while the host made your account. Try the same name once more; if it "
    "is taken now, it is yours: ask the owner for its key."
)
PLAYING_ELSEWHERE = "You are playing on {name}. End that game first."
LEAVE_FIRST = "End the game before you remove this host."
NO_KEY_FILE = "There is no file at {path} that can be read."
BAD_KEY_FILE = (
    "That file holds no key. Choose the one that Save my key has written: its name begins with "
    "svc-key."
)
KEY_SAVED = (
    "Your key has been written to {path}. Whoever has that file is you: carry it to your other PC "
    "yourself, and delete it after the import."
)
WHOLE_PATH = "Give the folder's whole path, from the drive or / on."
PASSPORT_SAVED = (
    "Your passport has been written to {path}. Another host whose owner trusts this one can take "
    "in what stands there, once: send it to that owner."
)
NO_PASSPORT = "This host signs no passports."
NO_KEY_YET = "You have no key for this host yet."
UNKNOWN_HOST = "The launcher does not know this host."
DEFECT = "Something went wrong inside the launcher; its log says what. Try again."
BANNED = "The owner of this host has shut your account out. Ask the owner why, and until when."
KEY_REFUSED = (
    "The host does not know your key any more. Bring it from another PC of yours, or ask the owner "
    "for a new one."
)
KEY_RENEWED = (
    "You have a new key, and the old one no longer works. On your other PCs bring the new one: "
    "save it here for another PC."
)
RENEW_LATER = "End the game before you renew your key: it would be logged out."
KEY_NOT_RENEWED = "The host gives out no new keys. Ask the owner for one."
OTHER_KEY = (
    "You are {username} on {name} already, with another key than the one in that file. Nothing was "
    "changed. To take the file's key instead, say so; the one you have is lost then."
)
DISK_FULL = (
    "The disk is full: {needed} more are needed in {folder}. Make room, or choose another folder, "
    "then go on; what has been downloaded stays."
)
IN_THE_WAY = (
    "The folder {folder} is where the game has a file, and there is something in it. "
    "Move it away, or choose another folder for the game."
)
NOT_WRITABLE = "The folder {folder} cannot be written to ({why}). Choose another one."
FOLDER_BUSY = (
    "Another host's game is being downloaded into the folder {folder} just now. Wait until that is "
    "done, or choose another folder for this host."
)
LINE_CUT = "The connection was cut. It goes on by itself in {seconds}; nothing is fetched twice."
DAMAGED = "{count} of the game's files are missing or damaged. Repair fetches just these."
DAMAGED_ONE = "One of the game's files is missing or damaged: {path}. Repair fetches just this one."
BAD_DOWNLOAD = (
    "The file {path} arrived damaged twice. The owner's files may have changed; try again later, "
    "or tell the owner."
)
FILES_CHANGED = "The owner has put up another version of the game; the list of files is read anew."
NO_FILES = (
    "This host hands out no game files just now. If you have the game, choose its folder under "
    "Settings."
)
FILE_UNAVAILABLE = "The host cannot hand out {path} just now. Tell the owner."
NO_PROGRAM = "The game's program was not found: {program}. Look at the command under Settings."
BAD_COMMAND = "The command to start the game cannot be read: {why}."
RELAY_BUSY = (
    "Another program uses port {port} of this PC, which the game needs. Is another launcher, or "
    "a game, still running? Close it and press Play again."
)
GAME_ENDED = "The game has ended."
GAME_FAILED = "The game ended with an error ({code}). Its own log may say why."
FULL = "The host is full or busy at the moment. The launcher goes on trying."
VERSION = (
    "The host plays another version of the game by now, and yours may not fit it. Press Repair: "
    "only what differs is downloaded."
)
TOO_MANY_HOSTS = "You have joined as many hosts as the launcher can keep. Remove one first."


MEET = {
    "city": "You meet them in the city.",
    "dojo": "Go to the dojo: you meet them there.",
    "menu": "Ask them into your party.",
    "hunt": "{hunt}. Nobody can join a hunt under way: be in their party for the next one.",
    "tutorial": "In the tutorial, where everybody is alone at first.",
}
"""How to join a friend who is online, by where they are; the game's contract has no other ways."""


def meeting(where: str, title: str, players: int, room: int) -> str:
    """Return how to join a friend there; empty if nothing is known."""
    full = f", {players} of {room}" if room else ""
    return MEET.get(where, "").format(hunt=f"{title or 'On a hunt'}{full}")


PLACES = {
    "menu": "in the menu",
    "city": "in the city",
    "hunt": "on a hunt",
    "dojo": "in the dojo",
    "tutorial": "in the tutorial",
}


MOST_NAMED = 3  # characters of a player


def place(where: str) -> str:
    """Return where a player is, as others read it."""
    return PLACES.get(where, "online")


def profile(
    username: str, level: int, characters: Sequence[str], ranks: int, unlocks: int, friends: int
) -> str:
    """Describe the player on a host in one line; ``level`` 0 means unknown."""
    others = [f"{len(characters) - MOST_NAMED} more"] if len(characters) > MOST_NAMED else []
    names = listed([*characters[:MOST_NAMED], *others])
    who = f"{username} (level {level})" if level else username
    plays = f"{who} plays {names}." if characters else f"{who} is new here."
    has = listed(
        [
            counted(ranks, "rank of mastery", "ranks of mastery"),
            counted(unlocks, "unlock", "unlocks"),
            counted(friends, "friend", "friends"),
        ]
    )
    return f"{plays} {has[0].upper()}{has[1:]}."


def listed(names: Sequence[str]) -> str:
    """Join names: ``Ann, Bob and Cy``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def counted(count: int, singular: str, plural: str) -> str:
    """Format a count: ``no friends``, ``1 friend``, ``2 friends``."""
    return f"{count or 'no'} {singular if count == 1 else plural}"


MASTERY = "MasteryTrack_"  # with which the id of a mastery begins; a pass has another one


def track_name(track: str) -> str:
    """Return a mastery or pass as readable words, from its id."""
    words = track.removeprefix(MASTERY).replace("_", " ")
    words = re.sub(r"\Aseason0*(\d)", r"Season \1", words)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words)


def duration(seconds: float) -> str:
    """Format a waiting time."""
    whole = max(1, round(seconds))
    if whole < 100:
        return "one second" if whole == 1 else f"{whole} seconds"
    if whole < 100 * 60:
        return f"{round(whole / 60)} minutes"
    return f"{whole / 3600:.1f} hours"


def pace(rate: float, seconds_left: float | None) -> str:
    """Format a download's speed and the time left; empty while it does not run."""
    parts = [f"{amount(rate)} a second"] if rate > 1 else []
    return ", ".join(
        [*parts, *([] if seconds_left is None else [f"{duration(seconds_left)} left"])]
    )


def amount(size: float) -> str:
    """Format a number of bytes: ``1.5 GB``."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit in ("bytes", "KB") else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError  # the loop returns at the last unit
