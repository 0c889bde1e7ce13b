// Who of the staff did what, and what was refused.

import { read } from "./api.js";
import { badge, button, card, el, head, nothing, person, table } from "./dom.js";
import { show } from "./dialog.js";
import { exactly } from "./words.js";

const OF_NOBODY = /guild|invite|registration|announce|drain|roll back|game-server|passport trust/; // the target is no account

export async function audit(root, live) {
  const box = (name, label) => el("input", { type: "search", id: `audit-${name}`, class: "search", placeholder: label, maxlength: 64, autocomplete: "off", "aria-label": label });
  const actor = box("actor", "Only by"), target = box("target", "Only on");
  const place = el("div", {});
  root.replaceChildren(head("Audit", "Every act of staff and every refused try; nobody can change it."),
    el("form", { class: "tools", submit: (event) => { event.preventDefault(); look().catch(failed); } }, actor, target,
      el("button", { type: "submit" }, "Show")), place);
  const failed = (why) => place.replaceChildren(card(null, [], nothing(why.message)));
  const wanted = (more) => ({ actor: actor.value.trim(), target: target.value.trim(), ...more });
  const look = async (found = [], more = {}) => {
    const said = await read("DashboardAudit", wanted(more));
    if (!live.shown()) return;
    const all = [...found, ...said.rows];
    const next = said.next === null ? [] : [el("p", { class: "foot" }, button("Show more", () => look(all, { until: said.next })))];
    place.replaceChildren(card(null, [], all.length ? rows(all) : nothing("There is no such row."), ...next));
  };
  await look();
}

function rows(found) {
  return table("Audit log", [["When"], ["Who"], ["What"], ["On"], ["Why", "wide-only"], ["", "end"]], found.map((one) => [
    exactly(one.at), linked(one.actor), el("span", {}, one.action, " ", one.refused ? badge("refused", "accent") : ""),
    OF_NOBODY.test(one.action) ? one.target || "–" : linked(one.target), one.reason || "–",
    el("div", { class: "actions" }, button("Details", () => details(one)))]));
}

/** A name leads to its account; the user of the machine, an invite or a mode has none. */
function linked(name) {
  return /^[A-Za-z0-9_]{3,16}$/.test(name) ? person(name) : name || "–";
}

function details(one) {
  const text = (value) => el("pre", { class: "mono" }, value === null ? "–" : JSON.stringify(value, null, 1));
  show(`${one.action} ${one.target}`, true, el("dl", { class: "facts" },
    el("dt", {}, "Before"), el("dd", {}, text(one.before)), el("dt", {}, "After"), el("dd", {}, text(one.after)),
    el("dt", {}, "Refused"), el("dd", {}, one.refused ?? "no")));
}
