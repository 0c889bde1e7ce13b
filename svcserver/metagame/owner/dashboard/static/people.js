// What staff does to a player: ban, mute, kick, and the role.

import { send } from "./api.js";
import { act, ask } from "./dialog.js";
import { button } from "./dom.js";

const REASON = { name: "reason", label: "Reason (stands in the audit log)", optional: true, longest: 256 };
const LASTS = { name: "lasts", label: "For how long (like 2h or 7d; empty: no end)", optional: true, longest: 16 };
const NOTE = { name: "note", label: "Note for staff", optional: true, longest: 1024 };
const ROLES = [["player", "Player"], ["helper", "Helper: reads"], ["moderator", "Moderator: looks after people"], ["owner", "Owner: everything"]];

export function handling(one, live) {
  return [
    button("Kick", () => kick(one, live)),
    button("Mute", () => impose("Mute", "muted", one, live)),
    button("Ban", () => impose("Ban", "banned", one, live), "danger"),
    button("Role", () => role(one, live)),
  ];
}

async function impose(word, past, one, live) {
  const given = await ask({
    title: `${word} ${one.name}?`, danger: word === "Ban", confirm: word, fields: [LASTS, REASON, NOTE],
    text: word === "Ban" ? "The player is out of the game within a second and cannot log in." : "The player hears everything and can write nothing.",
  });
  if (given && await act(() => send(`Dashboard${word}`, { Account: one.id, For: given.lasts, Reason: given.reason, Note: given.note }),
    (said) => `${said.Username} is ${past}`)) live.again();
}

async function kick(one, live) {
  const given = await ask({ title: `Kick ${one.name}?`, text: "The player is logged off now, and may log in again.", fields: [REASON], confirm: "Kick" });
  if (given && await act(() => send("DashboardKick", { Account: one.id, Reason: given.reason }),
    (said) => `${said.Username} is logged off`)) live.again();
}

async function role(one, live) {
  const given = await ask({
    title: `Role of ${one.name}`, confirm: "Change",
    fields: [{ name: "role", label: "Role", options: ROLES, value: one.role }, REASON],
  });
  if (given && await act(() => send("DashboardRole", { Account: one.id, Role: given.role, Reason: given.reason }),
    (said) => `${said.Username} is now ${said.Role}`)) live.again();
}

export async function lift(entry, live) {
  const ban = entry.Kind === "ban";
  const given = await ask({ title: `${ban ? "Unban" : "Unmute"} ${entry.Username}?`, fields: [REASON], confirm: ban ? "Unban" : "Unmute" });
  if (given && await act(() => send(ban ? "DashboardUnban" : "DashboardUnmute", { Account: entry.UserId, Reason: given.reason }),
    (said) => `${said.Username} may ${ban ? "log in" : "write"} again`)) live.again();
}
