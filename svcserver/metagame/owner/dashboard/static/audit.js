// The audit log: acts of staff and refused attempts.

import { inTurn, read } from "./api.js";
import { badge, button, card, el, head, linked, nothing, redraw, table } from "./dom.js";
import { act, show } from "./dialog.js";
import { exactly } from "./words.js";

const MAX_ROWS = 2000; // rows shown on a page that is open for days

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
    const reply = await ask({ until: next });
    shown = [...shown, ...reply.rows];
    next = reply.next;
    draw();
  }, async () => { // rows never change: only newer ones can appear
    const reply = await ask({});
    const fresh = reply.rows.filter((entry) => !shown.some((known) => known.id === entry.id));
    if (fresh.length === reply.rows.length) ({ rows: shown, next } = reply);
    else if (shown.length + fresh.length <= MAX_ROWS) shown = [...fresh, ...shown];
    else {
      shown = [...fresh, ...shown].slice(0, MAX_ROWS);
      next = shown[MAX_ROWS - 1].id;
    }
    if (fresh.length) draw();
  });
  await look();
  return newer;
}

function rows(entries) {
  return table("Audit log", [["When", "whole"], ["Who"], ["What"], ["On"], ["Why", "wide-only"], ["", "end"]], entries.map((entry) => [
    exactly(entry.at), linked(entry.actor), el("span", {}, entry.action, " ", cameOf(entry)),
    entry.targetKind === "account" ? linked(entry.target) : entry.target || "–", entry.reason || "–",
    el("div", { class: "actions" }, button("Details", () => details(entry)))]), entries.map((entry) => entry.id));
}

/** The outcome of an act; empty for a success. */
function cameOf(entry) {
  if (entry.refused) return badge("refused", "accent");
  if (entry.after?.begun) return badge("started");
  const outcome = entry.after?.outcome; // such as "no answer: it may have been done"
  return outcome ? badge(outcome.split(":")[0], "accent") : "";
}

function details(entry) {
  const text = (value) => el("pre", { class: "mono" }, value === null ? "–" : JSON.stringify(value, null, 1));
  show(`Audit: ${entry.action} ${entry.target}`, true, el("dl", { class: "facts" },
    el("dt", {}, "Before"), el("dd", {}, text(entry.before)), el("dt", {}, "After"), el("dd", {}, text(entry.after)),
    el("dt", {}, "Refused"), el("dd", {}, entry.refused ?? "no")));
}
