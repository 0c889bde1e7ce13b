// One account: its details, saves and progression.

import { Refused, inTurn, read, send } from "./api.js";
import { REASON, ask, copy } from "./dialog.js";
import { badge, button, card, el, head, linked, nothing, redraw } from "./dom.js";
import { place } from "./overview.js";
import { handling, lift } from "./people.js";
import { progression } from "./progression.js";
import { saves } from "./saves.js";
import { moderators } from "./staff.js";
import { ago, exactly } from "./words.js";

export async function account(root, live, who, list) {
  let said = {};
  const page = {
    ...live,
    again: () => again(),
    draw: () => live.shown() && draw(root, page, said, who, list),
  };
  const [again] = inTurn(async () => {
    said = await found(who);
    page.draw();
  });
  await again();
  return again;
}

async function found(who) {
  const one = await read("DashboardPerson", { Account: who.slice(0, 64) }).catch(none);
  if (!one) return {};
  const [history, report] = await Promise.all([
    read("SaveHistory", { UserId: one.id }).catch(none),
    read("Progression", { UserId: one.id }).catch(none),
  ]);
  return { one, history, report };
}

function draw(root, live, { one, history, report }, who, list) {
  if (!one) {
    redraw(root, head("No such account", who), card(null, [], nothing("It may have been renamed or removed.")));
    return;
  }
  const back = el("a", { href: list, class: "small" }, "All accounts");
  const acts = handling(one, live, () => rename(one));
  const about = card("About", [button("Copy id", () => copy(one.id, "Account id"))], el("dl", { class: "facts inside" }, facts(one, live)));
  redraw(root,
    el("div", {}, back, head(one.name)),
    acts.length ? el("div", { class: "columns even" }, about, actions(acts)) : about,
    ...saves(history, one, live), ...(report ? progression(report, one, live) : []));
}

function actions(groups) {
  return card("Actions", [], el("div", { class: "inside groups" }, groups.map(([title, acts]) =>
    el("div", { class: "group" }, el("h3", {}, title), el("div", { class: "actions" }, acts)))));
}

function facts(one, live) {
  const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];
  return [
    ...fact("Account id", el("span", { class: "mono" }, one.id)),
    ...fact("Role", one.role === "player" ? "player" : badge(one.role, "accent")),
    ...fact("Now", one.where ? badge(place(one.where), "good") : "not online"),
    ...fact("Last seen", one.lastSeen ? `${exactly(one.lastSeen)} (${ago(one.lastSeen)})` : "never"),
    ...fact("Since", exactly(one.createdAt)),
    ...fact("Key", el("span", { class: "mono" }, one.keyFingerprint ? `fingerprint ${one.keyFingerprint}` : "none")),
    ...fact("Notes", one.notes.toLocaleString()),
    ...sanction("ban", "Banned", "Unban", one, live), ...sanction("mute", "Muted", "Unmute", one, live),
  ];
}

function sanction(kind, word, undo, one, live) {
  const held = one[kind];
  if (!held) return [];
  const until = held.until ? `until ${exactly(held.until)}` : "no end";
  return [el("dt", { "data-key": word }, word), el("dd", { "data-key": undo }, `${until}, by `, linked(held.by), held.reason ? `: ${held.reason} ` : " ",
    held.note ? el("p", { class: "muted small" }, held.note) : null,
    held.networks.length ? el("p", { class: "muted small mono" }, `with ${held.networks.join(", ")}`) : null,
    moderators(undo, () => lift({ Kind: kind, UserId: one.id, Username: one.name }, live)))];
}

function none(why) {
  if (why instanceof Refused && why.status === 404) return null;
  throw why;
}

async function rename(one) {
  await ask({
    title: `Rename ${one.name}`, text: "The account is renamed now, and all its characters take the same name.",
    fields: [{ name: "name", label: "New name (3 to 16 letters, digits or _)", value: one.name }, REASON], confirm: "Rename",
    run: async ({ name, reason }) => {
      const said = await send("RenameUser", { UserId: one.id, NewUsername: name, Reason: reason });
      return `${said.OldUsername} is now ${said.Username}`;
    },
    again: () => {
      history.replaceState(null, "", `#/accounts/${encodeURIComponent(one.id)}`); // the old name is no longer valid
      dispatchEvent(new HashChangeEvent("hashchange"));
    },
  });
}
