// Builds elements from data. Text never becomes markup.

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
    if (typeof value === "function") hears(node, name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...present(children));
  return node;
}

/** Call `act` on an event; `redraw` may replace it. */
function hears(node, name, act) {
  node.acts ??= {};
  if (!node.acts[name]) node.addEventListener(name, (event) => node.acts[name](event));
  node.acts[name] = act;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined);
}

/**
 * Make `place` show `children`. Existing nodes are changed in place, so that focus, selection and
 * scroll position stay. A node with a `data-key` only ever shows the item of that key.
 */
export function redraw(place, ...children) {
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  const then = held && near(held);
  changed(place, children);
  if (held && !held.isConnected) then();
}

function changed(place, children) {
  const wanted = present(children).map((child) => child instanceof Node ? child : document.createTextNode(child));
  const keys = new Set(wanted.map(key));
  wanted.forEach((fresh, at) => {
    while (place.childNodes[at] && !keys.has(key(place.childNodes[at]))) place.childNodes[at].remove();
    const old = place.childNodes[at];
    if (!old || key(old) !== key(fresh)) place.insertBefore(fresh, old ?? null);
    else if (old !== fresh && !adopt(old, fresh)) old.replaceWith(fresh);
  });
  while (place.childNodes.length > wanted.length) place.lastChild.remove();
}

function key(node) {
  return node.dataset?.key;
}

function adopt(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return false;
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return true;
  }
  const names = Object.keys(fresh.acts ?? {});
  if (names.length !== Object.keys(old.acts ?? {}).length || !names.every((name) => old.acts[name])) return false;
  for (const name of names) old.acts[name] = fresh.acts[name];
  for (const { name } of [...old.attributes]) if (name !== "disabled" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) === value) continue;
    if (name === "style") old.style.cssText = fresh.style.cssText; // the content policy forbids the attribute
    else old.setAttribute(name, value);
  }
  changed(old, [...fresh.childNodes]);
  return true;
}

/**
 * Return a function that focuses the row of `node` if it is there again, else the row after (or
 * before) it, else the heading.
 */
function near(node) {
  const rows = [];
  const row = node.closest("tbody tr, li");
  for (let next = row?.nextElementSibling; next; next = next.nextElementSibling) rows.push(next);
  for (let next = row?.previousElementSibling; next; next = next.previousElementSibling) rows.push(next);
  const card = node.closest(".card");
  const text = node.textContent;
  return () => {
    const same = row?.dataset.key && card?.isConnected ? [...card.querySelectorAll("[data-key]")].find((entry) => key(entry) === key(row)) : null;
    const next = same ?? rows.find((row) => row.isConnected);
    const inside = next ? [...next.querySelectorAll("button, a")] : [];
    const target = inside.find((control) => control.textContent === text) ?? inside[0]
      ?? (card?.isConnected ? card.querySelector("h2") : null) ?? document.querySelector("#content h1");
    target?.focus();
  };
}

export function button(text, act, kind = "") {
  const made = el("button", { type: "button", class: kind || null });
  made.append(text);
  hears(made, "click", async ({ currentTarget: pressed }) => { // not `made`: `redraw` may have kept an older one
    const then = near(pressed);
    pressed.disabled = true;
    try {
      await act();
    } finally {
      pressed.disabled = false;
      if (document.activeElement === document.body) (pressed.isConnected ? () => pressed.focus() : then)(); // a disabled button loses the focus
    }
  });
  return made;
}

const HOLDS = { tabindex: "-1" }; // can take the focus when its owner is removed

export function card(title, actions, ...inside) {
  const head = title ? [el("header", {}, el("h2", HOLDS, title), el("div", { class: "actions" }, ...actions))] : [];
  return el("section", { class: "card" }, ...head, ...inside);
}

export function nothing(text) {
  return el("p", { class: "nothing" }, text);
}

/** columns: [heading, class]; rows: arrays of text or nodes; keys: the identity of each row for `redraw`. */
export function table(caption, columns, rows, keys = []) {
  const heads = columns.map(([name, kind]) => el("th", { scope: "col", class: kind }, name || el("span", { class: "unseen" }, "More")));
  const lines = rows.map((row, number) =>
    el("tr", { "data-key": keys[number] }, row.map((cell, at) => el("td", { class: columns[at][1], "data-label": columns[at][0] || null }, cell ?? ""))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { "aria-label": caption, class: columns[columns.length - 1][0] ? null : "acts" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, lines)));
}

/** A figure with its name and a note, for a `dl` of class "tiles", which should hold four or eight. */
export function tile(name, value, note, bad = false) {
  return el("div", { class: "card tile" }, el("dt", {}, name), el("dd", { class: bad ? "bad" : null }, value),
    el("dd", { class: "note" }, note));
}

export function badge(text, kind = "") {
  return el("span", { class: `badge ${kind}` }, text);
}

/** A player's name with a link to the account. */
export function person(name, id = name) {
  return el("a", { href: `#/accounts/${encodeURIComponent(id)}` }, el("strong", {}, name));
}

/** A name, with a link if it can be an account's; machine users, strangers, invites and modes have none. */
export function linked(name) {
  return /^[A-Za-z0-9_]{3,16}$/.test(name) ? person(name) : name || "–";
}

/** A choice as a row of buttons. */
export function choice(label, options, chosen, choose) {
  return el("div", { class: "segmented", role: "group", "aria-label": label }, options.map(([value, words]) =>
    el("button", { type: "button", "aria-pressed": String(value === chosen), click: () => choose(value) }, words)));
}

export function head(title, about, ...actions) {
  return el("div", { class: "page-head" },
    el("div", {}, el("h1", HOLDS, title), about ? el("p", {}, about) : null),
    el("div", { class: "actions" }, ...actions));
}

export function qr(rows, label) {
  const dark = rows.flatMap((row, y) => [...row].map((cell, x) => cell === "1" ? `M${x} ${y}h1v1h-1z` : "")).join("");
  const size = rows.length;
  return svg("svg", { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label, "shape-rendering": "crispEdges" },
    svg("path", { d: dark }));
}
