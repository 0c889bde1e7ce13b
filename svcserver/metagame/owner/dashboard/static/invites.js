// Invite codes: create, share, revoke.

import { inTurn, read, remove, send } from "./api.js";
import { REASON, act, ask, copy, show } from "./dialog.js";
import { badge, button, card, el, head, nothing, qr, redraw, table } from "./dom.js";
import { count } from "./words.js";

export async function invites(root, live) {
  const [again] = inTurn(async () => {
    const { InviteCodes: codes } = await read("InviteCodes");
    if (!live.shown()) return;
    redraw(root,
      head("Invites", "A friend needs an invite code to create an account. Send the code privately.", button("New invite", () => create(again), "primary")),
      card(null, [], codes.length ? listed(codes, again) : nothing("There are no codes. Create one to invite a friend.")));
  });
  await again();
  return again;
}

function listed(codes, again) {
  return table("Invite codes", [["Code"], ["Left"], ["", "end"]], codes.map((one) => [
    el("code", {}, one.inviteCode), left(one),
    el("div", { class: "actions" }, button("Share", () => share(one.inviteCode)), button("Copy", () => copy(one.inviteCode, "Code")),
      button("Revoke", () => revoke(one, again), "danger"))]), codes.map((one) => one.inviteCode));
}

function left(one) {
  if (one.infiniteUses) return badge("no limit", "warn");
  return one.usesRemaining ? badge(count(one.usesRemaining, "use"), "accent") : badge("used up");
}

async function create(again) {
  let code = "";
  const given = await ask({
    title: "New invite", confirm: "Create", text: "Each use creates one account.",
    fields: [{ name: "uses", label: "Uses", type: "number", min: 1, max: 1000, value: "1" },
      { name: "name", label: "Note for the log (optional)", optional: true }, REASON],
    run: async ({ uses, name, reason }) => {
      ({ code } = await send("CreateInvite", { uses: Number(uses), name, Reason: reason }));
      return `Invite created for ${count(Number(uses), "account")}`;
    },
    again,
  });
  if (given) await share(code);
}

async function share(code) {
  let said;
  if (!await act(async () => { said = await send("DashboardJoin", { Code: code }); })) return;
  if (!said.join) {
    show("Invite", false, el("p", { class: "join" }, code), el("p", { class: "muted small" }, `There is no join string: ${said.why}.`),
      button("Copy code", () => copy(code, "Code")));
    return;
  }
  show("Invite", false, qr(said.qr, "QR code of the join string"), el("p", { class: "muted small" }, "The string contains the code: anybody who has it can join. Paste it into the launcher."),
    el("p", { class: "join" }, said.join), el("p", { class: "small" }, said.letter.join(" ")),
    said.words ? el("p", { class: "compare", "aria-label": "Check words: read them to the player, whose launcher must show the same words" }, said.words) : null,
    button("Copy everything", () => copy([...said.letter, "", said.join].join("\n"), "Invite")));
}

async function revoke(one, again) {
  const given = await ask({ title: `Revoke ${one.inviteCode}?`, text: "The code stops working. Accounts created with it remain.", fields: [REASON], danger: true, confirm: "Revoke" });
  if (given) await act(() => remove(`InviteCode/${encodeURIComponent(one.inviteCode)}`, { Reason: given.reason }), () => `Invite ${one.inviteCode} revoked`, again);
}
