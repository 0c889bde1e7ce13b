// Health over time: a sample every five seconds for the last half hour, and weeks of figures from
// the database by minute, hour and day.

import { read } from "./api.js";
import { chart } from "./chart.js";
import { card, choice, el, head, nothing, redraw, tile } from "./dom.js";
import { count, short } from "./words.js";

// seconds, label, and the range requested from the database; without a range: live samples
const SPANS = [[600, "10 min"], [1800, "30 min"], [3600, "1 hour", "hour"], [86_400, "1 day", "day"], [604_800, "1 week", "week"], [4_838_400, "8 weeks", "weeks"]];
const STEPS = { 60: "One point per minute.", 3600: "One point per hour.", 86400: "One point per day." };
const TIMER_MS = 20; // the event loop is measured by a timer, whose excess is the lag
const SLOWEST = 10000;
const MAX_SAMPLES = 720;
const AGAIN_MS = 30_000;

// title, unit, each series' name and its field live and over time, and the offset to subtract
const CHARTS = [
  ["Requests", "/s", [["answered", "requestsPerSecond", "requestsPerSecond"]]],
  ["Latency", " ms", [["p50", "latencyP50UpperMs", "latencyP50UpperMs"], ["p95", "latencyP95UpperMs", "latencyP95UpperMs"]]],
  ["Errors", "", [["client errors (4xx)", "clientErrors", "clientErrors"], ["aborted", "aborted", "aborted"], ["server errors (5xx)", "serverErrors", "serverErrors"]]],
  ["Event-loop lag", " ms", [["p50", "loopP50Ms", null], ["p95", "loopP95Ms", "loopP95Ms"], ["max", "loopMaxMs", "loopMaxMs"]], TIMER_MS],
  ["Memory", " MB", [["resident", "rssMB", "rssMB"]]],
  ["Players online", "", [["players", "players", "players"], ["peak", null, "playersMost"]]],
];

export function health(root, live) {
  let chosen = SPANS[0], current = { now: Date.now() / 1000 }, samples = [], past = null;
  const about = el("p", { class: "muted", role: "status" }), choices = el("div", {}), place = el("div", { class: "columns even" });
  const charts = CHARTS.map(([title, unit, series]) => chart(title, unit, series.map(([name]) => name)));

  const draw = () => {
    redraw(choices, choice("Time range", SPANS.map((span) => [span, span[1]]), chosen, choose));
    const [seconds, , range] = chosen;
    if (range) {
      about.textContent = past ? STEPS[past.stepSeconds] : "Loading…";
      if (past) charts.forEach((chart, at) => chart.draw(past.at, CHARTS[at][2].map(([, , name]) => above(past[name] ?? blank(past.at), CHARTS[at][3])), past.now - seconds, past.now));
      return;
    }
    about.textContent = "One point every five seconds.";
    const from = current.now - seconds;
    const shown = samples.filter((sample) => sample.at > from);
    charts.forEach((chart, at) => chart.draw(shown.map((sample) => sample.at),
      CHARTS[at][2].map(([, name]) => above(shown.map((sample) => number(sample[name])), CHARTS[at][3])), from, current.now));
  };
  const look = async () => {
    const [, , range] = chosen;
    if (!range) return;
    const figures = await read("DashboardFigures", { range });
    if (!live.shown() || chosen[2] !== range) return;
    past = spread(figures);
    draw();
  };
  const choose = (span) => {
    chosen = span;
    past = null;
    draw();
    look().catch((why) => { about.textContent = why.message; });
  };
  const round = setInterval(() => {
    if (!live.shown()) return clearInterval(round);
    look().catch(() => {}); // the banner shows that the server does not answer
  }, AGAIN_MS);

  const minute = el("div", {});
  root.replaceChildren(head("Health", "Load and errors of the metagame (the central server process).", choices), minute, about, place);
  place.append(...charts.map((chart) => chart.node));
  return (update) => {
    if (update.off) {
      place.replaceChildren(card(null, [], nothing("Health is not measured on this server. Set BACKEND_HEALTH=1 in metagame.env and restart the metagame.")));
      choices.hidden = about.hidden = true;
      clearInterval(round);
      return;
    }
    current = update;
    if (update.lastMinute) redraw(minute, tiles(update.lastMinute));
    const newest = samples.length ? samples[samples.length - 1].at : 0;
    samples = [...samples, ...update.samples.filter((sample) => sample.at > newest)].slice(-MAX_SAMPLES);
    if (!chosen[2]) draw();
  };
}

function tiles({ requests, eventLoop }) {
  const slow = (value) => value === null ? "–" : `${value} ms`;
  const lag = eventLoop === null ? null : short(Math.max(0, eventLoop.p95Ms - TIMER_MS));
  return el("dl", { class: "tiles", "aria-label": "Last minute" },
    tile("Requests", `${short(requests.requestsPerSecond)}/s`, "last minute"),
    tile("Latency p95", slow(requests.latencyP95UpperMs), `p50 ${slow(requests.latencyP50UpperMs)}`),
    tile("Error rate", `${short(requests.serverErrorPercent)} %`, count(requests.serverErrors, "server error (5xx)", "server errors (5xx)"), requests.serverErrors > 0),
    tile("Event-loop lag p95", slow(lag), "last minute"));
}

/** The figures with a gap for each missing time, when no metagame ran. */
function spread(figures) {
  const step = figures.stepSeconds, there = new Map(figures.at.map((at, index) => [at, index]));
  const at = [];
  for (let time = figures.at[0] ?? figures.now; time <= figures.now; time += step) at.push(time);
  const spaced = { ...figures, at };
  for (const [name, values] of Object.entries(figures)) {
    if (name !== "at" && Array.isArray(values)) spaced[name] = at.map((time) => there.has(time) ? number(values[there.get(time)]) : null);
  }
  return spaced;
}

/** The values less `offset`. */
function above(values, offset = 0) {
  return offset ? values.map((value) => value === null || value === undefined ? value : Math.max(0, value - offset)) : values;
}
function blank(times) {
  return times.map(() => null);
}

/** The number to draw: a text stands for a value above the highest bound; a line skips an unknown one. */
function number(value) {
  return typeof value === "string" ? SLOWEST : value ?? undefined;
}
