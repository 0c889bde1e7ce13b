// The chat rooms and who is in them, without what is written there.

import { badge, card, el, head, nothing, person, redraw } from "./dom.js";
import { count } from "./words.js";

export function chat(root) {
  root.replaceChildren(head("Chat", "Loading…"));
  return (said) => redraw(root, ...drawn(said));
}

function drawn(said) {
  if (!said.on) {
    return [head("Chat"), card(null, [], nothing("The chat is not running. Set CHAT=1 in metagame.env and restart the metagame. If it still does not run, see the log."))];
  }
  const fullest = Math.max(1, ...said.rooms.map((one) => one.count));
  const rooms = said.rooms.map((one) => el("li", { class: "room" },
    el("div", {}, el("strong", {}, one.title), " ", badge(one.kind), el("p", { class: "names" }, names(one))),
    el("div", {}, el("p", {}, count(one.count, "player")), bar(one.count / fullest))));
  const more = said.roomCount > said.rooms.length ? [el("p", { class: "foot muted small" }, `and ${count(said.roomCount - said.rooms.length, "smaller room")}`)] : [];
  return [
    head("Chat", `${count(said.people, "player")} on ${count(said.connections, "connection")} in ${count(said.roomCount, "room")}`),
    card("Rooms", [], rooms.length ? el("ul", { class: "list" }, rooms) : nothing("Nobody is in a room."), ...more)];
}

function names(one) {
  const rest = one.count - one.names.length;
  return [...one.names.flatMap((name, at) => [at ? ", " : "", person(name)]), rest > 0 ? ` and ${rest} more` : ""];
}

function bar(share) {
  const fill = el("i", {});
  fill.style.width = `${Math.round(share * 100)}%`;
  return el("div", { class: "bar", "aria-hidden": "true" }, fill);
}
