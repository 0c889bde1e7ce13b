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
  return history.Characters.flatMap((character) => {
    const cards = [card(`Saves of ${character.Name}`, [el("span", { class: "muted small" }, count(character.CharacterVersions.length, "version"))],
      ...folded(live, `saves ${character.CharacterId}`, character.CharacterVersions, (shown) => versions(character, shown, account, live)))];
    if (character.LoadoutVersions.length) {
      cards.push(card(`Loadouts of ${character.Name}`, [el("span", { class: "muted small" }, count(character.LoadoutVersions.length, "version"))],
        ...folded(live, `loadouts ${character.CharacterId}`, character.LoadoutVersions, (shown) => loadouts(character, shown, account, live))));
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

function versions(character, shown, account, live) {
  const newest = character.CharacterVersions[0];
  return table(`Saves of ${character.Name}`, [["Version"], ["Saved"], ["By", "wide-only"], ["Size", "wide-only end"], ["", "end"]],
    shown.map((version) => {
      const at = character.CharacterVersions.indexOf(version);
      const before = character.CharacterVersions[at + 1];
      const acts = [];
      const changes = (older, newer) => compare("DashboardSaveDiff", character, character.Name, older, newer);
      if (before) acts.push(button("Changes", () => changes(before, version)));
      if (version !== newest) {
        acts.push(button("Compare with newest", () => changes(version, newest)), owners("Roll back", () => back(character, version, account, live), "danger"));
      }
      return [el("span", {}, String(version.Version), " ", version === newest ? badge("now", "accent") : null), exactly(version.SavedDate),
        reason(version.Reason), size(version.Size), el("div", { class: "actions" }, acts)];
    }), shown.map((version) => String(version.Version)));
}

function loadouts(character, shown, account, live) {
  const newest = character.LoadoutVersions[0];
  return table(`Loadouts of ${character.Name}`, [["Version"], ["Saved"], ["By", "wide-only"], ["", "end"]], shown.map((version) => {
    const before = character.LoadoutVersions[character.LoadoutVersions.indexOf(version) + 1];
    const acts = [];
    const changes = (older, newer) => compare("DashboardLoadoutDiff", character, `Loadouts of ${character.Name}`, older, newer);
    if (before) acts.push(button("Changes", () => changes(before, version)));
    if (version !== newest) {
      acts.push(button("Compare with newest", () => changes(version, newest)), owners("Roll back", () => backLoadout(character, version, account, live), "danger"));
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

async function compare(route, character, name, older, newer) {
  let reply;
  const versions = { CharacterId: character.CharacterId, From: older.Version, To: newer.Version };
  if (!await act(async () => { reply = await read(route, versions); })) return;
  const title = `${name}: version ${older.Version} to ${newer.Version}`;
  if (reply.tooLarge) return show(title, false, el("p", {}, "These saves are too large to compare."));
  if (!reply.changes.length) return show(title, false, el("p", {}, "The two versions are identical."));
  const rows = reply.changes.map((change) => [change.path || "(whole document)",
    change.before === null ? null : el("span", { class: "gone" }, `− ${change.before}`),
    change.after === null ? null : el("span", { class: "new" }, `+ ${change.after}`)]);
  const lines = el("div", { class: "diff" }, table(title, [["Where"], [`Version ${older.Version}`], [`Version ${newer.Version}`]], rows));
  const more = reply.more ? [el("p", { class: "muted small" }, `and ${count(reply.more, "further change")}`)] : [];
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

async function rolled(route, character, version, input, account) {
  if (input.kick) await send("DashboardKick", { Account: account.id, Reason: input.reason || "rolled back" });
  return send(route, { CharacterId: character.CharacterId, Version: version.Version, Reason: input.reason });
}

async function back(character, version, account, live) {
  const input = await question(`Roll ${character.Name} back to version ${version.Version}?`,
    `The save of ${exactly(version.SavedDate)} becomes the newest. This deletes no version: you can return to any version in the same way.`, account);
  if (!input) return;
  await act(() => rolled("RollbackCharacter", character, version, input, account), (reply) =>
    `${character.Name} was rolled back to version ${reply.RolledBackTo}. A copy of that version is now the newest version, ${reply.UpdateVersion}${off(input)}`, live.again);
}

async function backLoadout(character, version, account, live) {
  const input = await question(`Roll the loadouts of ${character.Name} back to version ${version.Version}?`,
    `The loadouts of ${exactly(version.SavedDate)} become the newest.`, account);
  if (!input) return;
  await act(() => rolled("RollbackLoadout", character, version, input, account), (reply) =>
    `The loadouts of ${character.Name} were rolled back to version ${reply.RolledBackTo}${off(input)}`, live.again);
}

function off(input) {
  return input.kick ? "; the player is logged out" : "";
}
