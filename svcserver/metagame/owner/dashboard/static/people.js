// The acts of staff on an account.

import { CODE, KEY } from "./access.js";
import { Refused, gather, prove, read, send } from "./api.js";
import { unread } from "./connection.js";
import { REASON, act, ask, copy, say, show } from "./dialog.js";
import { button, el } from "./dom.js";
import { moderators, owners } from "./staff.js";
import { count } from "./words.js";

const LASTS = { name: "lasts", label: "Duration (for example 2h or 7d; leave empty for permanent)", optional: true, longest: 16 };
const NOTE = { name: "note", label: "Note for staff", optional: true, longest: 1024 };
const ADDRESSES = { name: "addresses", label: "Addresses of the account", value: "" };
const OUT = { ...ADDRESSES,
  options: [["", "Only the account"], ["yes", "Also ban its recent IP addresses (IPv6: the whole /64). Other people on these addresses are banned, too"]] };
const SILENT = { ...ADDRESSES,
  options: [["", "Only the account"], ["yes", "Also mute its recent IP addresses (IPv6: the whole /64)"]] };
const ROLES = [["player", "Player"], ["helper", "Helper: read only"], ["moderator", "Moderator: bans, mutes and kicks"], ["owner", "Owner: everything"]];

/** The acts by group, each `[title, buttons]`; a group without a permitted act is left out. */
export function handling(account, live, rename) {
  const groups = [
    ["Player", [owners("Rename", rename), moderators("Kick", () => kick(account, live)), moderators("Mute", () => impose("Mute", "muted", account, live))]],
    ["Account", [owners("Role", () => role(account, live)), owners("New key", () => newKey(account, live)),
      owners("Move notes", () => mergeNotes(account, live)), owners("Export", () => exported(account))]],
    ["Danger", [moderators("Ban", () => impose("Ban", "banned", account, live), "danger"), owners("Delete", () => erase(account), "danger")]],
  ];
  return groups.filter(([, acts]) => acts.some(Boolean));
}

/** The fields for the key and, with a second factor, its code; null if the settings cannot be read. */
async function proof() {
  let access;
  if (!await act(async () => { access = await read("DashboardAccess"); })) return null;
  return access.secondFactor ? [KEY, CODE] : [KEY];
}

async function newKey(account, live) {
  const fields = await proof();
  if (!fields) return;
  let made;
  const input = await ask({ title: `New key for ${account.name}?`, confirm: "Create", fields: [...fields, REASON],
    text: "The old key stops working, and its sessions end now.",
    run: async ({ key, code, reason }) => {
      const body = { Account: account.id, Reason: reason };
      made = await prove("DashboardNewKey", body, key.trim(), code?.trim());
      return `${made.Username} has a new key`;
    } });
  if (!input) return;
  live.again().catch(unread); // behind the dialog with the key, which does not wait
  show(`The key of ${made.Username}`, false, el("p", { class: "join" }, made.Key),
    el("p", { class: "muted small" }, "Send it to the player, privately. It is not shown again."),
    button("Copy key", () => copy(made.Key, "Key")));
}

async function mergeNotes(account, live) {
  await ask({ title: `Move the notes (currency) of ${account.name} to another account`, confirm: "Move",
    text: `${account.name} has ${account.notes.toLocaleString()} notes (currency). All of them are moved. Use this for a player who had to start over.`,
    fields: [{ name: "to", label: "Name of the account that gets the notes", longest: 64 }, REASON],
    run: async ({ to, reason }) => {
      const reply = await send("DashboardMergeNotes", { Account: account.id, To: to.trim(), Reason: reason });
      return `${reply.Moved.toLocaleString()} notes of ${reply.Username} moved to ${reply.To}`;
    },
    again: live.again });
}

async function exported(account) {
  await act(async () => {
    const data = await gather("DashboardExport", { Account: account.id });
    save(account.name, data);
    say(`The data of ${account.name} was downloaded${without(data)}`);
  });
}

