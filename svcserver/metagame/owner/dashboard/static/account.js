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
  let details = {};
  const page = {
    ...live,
    again: () => again(),
    draw: () => live.shown() && draw(root, page, details, who, list),
  };
  const [again] = inTurn(async () => {
    details = await load(who);
    page.draw();
  });
  await again();
  return again;
}

async function load(who) {
  const account = await read("DashboardPerson", { Account: who.slice(0, 64) }).catch(none);
  if (!account) return {};
  const [history, report] = await Promise.all([
    read("SaveHistory", { UserId: account.id }).catch(none),
    read("Progression", { UserId: account.id }).catch(none),
  ]);
  return { account, history, report };
}

function draw(root, live, { account, history, report }, who, list) {
  if (!account) {
    redraw(root, head("No such account", who), card(null, [], nothing("It may have been renamed or removed.")));
    return;
  }
  const back = el("a", { href: list, class: "small" }, "All accounts");
  const acts = handling(account, live, () => rename(account));
  const about = card("About", [button("Copy id", () => copy(account.id, "Account id"))], el("dl", { class: "facts inside" }, facts(account, live)));
  redraw(root,
    el("div", {}, back, head(account.name)),
    acts.length ? el("div", { class: "columns even" }, about, actions(acts)) : about,
    ...saves(history, account, live), ...(report ? progression(report, account, live) : []));
}

function actions(groups) {
  return card("Actions", [], el("div", { class: "inside groups" }, groups.map(([title, acts]) =>
    el("div", { class: "group" }, el("h3", {}, title), el("div", { class: "actions" }, acts)))));
}

function facts(account, live) {
  const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];
  return [
    ...fact("Account id", el("span", { class: "mono" }, account.id)),
    ...fact("Role", account.role === "player" ? "player" : badge(account.role, "accent")),
    ...fact("Now", account.where ? badge(place(account.where), "good") : "not online"),
    ...fact("Last seen", account.lastSeen ? `${exactly(account.lastSeen)} (${ago(account.lastSeen)})` : "never"),
    ...fact("Registered", exactly(account.createdAt)),
    ...fact("Key", el("span", { class: "mono" }, account.keyFingerprint ? `fingerprint ${account.keyFingerprint}` : "none")),
    ...fact("Notes", account.notes.toLocaleString()),
    ...sanction("ban", "Banned", "Unban", account, live), ...sanction("mute", "Muted", "Unmute", account, live),
  ];
}

function sanction(kind, word, undo, account, live) {
  const held = account[kind];
  if (!held) return [];
  const until = held.until ? `until ${exactly(held.until)}` : "no end";
  return [el("dt", { "data-key": word }, word), el("dd", { "data-key": undo }, `${until}, by `, linked(held.by), held.reason ? `: ${held.reason} ` : " ",
    held.note ? el("p", { class: "muted small" }, held.note) : null,
    held.networks.length ? el("p", { class: "muted small mono" }, `with ${held.networks.join(", ")}`) : null,
    moderators(undo, () => lift({ Kind: kind, UserId: account.id, Username: account.name }, live)))];
}

function none(why) {
  if (why instanceof Refused && why.status === 404) return null;
  throw why;
}

async function rename(account) {
  await ask({
    title: `Rename ${account.name}`, text: "This renames the account and all its characters at once.",
    fields: [{ name: "name", label: "New name (3 to 16 letters, digits or _)", value: account.name }, REASON], confirm: "Rename",
    run: async ({ name, reason }) => {
      const reply = await send("RenameUser", { UserId: account.id, NewUsername: name, Reason: reason });
      return `${reply.OldUsername} is now ${reply.Username}`;
    },
    again: () => {
      history.replaceState(null, "", `#/accounts/${encodeURIComponent(account.id)}`); // the old name is no longer valid
      dispatchEvent(new HashChangeEvent("hashchange"));
    },
  });
}
