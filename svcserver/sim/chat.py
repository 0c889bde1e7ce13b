"""What players do in the chat."""

from __future__ import annotations

import random

from svcserver.sim.chat_client import Chat
from svcserver.sim.player import (
    SimPlayer,
)


async def chat_in(me: SimPlayer, dice: random.Random) -> None:
    """Log in to the chat, and join the rooms of the city, the party and the guild."""
    if me.chat is not None and me.chat.alive:
        me.chat.ended()
    talk, account = me.history.chat, me.account
    resource = f"V2:svc:WIN::{dice.getrandbits(128):032x}"
    who = f"{me.name}/{resource[-6:]}"

    def line(kind: str, where: str, sender: str, text: str) -> None:
        if kind == "room":
            talk.heard(where, who, text, own=sender == chat.nick, now=me.now)
        elif not text.startswith("{"):  # the host's own news of friends
            talk.whispered(text, who)

    def over() -> None:
        for room in list(chat.rooms) or list(talk.rooms):
            talk.left(room, who, me.now)

    chat = Chat(me.process, account, me.name, resource, line, over)
    chat.put_out = lambda room: talk.left(room, who, me.now)
    me.chat = chat
    number = me.history.waiting.began(f"{me.name} logs in to the chat", me.now, 200.0)
    try:
        await chat.log_in(me.token)
        await enter(me, "City-1")
        if me.party:
            await enter(me, f"Party-{me.party}")
        if me.guild:
            await enter(me, f"Guild-{me.guild}")
    finally:
        me.history.waiting.ended(number)


async def enter(me: SimPlayer, room: str) -> None:
    """Join a room, and note from when on its lines must be heard."""
    chat = me.chat
    if chat is not None and chat.alive and await chat.enter(room):
        me.history.chat.entered(room, f"{me.name}/{chat.resource[-6:]}", me.now)


async def speak(me: SimPlayer, dice: random.Random) -> None:
    """Say lines in a room, or whisper."""
    if me.chat is None or not me.chat.alive:
        await chat_in(me, dice)
    chat = me.chat
    if chat is None or not chat.alive:
        return
    wanted = f"Party-{me.party}" if me.party else ""
    if wanted and wanted not in chat.rooms:
        for room in [one for one in chat.rooms if one.startswith("Party-")]:
            me.history.chat.left(room, f"{me.name}/{chat.resource[-6:]}", me.now)
            chat.leave(room)
        await enter(me, wanted)
    if not chat.rooms or not chat.alive:
        return
    room = dice.choice(chat.rooms)
    for _ in range(dice.randrange(1, 4)):
        text = f"line {len(me.history.chat.said)} of {me.name} <&>"
        me.history.chat.said[text] = me.now
        chat.say(room, text)
    other = me.other(dice)
    if other is not None and dice.random() < 0.4:
        text = f"whisper {len(me.history.chat.said)} of {me.name}"
        me.history.chat.said[text] = me.now
        chat.whisper(other.account, text)
