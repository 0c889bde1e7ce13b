// Health over time: a sample every five seconds of the last hour.

import { chart } from "./chart.js";
import { card, choice, el, head, nothing, redraw } from "./dom.js";

const SPANS = [[600, "10 min"], [1800, "30 min"], [3600, "1 hour"]];
const SLOWEST = 10000;
const KEPT = 720;

const CHARTS = [
  ["Requests", "/s", [["answered", "requestsPerSecond"]]],
  ["Answer time", " ms", [["half within", "latencyP50UpperMs"], ["95 % within", "latencyP95UpperMs"]]],
  ["Errors", "", [["refused (4xx)", "clientErrors"], ["broken off", "aborted"], ["our fault (5xx)", "serverErrors"]]],
  ["Event loop", " ms", [["half", "loopP50Ms"], ["95 %", "loopP95Ms"], ["worst", "loopMaxMs"]]],
  ["Memory", " MB", [["resident", "rssMB"]]],
  ["Players online", "", [["players", "players"]]],
];

export function health(root) {
  let seconds = 600, said = { now: Date.now() / 1000 }, samples = [];
  const choices = el("div", {}), place = el("div", { class: "columns charts" });
  const charts = CHARTS.map(([title, unit, series]) => chart(title, unit, series.map(([name]) => name)));
  const draw = () => {
    redraw(choices, choice("How long back", SPANS, seconds, (chosen) => { seconds = chosen; draw(); }));
    const from = said.now - seconds;
    const shown = samples.filter((one) => one.at > from);
    charts.forEach((one, at) => one.draw(shown.map((sample) => sample.at),
      CHARTS[at][2].map(([, name]) => shown.map((sample) => number(sample[name]))), from, said.now));
  };
  root.replaceChildren(head("Health", "How the metagame feels, a point every five seconds.", choices), place);
  place.append(...charts.map((one) => one.node));
  return (told) => {
    if (told.off) {
      place.replaceChildren(card(null, [], nothing("Health is not watched on this server. Set BACKEND_HEALTH=1 in metagame.env and start it again.")));
      choices.hidden = true;
      return;
    }
    said = told;
    const newest = samples.length ? samples[samples.length - 1].at : 0;
    samples = [...samples, ...told.samples.filter((one) => one.at > newest)].slice(-KEPT);
    draw();
  };
}

/** A bound above which nothing is counted is sent as a text. */
function number(value) {
  return typeof value === "string" ? SLOWEST : value;
}
