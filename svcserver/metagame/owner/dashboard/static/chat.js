// Who is in which chat room. What is said there is nobody's business.

import { read } from "./api.js";
import { badge, card, el, head, nothing } from "./dom.js";
import { count } from "./words.js";

export async function chat(root, live) {
  await live.every(5, async () => {
    const said = await read("DashboardChat");
    if (!live.shown()) return;
    if (!said.on) {
      root.replaceChildren(head("Chat"), card(null, [], nothing("The chat is not running. Set CHAT=1 in metagame.env and start it again; the log says why when it cannot start.")));
      return;
    }
    const fullest = Math.max(1, ...said.rooms.map((one) => one.count));
    const rooms = said.rooms.map((one) => el("li", {},
      el("div", {}, el("strong", {}, one.room), " ", badge(one.kind), el("p", { class: "names" }, names(one))),
      el("div", {}, el("p", {}, count(one.count, "player")), bar(one.count / fullest))));
    const more = said.roomCount > said.rooms.length ? [el("p", { class: "foot muted small" }, `and ${count(said.roomCount - said.rooms.length, "smaller room")}`)] : [];
    root.replaceChildren(
      head("Chat", `${count(said.people, "player")} on ${count(said.connections, "connection")} in ${count(said.roomCount, "room")}`),
      card("Rooms", [], rooms.length ? el("ul", { class: "list" }, rooms) : nothing("Nobody is in a room."), ...more));
  });
}

function names(one) {
  const rest = one.count - one.names.length;
  return one.names.join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

function bar(share) {
  const fill = el("i", {});
  fill.style.width = `${Math.round(share * 100)}%`;
  return el("div", { class: "bar", "aria-hidden": "true" }, fill);
}
