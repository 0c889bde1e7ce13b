"""The texts for the player, and the formats of numbers and times in them."""

import re
from collections.abc import Sequence

UNREACHABLE = (
    "The host cannot be reached. It may be switched off or full, or your internet connection is "
    "down. The launcher keeps trying."
)
RESTARTING = "The host is restarting. The launcher keeps trying; wait a moment."
WRONG_CERTIFICATE = (
    "This is not the host of your invite: its certificate is different, so nothing was "
    "sent to it. Ask the owner for a new invite, and compare its words with the owner's. The "
    "launcher checks again every 30 seconds."
)
NOT_OUR_HOST = "This launcher does not understand the host's reply. Tell the owner."
NAME_TAKEN = "Another player has this name already. Choose another one."
NAME_FREE = "This name is free."
NAME_UNTOLD = "The host checks whether this name is free when you make your account."
NAME_INVALID = "A name has 3 to 16 letters, digits or underscores, and nothing else."
INVITE_INVALID = "This invite has been used or withdrawn. Ask the owner for a new one."
INVITE_EXPIRED = "This invite has expired. Ask the owner for a new one."
INVITE_USED_UP = (
    "This invite has been used up. If you have an account here, import its key; "
    "otherwise ask the owner for a new invite."
)
INVITE_UNKNOWN = (
    "The host does not know this invite's code: it is mistyped or withdrawn. Correct the code, or "
    "ask the owner for a new invite."
)
CODE_INVALID = (
    "An invite's code has 4 to 64 letters, digits or hyphens. You can also paste the whole invite."
)
NAME_KEPT = (
    'This invite calls the host "{new}". The launcher keeps the name under which you joined it: '
    '"{name}".'
)
CLOSED = "This host accepts no new players at the moment. Ask the owner."
TOO_OFTEN = "Too many requests. Try again in {minutes}."
REGISTER_LOST = (
    "The connection broke while the host made your account. Try the same name again. If it is now "
    "taken, your account exists: ask the owner for its key."
)
PLAYING_ELSEWHERE = "You are playing on {name}. End that game first."
LEAVE_FIRST = "End the game before you remove this host."
NO_KEY_FILE = "There is no file at {path} that can be read."
BAD_KEY_FILE = (
    'That file holds no key. Choose the file that "Save my key" wrote: its name begins with '
    "svc-key."
)
KEY_SAVED = (
    "Your key was saved to {path}. Anybody with that file can use your account: carry it to your "
    "other PC yourself, and delete it after the import."
)
WHOLE_PATH = "Enter the folder's full path. It begins with a drive letter or a slash."
PASSPORT_SAVED = (
    "Your passport was saved to {path}. Send it to the owner of another host: if that owner trusts "
    "this host, your progress can be imported there once."
)
NO_PASSPORT = "This host does not issue passports."
NO_KEY_YET = "You have no key for this host yet."
UNKNOWN_HOST = "The launcher does not know this host."
DEFECT = "Something went wrong in the launcher. Try again; its log has the details."
BANNED = "The owner of this host has banned your account. Ask the owner why, and until when."
KEY_REFUSED = (
    "The host no longer knows your key. If you renewed your key on another PC, import the new key "
    "from there. Otherwise ask the owner for a new key."
)
KEY_RENEWED = (
    "You have a new key, and the old one no longer works. Save the new one here for your other "
    "PCs, and import it there."
)
RENEW_LATER = "End the game before you renew your key; the game would be logged out."
KEY_NOT_RENEWED = "This host does not renew keys. Ask the owner for a new key."
OTHER_KEY = (
    "You are already {username} on {name}, with a different key from the one in that file. Nothing "
    "was changed. Confirm to use the file's key instead; then your current key is lost."
)
DISK_FULL = (
    "The disk is full. Free {needed} more for {folder}, or choose another folder, and continue; "
    "what has been downloaded stays. The launcher always leaves {reserve} of the disk free."
)
IN_THE_WAY = (
    "A file of the game must replace the folder {folder}, but that folder is not empty. "
    "Move the folder away, or choose another folder for the game."
)
NOT_WRITABLE = "The folder {folder} cannot be written to ({why}). Choose another one."
FOLDER_BUSY = (
    "Another host's game is being downloaded into the folder {folder}. Wait until that is done, or "
    "choose another folder for this host."
)
LINE_CUT = "The connection broke. The download continues in {seconds}; nothing is downloaded twice."
DAMAGED = '{count} files of the game are missing or damaged. "Repair" downloads only these.'
DAMAGED_ONE = 'A file of the game is missing or damaged: {path}. "Repair" downloads only this file.'
BAD_DOWNLOAD = (
    "The file {path} arrived damaged twice. The owner's files may have changed. Try again later, "
    "or tell the owner."
)
FILES_CHANGED = "The owner has published another version of the game. Try again."
NO_FILES = "The host has no game files yet. If you have the game, choose its folder under Settings."
FILE_UNAVAILABLE = "The host cannot send {path} at the moment. Tell the owner."
NO_PROGRAM = "The game's program was not found: {program}. Check the command under Settings."
BAD_COMMAND = "The command to start the game cannot be read: {why}."
METAGAME_BUSY = (
    "The game needs port {port}, which {program} uses at all addresses of this PC. Set "
    "BIND_HOST=127.0.0.1 in metagame.env, restart the host, then press Play again."
)
RELAY_BUSY = (
    "The game needs port {port} of this PC, which {program} uses. End that program, then press "
    "Play again."
)
GAME_ENDED = "The game has ended."
GAME_FAILED = "The game ended with an error ({code}). Its own log may have the reason."
FULL = "The host is full or busy at the moment. The launcher keeps trying."
VERSION = (
    "The host has changed to another version of the game, and yours may not work with it. Press "
    "Repair: only the differences are downloaded."
)
UPDATE_OFFERED = (
    "Version {version} of the launcher is available, signed by the owner of {host}. It will be "
    "installed when no game runs."
)
UPDATE_READY = (
    "Version {version} of the launcher is installed. It starts after your next game, or when you "
    "start the launcher again."
)
UPDATE_NEXT_START = (
    "Version {version} of the launcher is installed. It starts when you start the launcher again."
)
UPDATE_LATER = (
    "Version {version} of the launcher could not be downloaded. The launcher tries again."
)
UPDATE_FAILED = (
    "Version {version} of the launcher could not be installed ({why}). You keep the current "
    "version."
)
UPDATE_ASKED = (
    "{host} offers version {version} of the launcher. Take launcher updates from {host}? Its owner "
    "can then replace this program."
)
UPDATE_UNDONE = (
    "Version {version} of the launcher did not work on this PC. The launcher has returned to "
    "version {current}."
)
RESTART_LATER = "The launcher cannot restart while a game, a check or a download runs."
NOT_COPIED = "The launcher could not copy itself, so it runs from the file that you opened: {why}"
CRASHED = (
    "The launcher has crashed. The cause is in the file {path}. Start the launcher again; if it "
    "crashes again, send that file to the owner of your host."
)
CRASHED_UNKNOWN = "The launcher has crashed ({why}), and the cause could not be saved to a file."
REMOVED = (
    "The launcher is removed from this PC. Your keys and games are still in {folder}. Delete them "
    "there if you do not need them."
)
END_GAME_FIRST = "End the game first, then remove the launcher."
NOT_REMOVED = (
    "Some parts of the launcher could not be removed: {why}. Close the launcher, then try again."
)
RUNS_ALREADY = (
    "The launcher already runs, but refused the link. Open its page, and paste the invite."
)
RUNS_SILENTLY = "The launcher already runs, but does not answer. End it, then start it again."
OWN_FILES = "The launcher's own files in {folder} cannot be read: {why}. Repair or remove them."
TOO_MANY_HOSTS = "You have joined as many hosts as the launcher can keep. Remove one first."


