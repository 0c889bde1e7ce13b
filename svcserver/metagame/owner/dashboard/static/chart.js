// Lines over time, drawn by uPlot (uplot.js, MIT). Screen readers get the newest values as text.

import { show } from "./dialog.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";
import { clock, short } from "./words.js";

const HIGH = 190, LARGE = 400;
const COLOURS = ["--one", "--two", "--three"];

const plots = new Map(); // by figure element, of those on the page
addEventListener("theme", () => plots.forEach((plot) => plot.redraw()));

/** Remember `plot`, to redraw it when the colours change; drop plots that left the page. */
function remember(node, plot) {
  for (const old of [...plots.keys()]) if (!old.isConnected) plots.delete(old);
  plots.set(node, plot);
  return plot;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * `button()` shows a large chart in a dialog; `draw`, as of `chart`, gives and updates its values.
 * The arrow keys choose a time in it.
 */
export function enlargeable(title, unit, names) {
  let newest = null, large = null;
  const open = () => {
    large = drawing(title, unit, names, true);
    show(`${title} over time`, true, large.node);
    if (newest) large.draw(...newest);
  };
  return {
    button: () => el("button", { type: "button", class: "quiet enlarge", "aria-label": `Enlarge ${title}`, title: "Enlarge", click: open }, icon("enlarge")),
    draw: (...values) => {
      newest = values;
      if (large?.node.isConnected) large.draw(...values);
    },
  };
}

/** A figure and `draw(times, values, from, to)`: epoch seconds, and a list per series of numbers, null (a gap) or undefined. */
export function chart(title, unit, names) {
  const small = drawing(title, unit, names), large = enlargeable(title, unit, names);
  small.node.firstChild.append(large.button());
  return { node: small.node, draw: (...values) => [small, large].forEach((each) => each.draw(...values)) };
}

/** A chart without a button to enlarge it. */
export function drawing(title, unit, names, large = false) {
  const high = large ? LARGE : HIGH;
  const moment = el("span", {});
  const shown = names.map(() => el("b", {}));
  const legend = names.map((name, at) => el("span", {}, el("span", { class: `key ${["one", "two", "three"][at]}` }), `${name} `, shown[at]));
  const place = el("div", { class: "plot", role: large ? "slider" : "img", tabindex: large ? "0" : null, "aria-label": title, "aria-valuemin": large ? "0" : null, keydown: (event) => large && !event.altKey && !event.ctrlKey && !event.metaKey && step(event) });
  const node = el("figure", { class: large ? "large chart" : "card chart" },
    el("figcaption", {}, large ? null : el("strong", {}, unit ? `${title} (${unit.trim()})` : title), el("span", { class: "legend" }, moment, legend)), place);
  let plot = null, data = [[]], far = false, near = false;

  const tell = (at) => {
    moment.textContent = at === null ? "" : far ? `${day(data[0][at])}, ${clock(data[0][at])}` : clock(data[0][at], near);
    names.forEach((name, index) => { shown[index].textContent = worded(at === null ? last(data[index + 1]) : data[index + 1]?.[at], unit); });
    if (!large) return;
    place.setAttribute("aria-valuemax", String(Math.max(0, data[0].length - 1)));
    place.setAttribute("aria-valuenow", String(at ?? Math.max(0, data[0].length - 1)));
    place.setAttribute("aria-valuetext", [moment, ...legend.filter((entry) => !entry.hidden)].map((entry) => entry.textContent).filter(Boolean).join(", "));
  };
  const step = (event) => {
    const end = data[0].length - 1, at = plot?.cursor.idx ?? end;
    const next = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: end }[event.key];
    if (next === undefined || end < 0) return;
    event.preventDefault(); // the dialog does not scroll
    plot.setCursor({ left: plot.valToPos(data[0][Math.min(end, Math.max(0, next))], "x"), top: 0 });
  };
  const begin = () => new uPlot({
    width: Math.max(240, place.clientWidth), height: high, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [axis({ size: 32, values: (_, ticks) => ticks.map((tick, at) => named(tick, ticks, at)) }),
      axis({ size: large ? 76 : 52, values: (_, ticks) => ticks.map((tick) => `${short(tick)}${large ? unit : ""}`) })],
    series: [{}, ...names.map((name, at) => ({ label: name, stroke: () => colour(COLOURS[at]), width: 1.75,
      points: { show: false, size: 5, filter: (made, index) => alone(made.data[index]) },
      fill: names.length === 1 ? () => `${colour(COLOURS[0])}22` : undefined }))],
    hooks: { setCursor: [(made) => tell(made.cursor.idx ?? null)] },
  }, data, place);

  const draw = (times, values, from, to) => {
    data = [times, ...values];
    far = to - from > 86_400;
    near = to - from <= 1800; // a sample every few seconds
    const known = values.map((series) => series.some((value) => value !== null && value !== undefined));
    legend.forEach((entry, at) => { entry.hidden = !known[at] && known.includes(true); });
    plot ??= remember(node, begin());
    plot.batch(() => {
      plot.setData(data, false);
      plot.setScale("x", { min: from, max: to });
    });
    tell(times.length > plot.cursor.idx ? plot.cursor.idx : null); // which stays where the reader has put it
    if (!large) place.setAttribute("aria-label", `${title}: ${names.flatMap((name, at) => legend[at].hidden ? [] : `${name} ${worded(last(values[at]), unit)}`).join(", ")}`);
  };
  new ResizeObserver(() => plot?.setSize({ width: Math.max(240, place.clientWidth), height: high })).observe(place);
  return { node, draw };
}

function axis(more) {
  const muted = () => colour("--muted");
  return { stroke: muted, font: "12px system-ui, sans-serif", grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, ...more };
}

/** The positions of values between gaps (null), which no line reaches, so they are drawn as points. */
function alone(values) {
  const known = values.flatMap((value, at) => value === undefined ? [] : [at]);
  const none = (index) => (values[known[index]] ?? null) === null;
  const points = known.filter((_, index) => !none(index) && none(index - 1) && none(index + 1));
  return points.length ? points : null;
}

function day(seconds) {
  return new Date(seconds * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

/** A label of the time axis: the time, or the day where a new day begins. */
function named(at, all, index) {
  const far = all.length > 1 && all[1] - all[0] >= 86_400;
  if (far) return day(at);
  return index > 0 && day(all[index - 1]) !== day(at) ? day(at) : clock(at, all.length > 1 && all[1] - all[0] < 60);
}

function last(values) {
  return values?.length ? values[values.length - 1] : null;
}

function worded(value, unit) {
  if (value === null || value === undefined) return "–";
  return `${Number.isInteger(value) ? value.toLocaleString() : value.toFixed(1)}${unit}`;
}
