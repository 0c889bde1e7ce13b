// Every setting of the host, and changes to those that may change at run time.

import { inTurn, read, send } from "./api.js";
import { REASON, ask } from "./dialog.js";
import { badge, button, card, el, head, nothing, redraw, table } from "./dom.js";
import { state } from "./icons.js";

const LONGEST = 80; // characters of a value in the table
const WORDS = { 1: "On", 0: "Off", OPEN: "Open: anyone may register", INVITECODE: "Invite code: only with a code", NONE: "Closed: nobody may register" };
const SOURCES = { default: "default", file: "file", environment: "environment", page: "changed here", command: "svcctl registration" };
const ROLLING = ["metagame", "deploy", "content"];

export async function settings(root, live) {
  const text = el("input", { type: "search", class: "search", placeholder: "Search settings", "aria-label": "Search settings", autocomplete: "off", value: live.query.get("text"), input: () => draw() });
  const only = el("select", { "aria-label": "Show", change: () => draw() },
    [["", "All settings"], ["live", "Changeable without a restart"], ["set", "Not the default"]].map(([value, words]) => el("option", { value }, words)));
  const place = el("div", { class: "stack" });
  let sections = [];
  let stack = true;
  root.replaceChildren(head("Settings", "You can change some settings here; they apply at once. To change any other setting, edit its file and restart its service."),
    el("div", { class: "tools" }, text, only), place);
  const note = () => (stack ? null : card(null, [], el("p", { class: "inside muted small" }, "No svc-stack runs these services. A value in a service's environment overrides the file. This page sees only the metagame's environment, so other services may use other values than those shown.")));
  const fits = (row) => (!only.value || (only.value === "live" ? row.live : row.source !== "default"))
    && `${row.name} ${row.meaning}`.toLowerCase().includes(text.value.trim().toLowerCase());
  const draw = () => {
    const shown = sections.map((section) => [section, section.settings?.filter(fits)]).filter(([, rows]) => !rows || rows.length);
    redraw(place, note(), shown.length ? shown.map(([section, rows]) => drawn(section, rows, stack, again)) : card(null, [], nothing("No settings match.")));
  };
  const [again] = inTurn(async () => {
    ({ sections, stack } = await read("DashboardSettings"));
    if (live.shown()) draw();
  });
  await again();
  return again;
}

function drawn(section, rows, stack, again) {
  if (!rows) return card(section.title, [], nothing(`The metagame has no permission to read ${section.file}.`));
  const rolling = stack && ROLLING.includes(section.component);
  const restart = rolling ? "run svcctl restart --rolling" : `restart svc-${stack ? "stack" : section.component}`;
  const after = section.component === "relay" ? ". New invites contain the change." : `, then ${restart}.`; // players run the relay
  const made = card(section.title, [], el("p", { class: "names" }, "Edit ", el("code", {}, section.file), after),
    section.restart ? el("p", { class: "names" }, state("warn", `The file has changed since svc-${section.component} started: ${restart}.`)) : "",
    table(section.title, [["Setting"], ["Value"], ["Set by"], ["", "end"]], rows.map((row) => [
      el("div", {}, el("code", {}, row.name), el("p", { class: "names" }, sentence(row.meaning))),
      el("div", {}, value(row), row.source === "default" ? null : el("p", { class: "names" }, `Default: ${byDefault(row)}`)),
      el("div", {}, row.source === "page" ? badge(SOURCES.page, "accent") : SOURCES[row.source],
        row.restart ? el("p", {}, state("warn", `restart needed: ${restart}`)) : null),
      row.live ? el("div", { class: "actions" }, button("Change", () => change(row, again)),
        ["page", "command"].includes(row.source) ? button("Reset", () => reset(row, section, again)) : null) : "",
    ]), rows.map((row) => row.name)));
  made.classList.add("settings");
  return made;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function byDefault(row) {
  return row.default.replace(/^unset = /, "") || "none";
}

function value(row) {
  if (row.isSecret) return row.source === "default" ? "not set" : "set, hidden";
  if (row.value === null) return byDefault(row);
  const words = row.options.includes("1") ? WORDS[row.value] : row.value;
  return el("code", {}, words.length > LONGEST ? `${words.slice(0, LONGEST)}…` : words || "empty");
}

function change(row, again) {
  const options = row.options.length ? row.options.map((option) => [option, WORDS[option] ?? option]) : null;
  return ask({
    title: `Change ${row.name}`, text: `${sentence(row.meaning)}.${row.allowed && !options ? ` Allowed: ${row.allowed}.` : ""}`, confirm: "Change",
    fields: [{ name: "value", label: "Value", options, value: row.value, longest: 1024, optional: true }, REASON],
    run: async ({ value: wanted, reason }) => {
      await send("DashboardSetting", { Name: row.name, Value: wanted, Reason: reason });
      return `${row.name} changed`;
    },
    again,
  });
}

function reset(row, section, again) {
  return ask({
    title: `Reset ${row.name}?`, text: `The value in ${section.file} applies again. If this file has no value, the default applies.`, confirm: "Reset", fields: [REASON],
    run: async ({ reason }) => {
      await send("DashboardSetting", { Name: row.name, Reason: reason });
      return `${row.name} reset`;
    },
    again,
  });
}