# maps an online friend's place to a text on how to join the friend there
MEET = {
    "city": "You meet them in the city.",
    "dojo": "Go to the dojo: you meet them there.",
    "menu": "Invite them to your party.",
    "hunt": "{hunt}. Nobody can join a hunt in progress: be in their party for the next one.",
    "tutorial": "In the tutorial, where everybody is alone at first.",
}


def meeting(where: str, title: str, players: int, room: int) -> str:
    """Return a text on how to join a friend at this place; empty if the place is unknown."""
    full = f", {players} of {room}" if room else ""
    return MEET.get(where, "").format(hunt=f"{title or 'On a hunt'}{full}")


PLACES = {
    "menu": "in the menu",
    "city": "in the city",
    "hunt": "on a hunt",
    "dojo": "in the dojo",
    "tutorial": "in the tutorial",
}


MOST_NAMED = 3  # characters listed by name


def place(where: str) -> str:
    """Return a text that tells where a player is."""
    return PLACES.get(where, "online")


def profile(
    username: str, level: int, characters: Sequence[str], ranks: int, unlocks: int, friends: int
) -> str:
    """Return a one-line description of the player on a host; ``level`` 0 means unknown."""
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
    """Return the names as one text: ``Ann, Bob and Cy``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def counted(count: int, singular: str, plural: str) -> str:
    """Format a count: ``no friends``, ``1 friend``, ``2 friends``."""
    return f"{count or 'no'} {singular if count == 1 else plural}"


MASTERY = "MasteryTrack_"  # the prefix of mastery ids; pass ids have another prefix


def track_name(track: str) -> str:
    """Return a readable name for the id of a mastery or pass."""
    words = track.removeprefix(MASTERY).replace("_", " ")
    words = re.sub(r"\Aseason0*(\d)", r"Season \1", words)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words)


def duration(seconds: float) -> str:
    """Format a waiting time given in seconds."""
    whole = max(1, round(seconds))
    if whole < 100:
        return "one second" if whole == 1 else f"{whole} seconds"
    if whole < 100 * 60:
        return f"{round(whole / 60)} minutes"
    return f"{whole / 3600:.1f} hours"


def pace(rate: float, seconds_left: float | None) -> str:
    """Format a download's speed and remaining time; empty if no download runs."""
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
