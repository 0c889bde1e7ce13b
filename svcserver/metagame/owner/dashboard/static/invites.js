// Invite codes: create, share, print, revoke.

import { inTurn, read, remove, send } from "./api.js";
import { REASON, act, ask, copy, say, show } from "./dialog.js";
import { badge, button, card, el, head, linked, nothing, person, qr, redraw, table } from "./dom.js";
import { count, day, exactly } from "./words.js";

const MOST_PRINTED = 50;
const NAMED = 3; // users named in a row
const EXPIRY = [["0", "never"], ["1", "after a day"], ["7", "after a week"], ["30", "after 30 days"], ["365", "after a year"]];

export async function invites(root, live) {
  let list;
  const draw = () => {
    const active = list.invites.filter((invite) => invite.usable), past = list.invites.filter((invite) => !invite.usable);
    const folded = !live.unfolded.has("past"), unfold = () => {
      live.unfolded.add("past");
      draw();
    };
    redraw(root,
      head("Invites", "A friend needs an invite code to create an account. Send the code privately.",
        active.length ? button("Print", () => print(active.slice(0, MOST_PRINTED))) : null,
        button("New invite", () => create(again), "primary")),
      card("Active", [], active.length ? listed("Invite codes", active, again) : nothing("There are no codes. Create one to invite a friend.")),
      past.length ? card("Used and expired", [folded ? button(`Show ${past.length}`, unfold) : null], folded ? null : listed("Used and expired invites", past, again)) : null,
      list.more ? el("p", { class: "muted" }, `Only ${list.invites.length} codes are listed. Revoke old ones to see the others.`) : null);
  };
  const [again] = inTurn(async () => {
    list = await read("DashboardInvites");
    if (live.shown()) draw();
  });
  await again();
  return again;
}

function listed(caption, invites, again) {
  return table(caption, [["Code"], ["Left"], ["Used by"], ["Made", "wide-only"], ["", "end"]], invites.map((invite) => [
    el("div", {}, el("code", { class: invite.code.length > 20 ? null : "whole" }, invite.code), invite.note ? el("p", { class: "names" }, invite.note) : null),
    left(invite), users(invite), made(invite),
    el("div", { class: "actions" },
      invite.usable ? [button("Share", () => share(invite.code)), button("Copy", () => copy(invite.code, "Code"))] : null,
      button("Revoke", () => revoke(invite, again), "danger"))]), invites.map((invite) => invite.code));
}

function left({ infiniteUses, usesRemaining, uses, usable, expiresAt }) {
  if (!usesRemaining && !infiniteUses) return badge("used up");
  if (!usable) return el("div", {}, badge("expired"), dated("", expiresAt));
  return el("div", {}, infiniteUses ? badge("no limit", "warn") : badge(uses ? `${usesRemaining} of ${usesRemaining + uses} uses` : count(usesRemaining, "use"), "accent"),
    expiresAt ? dated("until ", expiresAt) : null);
}

function dated(before, at, ...after) {
  return el("p", { class: "names", title: exactly(at) }, before, day(at), after);
}

function users({ uses, users: newest }) {
  if (!uses) return el("p", { class: "names" }, "nobody yet");
  const shown = newest.slice(0, NAMED);
  return el("div", {}, shown.map(({ name, at }) => el("p", { class: "names", title: exactly(at) }, person(name), ` on ${day(at)}`)),
    uses > shown.length ? el("p", { class: "names" }, shown.length ? `and ${uses - shown.length} more` : count(uses, "account")) : null);
}

function made({ madeBy, madeAt }) {
  return madeAt ? dated("", madeAt, " by ", linked(madeBy)) : "–";
}

async function create(again) {
  let codes = [];
  const input = await ask({
    title: "New invite", confirm: "Create", text: "Each use creates one account.",
    fields: [{ name: "count", label: "Number of codes", type: "number", min: 1, max: MOST_PRINTED, value: "1" },
      { name: "uses", label: "Uses of each code", type: "number", min: 1, max: 1000, value: "1" },
      { name: "days", label: "Expires", options: EXPIRY },
      { name: "note", label: "Note (only staff see it)", optional: true, longest: 64 }, REASON],
    run: async ({ count: number, uses, days, note, reason }) => {
      ({ codes } = await send("DashboardInvites", { Count: Number(number), Uses: Number(uses), Days: Number(days), Note: note, Reason: reason }));
      return codes.length === 1 ? `Invite created for ${count(Number(uses), "account")}` : `${codes.length} invites created`;
    },
    again,
  });
  if (!input) return;
  if (codes.length === 1) await share(codes[0]);
  else await print(codes.map((code) => ({ code, expiresAt: Number(input.days) ? new Date(Date.now() + Number(input.days) * 86_400_000).toISOString() : null })));
}

async function share(code) {
  let invite;
  if (!await act(async () => { invite = await send("DashboardJoin", { Code: code }); })) return;
  if (!invite.join) {
    show("Invite", false, el("p", { class: "join" }, code), el("p", { class: "muted small" }, `There is no join string: ${invite.why}.`),
      button("Copy code", () => copy(code, "Code")));
    return;
  }
  show("Invite", false, qr(invite.qr, "QR code of the join string"), el("p", { class: "muted small" }, "The string contains the code: anybody who has it can join. Paste it into the launcher."),
    el("p", { class: "join" }, invite.join), el("p", { class: "small" }, invite.letter.join(" ")),
    invite.words ? el("p", { class: "compare", "aria-label": "The check words. Read them to the player: the player's launcher must show the same words" }, invite.words) : null,
    button("Copy everything", () => copy([...invite.letter, "", invite.join].join("\n"), "Invite")));
}

/** Show a sheet with the QR code of each invite, and print it on request. */
async function print(list) {
  let cards;
  if (list.length > 9) say(`Preparing ${list.length} invites…`);
  const ready = await act(async () => {
    const { invites: made } = await send("DashboardJoinStrings", { Codes: list.map(({ code }) => code) });
    cards = list.map((invite, at) => printed(invite, made[at]));
  });
  if (!ready) return;
  const sheet = el("div", { class: "sheet" }, cards);
  show("Invites to print", true, el("p", { class: "muted small" }, "Anybody who has a code can join. Keep the sheet private."),
    button("Print", () => {
      const copied = el("div", { class: "sheet printed" }, cards.map((card) => card.cloneNode(true)));
      addEventListener("afterprint", () => copied.remove(), { once: true });
      document.body.append(copied);
      window.print();
    }), sheet);
}

function printed({ code, expiresAt }, { join, qr: rows, words }) {
  return el("div", { class: "ticket" }, rows ? qr(rows, `QR code of ${code}`) : null,
    el("strong", {}, document.getElementById("server-name").textContent), el("code", {}, code),
    expiresAt ? el("span", { class: "small" }, `until ${day(expiresAt)}`) : null,
    words ? el("span", { class: "small" }, `Check words: ${words}`) : null, join ? el("span", { class: "string" }, join) : null);
}

async function revoke(invite, again) {
  const input = await ask({ title: `Revoke ${invite.code}?`, text: "The code stops working. Accounts created with it remain.", fields: [REASON], danger: true, confirm: "Revoke" });
  if (input) await act(() => remove(`InviteCode/${encodeURIComponent(invite.code)}`, { Reason: input.reason }), () => `Invite ${invite.code} revoked`, again);
}
