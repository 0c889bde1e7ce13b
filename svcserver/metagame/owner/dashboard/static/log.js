// The end of the log of all services that the stack runs, as it grows.

import { read } from "./api.js";
import { card, el, head, nothing, redraw } from "./dom.js";

const MAX_LINES = 1000, AT_FIRST = 100; // lines; the others follow the first frame
const LEVELS = ["debug", "info", "warn", "error", "critical"];
const BY_PAGE = /^GET (\/svc\/dashboard[\/ ]|.* page=[0-9a-f]+( omitted=\d+)?$)/; // by a dashboard, of any staff
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }); // made once: slow
const OF = /^\[([a-z0-9-]+)\] /;
const READABLE = /^(\S+Z) (debug|info|warn|error|critical) (\S+): (.*)$/;

export function log(root, live) {
  const field = (label) => el("input", { type: "search", placeholder: label, "aria-label": label, autocomplete: "off", input: () => draw() });
  const text = field("Filter by text"), actor = field("Filter by player");
  const level = select("Minimum level", [["debug", "Everything"], ["info", "Info and above"], ["warn", "Warnings and errors"], ["error", "Errors"]]);
  const service = select("Service", [["", "All services"]]);
  const place = el("div", { class: "log", role: "log", tabindex: "0", "aria-label": "Log lines" });
  const alone = el("p", { class: "muted", hidden: true },
    "This page shows only the metagame's log. The other logs are collected only if svc-stack runs the host. With systemd, use journalctl -u 'svc-*'.");
  let lines = [], ids = [], most = AT_FIRST;

  function select(label, options) {
    return el("select", { "aria-label": label, change: () => draw() }, options.map(([value, words]) => el("option", { value }, words)));
  }
  function draw() {
    const low = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    const top = place.scrollTop, wanted = text.value.toLowerCase(), who = actor.value.trim().toLowerCase();
    const of = (entry) => !who || [who, ...ids].some((id) => entry.text.toLowerCase().includes(id));
    const shown = lines.filter((entry) => LEVELS.indexOf(entry.level) >= LEVELS.indexOf(level.value)
      && (!service.value || entry.service === service.value) && entry.text.toLowerCase().includes(wanted) && of(entry));
    place.replaceChildren(...(shown.length ? shown.slice(-most).map(row) : [nothing("No lines match.")]));
    place.scrollTop = low ? place.scrollHeight : top;
  }
  function known() {
    const there = new Set([...service.options].map((entry) => entry.value));
    for (const name of [...new Set(lines.map((entry) => entry.service))].sort()) {
      if (name && !there.has(name)) service.append(el("option", { value: name }, name));
    }
  }
  // lines name players by account id more often than by name
  actor.addEventListener("change", async () => {
    const who = actor.value.trim();
    ids = [];
    if (who) ids = await read("DashboardPerson", { Account: who.slice(0, 64) }).then((account) => [account.id, account.name.toLowerCase()], () => []);
    if (live.shown()) draw();
  });
  const top = el("div", {});
  const title = (whose) => redraw(top, head("Log", `The last lines of ${whose}. Keys, tokens and codes are removed.`));
  title("all services");
  root.replaceChildren(top,
    el("div", { class: "tools" }, text, actor, service, level), alone, card(null, [], place));
  return (update) => {
    if (update.fresh) lines = [];
    alone.hidden = !update.alone;
    title(update.alone ? "the metagame" : "all services");
    for (const line of update.lines) {
      const entry = understood(line, lines[lines.length - 1]);
      if (!entry.from?.endsWith("requestlog") || !BY_PAGE.test(entry.text)) lines.push(entry); // changes stay
    }
    lines.splice(0, Math.max(0, lines.length - MAX_LINES));
    known();
    draw();
    if (most === AT_FIRST) {
      most = MAX_LINES;
      setTimeout(() => live.shown() && draw(), 100);
    }
  };
}

function understood(whole, before) {
  const service = OF.exec(whole)?.[1] ?? "";
  const line = service ? whole.slice(service.length + 3) : whole;
  if (line.startsWith("{")) {
    try {
      const { time, level, namespace, message } = JSON.parse(line);
      return { service, time, level, from: namespace, text: message };
    } catch { /* truncated: shown as it is */ }
  }
  const match = READABLE.exec(line);
  if (match) {
    const [, time, level, from, text] = match;
    return { service: service || "stack", time, level, from, text };
  }
  return { service, time: "", level: before?.level ?? "info", from: "", text: line };
}

function row(entry) {
  const time = entry.time ? CLOCK.format(new Date(entry.time)) : "";
  return el("div", { class: entry.level }, el("time", {}, time), el("span", { class: "level" }, entry.time ? entry.level : ""),
    el("span", { class: "text" }, el("span", { class: "from" }, [entry.service, entry.from?.replace("svcserver.", "")].filter(Boolean).join(" "), "  "), entry.text));
}
