// Health over time: a sample every five seconds, an hour of them.

import { Refused, read } from "./api.js";
import { chart } from "./chart.js";
import { button, card, el, head, nothing } from "./dom.js";

const SPANS = [["10 min", 600], ["30 min", 1800], ["1 hour", 3600]];
const SLOWEST = 10000;

export async function health(root, live) {
  let seconds = 600;
  let newest = 0;
  let said = { now: 0, everySeconds: 5 };
  const samples = [];
  const charts = el("div", { class: "columns charts" });
  const choices = el("div", { class: "segmented", role: "group", "aria-label": "How long back" });
  const draw = () => {
    for (const one of choices.children) one.setAttribute("aria-pressed", String(one.dataset.seconds === String(seconds)));
    paint(charts, samples, said, seconds);
  };
  for (const [words, length] of SPANS) {
    const choice = button(words, () => { seconds = length; draw(); });
    choice.dataset.seconds = length;
    choices.append(choice);
  }
  root.replaceChildren(head("Health", "How the metagame feels, a point every five seconds.", choices), charts);
  await live.every(5, async () => {
    try {
      said = await read("DashboardHealth", { after: newest });
    } catch (why) {
      if (!(why instanceof Refused) || why.status !== 404) throw why;
      charts.replaceChildren(card(null, [], nothing("Health is not watched on this server. Set BACKEND_HEALTH=1 in metagame.env and start it again.")));
      choices.hidden = true;
      return;
    }
    samples.push(...said.samples);
    while (samples.length > 720) samples.shift();
    newest = samples.length ? samples[samples.length - 1].at : 0;
    if (live.shown()) draw();
  });
}

function paint(place, samples, said, seconds) {
  const kept = samples.filter((one) => one.at > said.now - seconds);
  const columns = matchMedia("(max-width: 980px)").matches ? 1 : 2;
  const wide = Math.max(240, (place.clientWidth - (columns - 1) * 20) / columns - 42);
  const common = { times: kept.map((one) => one.at), from: said.now - seconds, to: said.now, wide };
  const all = (name) => kept.map((one) => one[name]);
  const bound = (name) => kept.map((one) => typeof one[name] === "string" ? SLOWEST : one[name]);
  place.replaceChildren(
    chart({ ...common, title: "Requests", unit: "/s", series: [{ name: "answered", values: all("requestsPerSecond") }] }),
    chart({ ...common, title: "Answer time", unit: " ms", series: [
      { name: "half within", values: bound("latencyP50UpperMs") }, { name: "95 % within", values: bound("latencyP95UpperMs") }] }),
    chart({ ...common, title: "Errors", unit: "", series: [
      { name: "refused (4xx)", values: all("clientErrors") }, { name: "broken off", values: all("aborted") },
      { name: "our fault (5xx)", values: all("serverErrors") }] }),
    chart({ ...common, title: "Event loop", unit: " ms", series: [
      { name: "half", values: all("loopP50Ms") }, { name: "95 %", values: all("loopP95Ms") }, { name: "worst", values: all("loopMaxMs") }] }),
    chart({ ...common, title: "Memory", unit: " MB", series: [{ name: "resident", values: all("rssMB") }] }),
    chart({ ...common, title: "Players online", unit: "", series: [{ name: "players", values: all("players") }] }),
  );
}
