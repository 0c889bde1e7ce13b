// The chat rooms and who is in them, without what is written there.

import { badge, card, el, head, nothing, person, redraw } from "./dom.js";
import { count } from "./words.js";

export function chat(root) {
  root.replaceChildren(head("Chat", "Loading…"));
  return (chat) => redraw(root, ...drawn(chat));
}

function drawn(chat) {
  if (!chat.on) {
    return [head("Chat"), card(null, [], nothing("The chat is not running. Set CHAT=1 in metagame.env and restart the metagame. If it still does not run, see the log."))];
  }
  const fullest = Math.max(1, ...chat.rooms.map((room) => room.count));
  const rooms = chat.rooms.map((room) => el("li", { class: "room" },
    el("div", {}, el("strong", {}, room.title), " ", room.kind === room.title ? null : badge(room.kind), el("p", { class: "names" }, names(room))),
    el("div", {}, el("p", {}, count(room.count, "player")), bar(room.count / fullest))));
  const more = chat.roomCount > chat.rooms.length ? [el("p", { class: "foot muted small" }, `and ${count(chat.roomCount - chat.rooms.length, "smaller room")}`)] : [];
  return [
    head("Chat", `${count(chat.people, "player")} on ${count(chat.connections, "connection")} in ${count(chat.roomCount, "room")}`),
    card("Rooms", [], rooms.length ? el("ul", { class: "list" }, rooms) : nothing("Nobody is in a room."), ...more)];
}

function names(room) {
  const rest = room.count - room.names.length;
  return [...room.names.flatMap((name, at) => [at ? ", " : "", person(name)]), rest > 0 ? ` and ${rest} more` : ""];
}

function bar(share) {
  const fill = el("i", {});
  fill.style.width = `${Math.round(share * 100)}%`;
  return el("div", { class: "bar", "aria-hidden": "true" }, fill);
}
