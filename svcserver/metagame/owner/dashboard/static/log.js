// The end of the metagame's log, as it grows.

import { read } from "./api.js";
import { card, el, head, nothing } from "./dom.js";

const KEPT = 500;
const LEVELS = ["debug", "info", "warn", "error", "critical"];
const OWN = /\/svc\/(dashboard|api\/Dashboard)\S* gs=0 200/; // this page looking at itself
const READABLE = /^(\S+Z) (debug|info|warn|error|critical) (\S+): (.*)$/;

export async function log(root, live) {
  const text = el("input", { type: "search", placeholder: "Only lines with…", "aria-label": "Only lines with", autocomplete: "off" });
  const level = el("select", { "aria-label": "From which level" },
    [["debug", "Everything"], ["info", "From info"], ["warn", "Warnings and errors"], ["error", "Errors"]].map(([value, words]) => el("option", { value }, words)));
  const place = el("div", { class: "log", role: "log", tabindex: "0", "aria-label": "Log lines" });
  const lines = [];
  let last = 0;
  const draw = () => {
    const low = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    const wanted = text.value.toLowerCase();
    const shown = lines.filter((one) => LEVELS.indexOf(one.level) >= LEVELS.indexOf(level.value) && one.text.toLowerCase().includes(wanted));
    place.replaceChildren(...(shown.length ? shown.map(row) : [nothing("No line like that.")]));
    if (low) place.scrollTop = place.scrollHeight;
  };
  text.addEventListener("input", draw);
  level.addEventListener("change", draw);
  root.replaceChildren(head("Log", "The last 500 lines of the metagame; keys, tokens and codes are left out."),
    el("div", { class: "tools" }, text, level), card(null, [], place));
  await live.every(2, async () => {
    const said = await read("DashboardLog", { after: last });
    if (said.last < last) lines.length = 0; // it was started again
    last = said.last;
    if (!said.lines.length && lines.length) return;
    for (const line of said.lines.filter((one) => !OWN.test(one))) lines.push(understood(line, lines[lines.length - 1]));
    lines.splice(0, Math.max(0, lines.length - KEPT));
    if (live.shown()) draw();
  });
}

function understood(line, before) {
  if (line.startsWith("{")) {
    try {
      const { time, level, namespace, message } = JSON.parse(line);
      return { time, level, from: namespace, text: message };
    } catch { /* cut short: shown as it is */ }
  }
  const found = READABLE.exec(line);
  if (found) return { time: found[1], level: found[2], from: found[3], text: found[4] };
  return { time: "", level: before?.level ?? "info", from: "", text: line };
}

function row(one) {
  const time = one.time ? new Date(one.time).toLocaleTimeString(undefined, { hour12: false }) : "";
  return el("div", { class: one.level }, el("time", {}, time), el("span", { class: "level" }, one.time ? one.level : ""),
    el("span", { class: "text" }, one.from ? el("span", { class: "from" }, `${one.from.replace("svcserver.", "")}  `) : "", one.text));
}
