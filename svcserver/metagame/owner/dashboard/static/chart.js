// Lines over time, as small SVG. Missing values are gaps; a reader hears the newest in words.

import { el, svg } from "./dom.js";
import { clock, short } from "./words.js";

const HIGH = 168, LEFT = 44, BOTTOM = 22, TOP = 8;
const COLOURS = ["one", "two", "three"];

/** times: epoch seconds; series: [{name, values}] with numbers or null. */
export function chart({ title, unit, times, series, from, to, wide, decimals = 1 }) {
  const x = (at) => LEFT + ((at - from) / (to - from || 1)) * (wide - LEFT);
  const top = ceiling(Math.max(...series.flatMap((one) => one.values.map((value) => value ?? 0)), 0));
  const y = (value) => TOP + (1 - value / top) * (HIGH - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${wide} ${HIGH}`, role: "img",
    "aria-label": `${title}: ${series.map((one) => `${one.name} ${shown(last(one.values), unit)}`).join(", ")}` });
  const labels = [0, top / 2, top].map((value) => {
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: wide, y1: y(value), y2: y(value) }));
    return svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, short(value));
  });
  for (const share of [0, 0.5, 1]) {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    labels.push(svg("text", { x: x(from + share * (to - from)), y: HIGH - 4, "text-anchor": anchor },
      clock(from + share * (to - from))));
  }
  series.forEach((one, at) => draw(picture, times, one.values, COLOURS[at], x, y, at === 0 && series.length === 1));
  const cross = svg("line", { class: "cross", y1: TOP, y2: HIGH - BOTTOM, visibility: "hidden" });
  picture.append(...labels, cross);
  const moment = el("span", {});
  const values = series.map(() => el("b", {}));
  const tell = (at) => {
    moment.textContent = at === null ? "" : clock(times[at]);
    series.forEach((one, i) => {
      values[i].textContent = shown(at === null ? last(one.values) : one.values[at], unit, decimals);
    });
  };
  const move = (event) => {
    if (!times.length) return;
    const box = picture.getBoundingClientRect();
    const wanted = from + (((event.clientX - box.left) / box.width) * wide - LEFT) / (wide - LEFT) * (to - from);
    const at = times.reduce((best, time, i) => Math.abs(time - wanted) < Math.abs(times[best] - wanted) ? i : best, 0);
    cross.setAttribute("x1", x(times[at]));
    cross.setAttribute("x2", x(times[at]));
    cross.setAttribute("visibility", "visible");
    tell(at);
  };
  picture.addEventListener("pointermove", move);
  picture.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    tell(null);
  });
  tell(null);
  const legend = series.map((one, at) => el("span", {}, el("span", { class: `key ${COLOURS[at]}` }), `${one.name} `, values[at]));
  return el("figure", { class: "card chart" },
    el("figcaption", {}, el("strong", {}, title), el("span", { class: "legend" }, moment, legend)), picture);
}

function draw(picture, times, values, colour, x, y, filled) {
  let line = "", open = false, start = 0;
  const areas = [];
  values.forEach((value, at) => {
    if (value === null || value === undefined) {
      open = false;
      return;
    }
    line += `${open ? "L" : "M"}${x(times[at]).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!open) areas.push([]);
    areas[areas.length - 1].push(`${x(times[at]).toFixed(1)} ${y(value).toFixed(1)}`);
    open = true;
  });
  if (filled) {
    for (const area of areas) {
      const [first, final] = [area[0].split(" ")[0], area[area.length - 1].split(" ")[0]];
      picture.append(svg("path", { class: "area", d: `M${first} ${y(start)}L${area.join("L")}L${final} ${y(start)}Z` }));
    }
  }
  picture.append(svg("path", { class: `line ${colour}`, d: line, "vector-effect": "non-scaling-stroke" }));
}

function last(values) {
  return values.length ? values[values.length - 1] : null;
}

function shown(value, unit, decimals = 1) {
  if (value === null || value === undefined) return "–";
  return `${Number.isInteger(value) ? value : value.toFixed(decimals)}${unit}`;
}

function ceiling(value) {
  if (value <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].map((one) => one * step).find((one) => one >= value * 1.02) ?? 20 * step;
}