async function erase(account) {
  await ask({ title: `Delete ${account.name} for ever?`, danger: true, confirm: "Delete",
    text: "The account, its characters, saves and friendships are deleted and can only be restored from a backup. All data of the account is downloaded as a file first.",
    fields: [{ name: "name", label: `Type ${account.name} to confirm` }, REASON],
    run: (typed) => erased(account, typed),
    again: () => {
      history.pushState(null, "", "#/accounts"); // the account no longer exists
      dispatchEvent(new HashChangeEvent("hashchange"));
    } });
}

async function erased(account, { name, reason }) {
  if (name.trim() !== account.name) throw new Refused(400, "The name does not match. Nothing was deleted.");
  const what = { Account: account.id, Reason: reason };
  let data;
  try { // a lost reply must not be the only copy
    data = await gather("DashboardExport", what);
    save(account.name, data);
  } catch (why) {
    say(`The data of ${account.name} was not downloaded, so nothing was deleted.`, true);
    throw why;
  }
  const gone = await send("DashboardDelete", { ...what, Export: false }); // not a second time
  return `${gone.Username} is deleted; its data was downloaded${without(data)}`;
}

/** The rows left out of an export, in words. */
function without(data) {
  const left = Object.entries(data.leftOut).map(([table, rows]) => `${rows} of ${table}`);
  return left.length ? `, without the oldest rows: ${left.join(", ")}` : "";
}

/** Download the data as a file. */
function save(name, what) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(what, null, 1)], { type: "application/json" }));
  el("a", { href: address, download: `${name}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

async function impose(word, past, account, live) {
  const ban = word === "Ban";
  await ask({
    title: `${ban ? "Ban" : "Mute"} ${account.name}?`, danger: ban, confirm: word, fields: [LASTS, REASON, NOTE, ban ? OUT : SILENT],
    text: ban ? "The player is disconnected within a second and cannot log in." : "The player can read the chat but not write in it.",
    run: async (typed) => {
      const sent = { Account: account.id, For: typed.lasts, Reason: typed.reason, Note: typed.note, Addresses: typed.addresses === "yes" };
      const reply = await send(`Dashboard${word}`, sent);
      return `${reply.Username} is ${past}${withIt(reply.Sanction)}`;
    },
    again: live.again,
  });
}

/** The number of addresses of a ban or mute, in words; empty for none. */
export function withIt(sanction) {
  return sanction?.networks.length ? `, with ${count(sanction.networks.length, "address", "addresses")}` : "";
}

async function kick(account, live) {
  const input = await ask({ title: `Kick ${account.name}?`, text: "The player is logged out now and may log in again.", fields: [REASON], confirm: "Kick" });
  if (input) await act(() => send("DashboardKick", { Account: account.id, Reason: input.reason }), (reply) => `${reply.Username} is logged out`, live.again);
}

async function role(account, live) {
  const fields = await proof();
  if (!fields) return;
  await ask({
    title: `Role of ${account.name}`, confirm: "Change", again: live.again,
    fields: [{ name: "role", label: "Role", options: ROLES, value: account.role },
      ...fields.map((field) => ({ ...field, label: `${field.label} (needed only to give a higher role)`, optional: true })), REASON],
    run: async ({ role: given, key, code, reason }) => {
      const body = { Account: account.id, Role: given, Reason: reason };
      const reply = await (key.trim() ? prove("DashboardRole", body, key.trim(), code?.trim()) : send("DashboardRole", body));
      return `${reply.Username} is now ${reply.Role}`;
    },
  });
}

export async function lift(entry, live) {
  const ban = entry.Kind === "ban";
  const input = await ask({ title: `${ban ? "Unban" : "Unmute"} ${entry.Username}?`, fields: [REASON], confirm: ban ? "Unban" : "Unmute" });
  if (input) {
    await act(() => send(ban ? "DashboardUnban" : "DashboardUnmute", { Account: entry.UserId, Reason: input.reason }),
      (reply) => `${reply.Username} may ${ban ? "log in" : "chat"} again`, live.again);
  }
}
