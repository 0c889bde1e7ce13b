// Saves of characters and loadouts: compare and roll back.

import { read, send } from "./api.js";
import { REASON, act, ask, show } from "./dialog.js";
import { badge, button, card, el, nothing, table } from "./dom.js";
import { place } from "./overview.js";
import { owners } from "./staff.js";
import { count, exactly, size } from "./words.js";

const FIRST = 8;

export function saves(history, account, live) {
  if (!history) return [card("Saves", [], nothing("This account has no character yet."))];
  return history.Characters.flatMap((one) => {
    const cards = [card(`Saves of ${one.Name}`, [el("span", { class: "muted small" }, count(one.CharacterVersions.length, "version"))],
      ...folded(live, `saves ${one.CharacterId}`, one.CharacterVersions, (shown) => versions(one, shown, account, live)))];
    if (one.LoadoutVersions.length) {
      cards.push(card(`Loadouts of ${one.Name}`, [el("span", { class: "muted small" }, count(one.LoadoutVersions.length, "version"))],
        ...folded(live, `loadouts ${one.CharacterId}`, one.LoadoutVersions, (shown) => loadouts(one, shown, account, live))));
    }
    return cards;
  });
}

/** The first entries and a button for all; an unfolded list stays unfolded. */
function folded(live, name, all, draw) {
  if (all.length <= FIRST || live.unfolded.has(name)) return [el("div", {}, draw(all))];
  return [el("div", {}, draw(all.slice(0, FIRST))), el("p", { class: "foot" }, button(`Show all ${all.length}`, () => {
    live.unfolded.add(name);
    live.draw();
  }))];
}

function versions(one, shown, account, live) {
  const newest = one.CharacterVersions[0];
  return table(`Saves of ${one.Name}`, [["Version"], ["Saved"], ["By", "wide-only"], ["Size", "wide-only end"], ["", "end"]],
    shown.map((version) => {
      const at = one.CharacterVersions.indexOf(version);
      const before = one.CharacterVersions[at + 1];
      const acts = [];
      const changes = (older, newer) => compare("DashboardSaveDiff", one, one.Name, older, newer);
      if (before) acts.push(button("Changes", () => changes(before, version)));
      if (version !== newest) {
        acts.push(button("Compare with newest", () => changes(version, newest)), owners("Roll back", () => back(one, version, account, live), "danger"));
      }
      return [el("span", {}, String(version.Version), " ", version === newest ? badge("now", "accent") : null), exactly(version.SavedDate),
        reason(version.Reason), size(version.Size), el("div", { class: "actions" }, acts)];
    }), shown.map((version) => String(version.Version)));
}

function loadouts(one, shown, account, live) {
  const newest = one.LoadoutVersions[0];
  return table(`Loadouts of ${one.Name}`, [["Version"], ["Saved"], ["By", "wide-only"], ["", "end"]], shown.map((version) => {
    const before = one.LoadoutVersions[one.LoadoutVersions.indexOf(version) + 1];
    const acts = [];
    const changes = (older, newer) => compare("DashboardLoadoutDiff", one, `Loadouts of ${one.Name}`, older, newer);
    if (before) acts.push(button("Changes", () => changes(before, version)));
    if (version !== newest) {
      acts.push(button("Compare with newest", () => changes(version, newest)), owners("Roll back", () => backLoadout(one, version, account, live), "danger"));
    }
    return [el("span", {}, String(version.Version), " ", version === newest ? badge("now", "accent") : null),
      exactly(version.SavedDate), reason(version.Reason), el("div", { class: "actions" }, acts)];
  }), shown.map((version) => String(version.Version)));
}

function reason(text) {
  const [kind, what] = text.split(":");
  if (kind === "rollback") return `rollback to ${what}`;
  return { "save:client": "the player", "save:gameserver": "a game server", baseline: "creation" }[text] ?? text;
}

async function compare(route, one, name, older, newer) {
  let said;
  const versions = { CharacterId: one.CharacterId, From: older.Version, To: newer.Version };
  if (!await act(async () => { said = await read(route, versions); })) return;
  const title = `${name}: version ${older.Version} to ${newer.Version}`;
  if (said.tooLarge) return show(title, false, el("p", {}, "These saves are too large to compare."));
  if (!said.changes.length) return show(title, false, el("p", {}, "The two versions are identical."));
  const rows = said.changes.map((change) => [change.path || "(whole document)",
    change.before === null ? null : el("span", { class: "gone" }, `− ${change.before}`),
    change.after === null ? null : el("span", { class: "new" }, `+ ${change.after}`)]);
  const lines = el("div", { class: "diff" }, table(title, [["Where"], [`Version ${older.Version}`], [`Version ${newer.Version}`]], rows));
  const more = said.more ? [el("p", { class: "muted small" }, `and ${count(said.more, "further change")}`)] : [];
  show(title, true, lines, ...more);
}

/** Ask before a roll-back; an online player would save over it, so offer to log the player out. */
async function question(title, text, account) {
  const now = await read("DashboardPerson", { Account: account.id }).catch(() => account);
  const online = now.where ? [{ name: "kick", label: `${account.name} is online now (${place(now.where).toLowerCase()}). The next save would undo the rollback`,
    options: [["yes", "Log the player out first"], ["", "Leave the player online"]], value: "yes" }] : [];
  return ask({ title, danger: true, confirm: "Roll back", fields: [...online, REASON],
    text: `${text} ${now.where ? "" : `${account.name} is not online.`}` });
}

async function rolled(route, one, version, given, account) {
  if (given.kick) await send("DashboardKick", { Account: account.id, Reason: given.reason || "rolled back" });
  return send(route, { CharacterId: one.CharacterId, Version: version.Version, Reason: given.reason });
}

async function back(one, version, account, live) {
  const given = await question(`Roll ${one.Name} back to version ${version.Version}?`,
    `The save of ${exactly(version.SavedDate)} becomes the newest. No version is lost: you can return to a newer version in the same way.`, account);
  if (!given) return;
  await act(() => rolled("RollbackCharacter", one, version, given, account), (said) =>
    `${one.Name} has the contents of version ${said.RolledBackTo} again (stored as version ${said.UpdateVersion})${off(given)}`, live.again);
}

async function backLoadout(one, version, account, live) {
  const given = await question(`Roll the loadouts of ${one.Name} back to version ${version.Version}?`,
    `The loadouts of ${exactly(version.SavedDate)} become the newest.`, account);
  if (!given) return;
  await act(() => rolled("RollbackLoadout", one, version, given, account), (said) =>
    `The loadouts of ${one.Name} were rolled back to version ${said.RolledBackTo}${off(given)}`, live.again);
}

function off(given) {
  return given.kick ? "; the player is logged out" : "";
}
