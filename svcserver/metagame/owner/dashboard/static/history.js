// The host's history of a day or a week: bars for the availability of each service.

import { read } from "./api.js";
import { el, svg } from "./dom.js";
import { count } from "./words.js";

export const RANGES = [["hour", "1 hour"], ["day", "24 hours"], ["week", "7 days"]];
const BARS = { day: 24, week: 28 };
const SHORT = 0.9; // a bar with less availability shows an outage

/** The name of a range, after "in the last". */
export function named(range) {
  return range === "hour" ? "hour" : RANGES.find(([value]) => value === range)[1];
}

export function readHistory(range) {
  return read("DashboardHistory", { range });
}

/** The column of this name, or undefined. */
export function column(columns, name) {
  return columns.find((entry) => entry.name === name)?.values;
}

/** The share of time in which a service was not down, with bars; null without a history. */
export function uptime(name, history) {
  const values = history ? column(history.services, name) : null;
  if (!values) return null;
  const each = values.length / BARS[history.range], bars = [];
  for (let at = 0; at < values.length; at += each) bars.push(average(values.slice(at, at + each)));
  const outages = bars.filter((share) => share !== null && share < 1).length;
  const words = `${percent(average(values))} in ${named(history.range)}`;
  const label = `${name}: up ${words}, ${outages ? `down in ${count(outages, "bar")} of ${bars.length}` : "never down"}`;
  return el("div", { class: "uptime" },
    svg("svg", { viewBox: `0 0 ${5 * bars.length - 1} 20`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      bars.map((share, at) => bar(share, at, history.since + at * each * history.stepSeconds))),
    el("span", { class: "muted small" }, words));
}

/** A bar: the worse, the taller, so that its colour is never the only sign. */
function bar(share, at, began) {
  const kind = share === null ? "none" : share === 1 ? "good" : share >= SHORT ? "warn" : "bad";
  const top = { none: 17, good: 7, warn: 3, bad: 0 }[kind];
  const time = new Date(1000 * began).toLocaleString(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
  return svg("rect", { class: kind, x: 5 * at, y: top, width: 4, height: 20 - top },
    svg("title", {}, `from ${time}: ${share === null ? "not measured" : `up ${percent(share)}`}`));
}

function average(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** A share in percent, rounded down: only a service that was never down has 100 %. */
function percent(share) {
  return `${Math.floor(10_000 * share) / 100} %`;
}
