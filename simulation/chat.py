"""The players' actions in the chat."""

import random

from simulation.chat_client import DOMAIN, Chat
from simulation.player import SimPlayer
from svcserver.players.chat import Line
from svcserver.players.http import NoAnswer

CITY = "City-1"  # a room that everybody may enter


async def chat_in(me: SimPlayer, dice: random.Random) -> None:
    """Log in to the chat and join the rooms of the city, the party and the guild."""
    older, me.chat = me.chat, None
    if older is not None:
        older.ended()
    chat = me.chat = _chat(me, f"V2:svc:WIN::{dice.getrandbits(128):032x}")
    began, sitting, issued = me.now, me.sitting, me.issued
    number = me.history.waiting.began(f"{me.name} logs in to the chat", began, 200.0)
    try:
        chat.connect(me.process)
        await chat.log_in(me.token)
        for room in (CITY, me.party and f"Party-{me.party}", me.guild and f"Guild-{me.guild}"):
            if room:
                await enter(me, room)
    except NoAnswer:
        here = me.chat is chat and not me.process.dead and sitting == me.sitting
        if here and not chat.hasty and not me.is_over(issued):
            me.history.answers.unanswered(me.name, "the chat", began)
        raise
    finally:
        me.history.waiting.ended(number)


def _chat(me: SimPlayer, resource: str) -> Chat:
    """Return a chat session that records in the history each line that it receives."""
    talk, who = me.history.chat, f"{me.name}/{resource[-6:]}"

    def on_line(line: Line) -> None:
        if not line.is_whisper:
            talk.check_received(
                line.local, who, line.text, own=line.resource == chat.nick, now=me.now
            )
        elif not line.text.startswith("{"):  # the host's own news of friends
            talk.whispered(line.text, who)

    def on_end() -> None:
        for room in list(talk.rooms):
            talk.left(room, who, me.now)

    chat = Chat(me.process, me.account, me.name, DOMAIN, resource, on_line, on_end=on_end)
    chat.on_removed = lambda room: talk.left(room, who, me.now)
    chat.on_refused = talk.refuses
    return chat


async def enter(me: SimPlayer, room: str) -> None:
    """Join a room and record the time: the player must receive each later line of the room."""
    chat, began, issued = me.chat, me.now, me.issued
    if chat is None or not chat.alive:
        return
    if await chat.enter(room):
        me.history.chat.entered(room, f"{me.name}/{chat.resource[-6:]}", me.now)
    # other rooms may be left meanwhile by other actions
    elif room == CITY and not me.is_over(issued):
        me.history.answers.check_status(me.name, "enter", room, 403, began)


async def speak(me: SimPlayer, dice: random.Random) -> None:
    """Send a whisper, or lines to a room."""
    if me.chat is None or not me.chat.alive:
        await chat_in(me, dice)
    chat = me.chat
    if chat is None or not chat.alive:
        return
    wanted = f"Party-{me.party}" if me.party else ""
    if wanted and wanted not in chat.rooms:
        for room in [joined for joined in chat.rooms if joined.startswith("Party-")]:
            me.history.chat.left(room, f"{me.name}/{chat.resource[-6:]}", me.now)
            chat.leave(room)
        await enter(me, wanted)
    if not chat.rooms or not chat.alive:
        return
    room = dice.choice(chat.rooms)
    for _ in range(dice.randrange(1, 4)):
        text = me.history.chat.utters(f"line # of {me.name} <&>", me.now)
        chat.send_to_room(room, text)
        me.history.chat.spoke(room, f"{me.name}/{chat.resource[-6:]}", text)
    second = me.choose_peer(dice)
    if second is not None and dice.random() < 0.4:
        text = me.history.chat.utters(f"whisper # of {me.name}", me.now)
        chat.whisper(second.account, text)
        there = second.chat is not None and f"{second.name}/{second.chat.resource[-6:]}"
        if there and me.history.chat.is_there(there, me.now):
            me.history.chat.owes(text, there, f"{me.name}/{chat.resource[-6:]}")
