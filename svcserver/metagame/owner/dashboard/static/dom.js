// Elements from data. Text only ever becomes text.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((one) => one !== null && one !== undefined));
  return node;
}

export function button(text, act, kind = "") {
  const made = el("button", { type: "button", class: kind || null }, text);
  made.addEventListener("click", async () => {
    made.disabled = true;
    try {
      await act();
    } finally {
      made.disabled = false;
    }
  });
  return made;
}

export function card(title, actions, ...inside) {
  const head = title ? [el("header", {}, el("h2", {}, title), el("div", { class: "actions" }, ...actions))] : [];
  return el("section", { class: "card" }, ...head, ...inside);
}

export function nothing(text) {
  return el("p", { class: "nothing" }, text);
}

/** columns: [heading, class]; rows: arrays of text or nodes. */
export function table(caption, columns, rows) {
  const heads = columns.map(([name, kind]) => el("th", { scope: "col", class: kind }, name));
  const lines = rows.map((row) =>
    el("tr", {}, row.map((cell, at) => el("td", { class: columns[at][1] }, cell ?? ""))));
  return el("div", { class: "scroll" },
    el("table", { "aria-label": caption, class: columns[columns.length - 1][0] ? null : "acts" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, lines)));
}

export function badge(text, kind = "") {
  return el("span", { class: `badge ${kind}` }, text);
}

export function head(title, about, ...actions) {
  return el("div", { class: "page-head" },
    el("div", {}, el("h1", {}, title), about ? el("p", {}, about) : null),
    el("div", { class: "actions" }, ...actions));
}
