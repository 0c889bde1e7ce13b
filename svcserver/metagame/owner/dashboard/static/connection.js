// Shows when the server does not answer, and how old the page's data is.

const SILENT_MS = 7_000;

let heardAt = Date.now();
let watched = false;
let waiting = false; // reload as soon as the server answers
let look = () => {}; // reloads the current page

const at = (id) => document.getElementById(id);

/** The server answered, if only with a refusal. */
export function answered() {
  heardAt = Date.now();
  if (!at("away").hidden) tick();
}

export function heard() {
  answered();
  if (!waiting) return;
  waiting = false;
  look();
}

/** The server did not answer: show it at once, and reload the page when it does. */
export function away() {
  waiting = true;
  at("away").hidden = !watched;
  say();
}

/** The page could not be reloaded: it stays, and the banner shows how old it is. */
export function unread(why) {
  if (why.status === undefined) console.error(why); // a bug of the page, not of the server
  else if (why.status === 0) away();
}

export function watch(on) {
  watched = on;
  heardAt = Date.now();
  waiting = false;
  at("away").hidden = true;
}

/** Another page is shown, which `again` reloads. */
export function shows(again) {
  waiting = false;
  look = again;
}

function say() {
  at("away-since").textContent = `${Math.round((Date.now() - heardAt) / 1000)}\u00a0s`;
}

function tick() {
  if (!watched || document.hidden) return; // a hidden page has no stream
  const silent = Date.now() - heardAt >= SILENT_MS;
  if (at("away").hidden === silent) at("away").hidden = !silent;
  if (silent) say();
}

setInterval(tick, 1000);
document.addEventListener("visibilitychange", () => { heardAt = Date.now(); });
