// The audit log: acts of staff and refused attempts.

import { inTurn, read } from "./api.js";
import { badge, button, card, el, head, linked, nothing, redraw, table } from "./dom.js";
import { act, show } from "./dialog.js";
import { exactly } from "./words.js";

const KEPT = 2000; // rows shown on a page that is open for days

export async function audit(root, live) {
  const box = (name, label) => el("input", { type: "search", id: `audit-${name}`, class: "search", placeholder: label, maxlength: 64, autocomplete: "off", "aria-label": label });
  const actor = box("actor", "Filter by actor"), target = box("target", "Filter by target");
  const place = el("div", {});
  root.replaceChildren(head("Audit", "Everything staff did, and every attempt that was refused. Nobody can change the log."),
    el("form", { class: "tools", submit: (event) => { event.preventDefault(); look().catch(failed); } }, actor, target,
      el("button", { type: "submit" }, "Show")), place);
  const failed = (why) => redraw(place, card(null, [], nothing(why.message)));
  let shown = [], next = null, only = {};
  const ask = (more) => read("DashboardAudit", { ...only, ...more });
  const draw = () => {
    const more = next === null ? [] : [el("p", { class: "foot" }, button("Show more", () => act(older)))];
    if (live.shown()) redraw(place, card(null, [], shown.length ? rows(shown) : nothing("No rows match."), ...more));
  };
  const [look, older, newer] = inTurn(async () => {
    only = { actor: actor.value.trim(), target: target.value.trim() };
    ({ rows: shown, next } = await ask({}));
    draw();
  }, async () => {
    if (next === null) return; // all are shown by now
    const said = await ask({ until: next });
    shown = [...shown, ...said.rows];
    next = said.next;
    draw();
  }, async () => { // rows never change: only newer ones can appear
    const said = await ask({});
    const fresh = said.rows.filter((one) => !shown.some((known) => known.id === one.id));
    if (fresh.length === said.rows.length) ({ rows: shown, next } = said);
    else if (shown.length + fresh.length <= KEPT) shown = [...fresh, ...shown];
    else {
      shown = [...fresh, ...shown].slice(0, KEPT);
      next = shown[KEPT - 1].id;
    }
    if (fresh.length) draw();
  });
  await look();
  return newer;
}

function rows(found) {
  return table("Audit log", [["When"], ["Who"], ["What"], ["On"], ["Why", "wide-only"], ["", "end"]], found.map((one) => [
    exactly(one.at), linked(one.actor), el("span", {}, one.action, " ", cameOf(one)),
    one.targetKind === "account" ? linked(one.target) : one.target || "–", one.reason || "–",
    el("div", { class: "actions" }, button("Details", () => details(one)))]), found.map((one) => one.id));
}

/** The outcome of an act; empty for a success. */
function cameOf(one) {
  if (one.refused) return badge("refused", "accent");
  if (one.after?.begun) return badge("started");
  const outcome = one.after?.outcome; // such as "no answer: it may have been done"
  return outcome ? badge(outcome.split(":")[0], "accent") : "";
}

function details(one) {
  const text = (value) => el("pre", { class: "mono" }, value === null ? "–" : JSON.stringify(value, null, 1));
  show(`Audit: ${one.action} ${one.target}`, true, el("dl", { class: "facts" },
    el("dt", {}, "Before"), el("dd", {}, text(one.before)), el("dt", {}, "After"), el("dd", {}, text(one.after)),
    el("dt", {}, "Refused"), el("dd", {}, one.refused ?? "no")));
}
