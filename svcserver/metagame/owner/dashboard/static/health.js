// Health over time: a sample every five seconds of the last half hour, and weeks of figures that
// the database keeps by minutes, hours and days.

import { read } from "./api.js";
import { chart } from "./chart.js";
import { card, choice, el, head, nothing, redraw } from "./dom.js";

// seconds that are seen, what is said of them, and the range that is asked for; none: as it happens
const SPANS = [[600, "10 min"], [1800, "30 min"], [3600, "1 hour", "hour"], [86_400, "1 day", "day"], [604_800, "1 week", "week"], [4_838_400, "8 weeks", "weeks"]];
const STEPS = { 60: "A point every minute.", 3600: "A point every hour.", 86400: "A point every day." };
const SLOWEST = 10000;
const KEPT = 720;
const AGAIN_MS = 30_000;

// title, unit, and of each series its name and where it stands, as it happens and over time
const CHARTS = [
  ["Requests", "/s", [["answered", "requestsPerSecond", "requestsPerSecond"]]],
  ["Answer time", " ms", [["half within", "latencyP50UpperMs", "latencyP50UpperMs"], ["95 % within", "latencyP95UpperMs", "latencyP95UpperMs"]]],
  ["Errors", "", [["refused (4xx)", "clientErrors", "clientErrors"], ["broken off", "aborted", "aborted"], ["our fault (5xx)", "serverErrors", "serverErrors"]]],
  ["Event loop", " ms", [["half", "loopP50Ms", null], ["95 %", "loopP95Ms", "loopP95Ms"], ["worst", "loopMaxMs", "loopMaxMs"]]],
  ["Memory", " MB", [["resident", "rssMB", "rssMB"]]],
  ["Players online", "", [["players", "players", "players"], ["most", null, "playersMost"]]],
];

export function health(root, live) {
  let chosen = SPANS[0], said = { now: Date.now() / 1000 }, samples = [], past = null;
  const about = el("p", { class: "muted", role: "status" }), choices = el("div", {}), place = el("div", { class: "columns charts" });
  const charts = CHARTS.map(([title, unit, series]) => chart(title, unit, series.map(([name]) => name)));

  const draw = () => {
    redraw(choices, choice("How long back", SPANS.map((one) => [one, one[1]]), chosen, choose));
    const [seconds, , range] = chosen;
    if (range) {
      about.textContent = past ? STEPS[past.stepSeconds] : "Asking the server…";
      if (past) charts.forEach((one, at) => one.draw(past.at, CHARTS[at][2].map(([, , name]) => past[name] ?? blank(past.at)), past.now - seconds, past.now));
      return;
    }
    about.textContent = "A point every five seconds.";
    const from = said.now - seconds;
    const shown = samples.filter((one) => one.at > from);
    charts.forEach((one, at) => one.draw(shown.map((sample) => sample.at),
      CHARTS[at][2].map(([, name]) => shown.map((sample) => number(sample[name]))), from, said.now));
  };
  const look = async () => {
    const [, , range] = chosen;
    if (!range) return;
    const found = await read("DashboardFigures", { range });
    if (!live.shown() || chosen[2] !== range) return;
    past = spread(found);
    draw();
  };
  const choose = (one) => {
    chosen = one;
    past = null;
    draw();
    look().catch((why) => { about.textContent = why.message; });
  };
  const round = setInterval(() => {
    if (!live.shown()) return clearInterval(round);
    look().catch(() => {}); // the banner says that the server does not answer
  }, AGAIN_MS);

  root.replaceChildren(head("Health", "How the metagame feels.", choices), about, place);
  place.append(...charts.map((one) => one.node));
  return (told) => {
    if (told.off) {
      place.replaceChildren(card(null, [], nothing("Health is not watched on this server. Set BACKEND_HEALTH=1 in metagame.env and start it again.")));
      choices.hidden = about.hidden = true;
      clearInterval(round);
      return;
    }
    said = told;
    const newest = samples.length ? samples[samples.length - 1].at : 0;
    samples = [...samples, ...told.samples.filter((one) => one.at > newest)].slice(-KEPT);
    if (!chosen[2]) draw();
  };
}

/** The figures with a gap wherever a time is missing: then no metagame ran, and no line is drawn. */
function spread(found) {
  const step = found.stepSeconds, there = new Map(found.at.map((at, index) => [at, index]));
  const at = [];
  for (let one = found.at[0] ?? found.now; one <= found.now; one += step) at.push(one);
  const spaced = { ...found, at };
  for (const [name, values] of Object.entries(found)) {
    if (name !== "at" && Array.isArray(values)) spaced[name] = at.map((one) => there.has(one) ? number(values[there.get(one)]) : null);
  }
  return spaced;
}

function blank(times) {
  return times.map(() => null);
}

/** A bound above which nothing is counted is sent as a text; what is not known is not drawn. */
function number(value) {
  return typeof value === "string" ? SLOWEST : value ?? null;
}
