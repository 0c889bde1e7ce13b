// Says so when nothing is heard of the server, and how old what is shown has become.

const SILENT_MS = 7_000;

let heardAt = Date.now();
let watched = false;
let waiting = []; // what to do as soon as the server is heard again

const at = (id) => document.getElementById(id);

export function heard() {
  heardAt = Date.now();
  if (!at("away").hidden) tick();
  const again = waiting;
  waiting = [];
  for (const one of again) one();
}

/** The server did not answer: say it at once, and call `again` when it does. */
export function away(again) {
  if (again) waiting.push(again);
  at("away").hidden = !watched;
  say();
}

export function watch(on) {
  watched = on;
  heardAt = Date.now();
  waiting = [];
  at("away").hidden = true;
}

export function forget() {
  waiting = [];
}

function say() {
  at("away-since").textContent = `${Math.round((Date.now() - heardAt) / 1000)}\u00a0s`;
}

function tick() {
  if (!watched) return;
  const silent = Date.now() - heardAt >= SILENT_MS;
  if (at("away").hidden === silent) at("away").hidden = !silent;
  if (silent) say();
}

setInterval(tick, 1000);
