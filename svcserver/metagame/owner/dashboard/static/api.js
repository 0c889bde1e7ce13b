// The admin routes. The key is sent once, to sign in; then the browser keeps a session that no
// script can read.

const PATIENCE_MS = 10_000; // a frozen server does not answer
const PATIENT_MS = { // until the reply begins, for slow routes
  DashboardGameServer: 35_000, // an unresponsive one is killed after ten seconds and replaced
  DashboardExport: 35_000, DashboardDelete: 35_000, // all data of an account
  DashboardOwnKey: 35_000, DashboardNewKey: 35_000, DashboardInvites: 35_000, // the reply holds the only copy
};
const FILE_MS = 35_000; // until a download begins, and between two pieces of it
const BLOB = 8 << 20; // bytes of a download that are joined
const SILENT_MS = 12_000; // a stream sends something every five seconds
const AGAIN_MS = 1_500;
const NO_WAY = [400, 401, 403, 404]; // a retry would not help

export class Refused extends Error {
  constructor(status, message, code = "", retryAfter = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter; // seconds
  }
}

const WORDS = {
  400: "The server rejected one of these values.",
  401: "The server does not know this key.",
  403: "Your role does not allow this.",
  404: "Nothing with this name exists.",
  409: "This is not possible in the current state. Reload the page and try again.",
  429: "Too many requests. Wait a moment.",
  503: "The server is not available right now.",
};
const AWAY = "The server does not answer.";
const UNSURE = "The server did not reply, so your change may or may not have been saved. Check the page when the server answers again.";

const WORD = "svc-dashboard-word";

/** The header that proves that this page sends the request; it and the cookie work only together. */
export function ours() {
  return { "x-svc-dashboard": localStorage.getItem(WORD) ?? "1" };
}

async function refusal(reply) {
  const answer = await reply.json().catch(() => ({}));
  return new Refused(reply.status, answer.message || WORDS[reply.status] || `The server answered ${reply.status}.`, answer.error, Number(reply.headers.get("Retry-After")) || null);
}

async function call(method, route, body, more = {}) {
  const headers = { ...ours(), ...more };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const cut = new AbortController();
  let watch = null;
  const wait = (most) => {
    clearTimeout(watch);
    watch = setTimeout(() => cut.abort(), most);
  };
  wait(PATIENT_MS[route] ?? PATIENCE_MS);
  try {
    const reply = await fetch(`/svc/api/${route}`, {
      method, headers, cache: "no-store", credentials: "same-origin", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body), signal: cut.signal,
    });
    if (!reply.ok) throw await refusal(reply);
    return JSON.parse(await whole(reply, () => wait(PATIENCE_MS)));
  } catch (why) {
    throw why instanceof Refused ? why : new Refused(0, AWAY);
  } finally {
    clearTimeout(watch);
  }
}

/** Read a whole body, however long it takes, as long as data keeps arriving. */
async function whole(reply, onData) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (const parts = []; ;) {
    const { done, value } = await reader.read();
    if (done) return parts.join("");
    parts.push(value);
    onData();
  }
}

export function read(route, wanted = {}) {
  const query = new URLSearchParams(wanted).toString();
  return call("GET", query ? `${route}?${query}` : route);
}

/**
 * Run the works one at a time, so that a late reply never covers a newer one. Callers during a run
 * share the next run.
 */
export function inTurn(...works) {
  let last = Promise.resolve();
  return works.map((work) => {
    let next = null;
    return () => next ??= last = last.catch(() => {}).then(() => {
      next = null;
      return work();
    });
  });
}

/** A read whose parameters do not fit in an address. */
export function gather(route, body) {
  return call("POST", route, body);
}

/** Send an act; without a reply it may have been done. */
function changing(method, route, body, more) {
  return call(method, route, body, more).catch((why) => {
    throw why.status ? why : new Refused(0, UNSURE);
  });
}

export function send(route, body) {
  return changing("POST", route, body);
}

/** Send an act that needs the key and the code of a second factor besides the session. */
export function prove(route, body, key, code) {
  const more = code ? { "x-svc-second-factor": code } : {};
  return changing("POST", route, body, { "x-svc-user-api-key": key, ...more });
}

/**
 * Start a download that needs the key and the code of a second factor. Returns the response, and an
 * abort controller that ends it.
 */
export async function fetchFile(route, body, key, code) {
  const headers = { ...ours(), "Content-Type": "application/json", "x-svc-user-api-key": key };
  if (code) headers["x-svc-second-factor"] = code;
  const cut = new AbortController();
  const watch = setTimeout(() => cut.abort(), FILE_MS);
  try {
    const reply = await fetch(`/svc/api/${route}`, {
      method: "POST", headers, cache: "no-store", credentials: "same-origin", redirect: "error", body: JSON.stringify(body), signal: cut.signal,
    });
    if (!reply.ok) throw await refusal(reply);
    return { reply, cut };
  } catch (why) {
    throw why instanceof Refused ? why : new Refused(0, AWAY);
  } finally {
    clearTimeout(watch);
  }
}

/** Read the file of `fetchFile`, however long it takes, as long as data keeps arriving. */
export async function fileOf({ reply, cut }, onData) {
  const reader = reply.body.getReader();
  const blobs = []; // the browser keeps large ones on disk
  let parts = [], held = 0, total = 0;
  for (;;) {
    const watch = setTimeout(() => cut.abort(), FILE_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(watch));
    if (done) return new Blob([...blobs, ...parts]);
    parts.push(value);
    held += value.length;
    total += value.length;
    if (held >= BLOB) {
      blobs.push(new Blob(parts));
      parts = [];
      held = 0;
    }
    onData(total);
  }
}

export function remove(route, more = {}) {
  const query = new URLSearchParams(more).toString();
  return changing("DELETE", query ? `${route}?${query}` : route);
}

export async function signIn(key, code) {
  const more = code ? { "x-svc-second-factor": code } : {};
  return signedIn(await call("POST", "DashboardSession", undefined, { "x-svc-user-api-key": key, ...more }));
}

/** Sign in with the secret of a link, which works once. */
export async function signInByLink(link) {
  return signedIn(await call("POST", "DashboardLinkSession", { Link: link }));
}

function signedIn(me) {
  localStorage.setItem(WORD, me.Word);
  return me;
}

export async function signOut() {
  try {
    await call("DELETE", "DashboardSession");
  } finally {
    localStorage.removeItem(WORD);
  }
}

const FULL = "This account has too many pages open. Close some; updates continue in a moment.";
const FULL_MS = 6_000;

/** Wait until the page is visible. */
function watched() {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((go) => {
    const shown = new AbortController();
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState !== "visible") return;
      shown.abort();
      go();
    }, { signal: shown.signal });
  });
}

/**
 * Listen to a page's stream (`page` returns its name and parameters): `hear(data)` for each update, `alive()` at any data, `refused(why)` if
 * the server refuses it; unless a retry would not help, it is tried again. A hidden page does not open a stream, because a browser has only
 * six connections to a server. Returns a function that ends it.
 */
export function listen(page, { hear, alive, refused }) {
  let over = false, cut = null;
  const round = async () => {
    cut = new AbortController();
    const silence = () => setTimeout(() => cut.abort(), SILENT_MS);
    const began = Date.now();
    let watch = silence();
    const onData = () => {
      clearTimeout(watch);
      watch = silence();
      alive();
    };
    try {
      const reply = await fetch(`/svc/api/DashboardEvents?page=${page()}`, {
        headers: { ...ours(), Accept: "text/event-stream" }, cache: "no-store", credentials: "same-origin",
        redirect: "error", signal: cut.signal,
      });
      if (!reply.ok) throw await refusal(reply);
      const full = await follow(reply.body, onData, (data) => !over && hear(data));
      if (full && !over) {
        refused(new Refused(503, FULL));
        return FULL_MS;
      }
      return Math.max(0, began + AGAIN_MS - Date.now());
    } catch (why) {
      if (!over && why instanceof Refused) {
        over = NO_WAY.includes(why.status);
        refused(why);
      }
      return AGAIN_MS;
    } finally {
      clearTimeout(watch);
    }
  };
  const rounds = async () => {
    while (!over) {
      await watched();
      if (over) return;
      const wait = await round();
      if (!over) await new Promise((go) => setTimeout(go, wait));
    }
  };
  rounds();
  return () => {
    over = true;
    cut?.abort();
  };
}

/** Read a stream to its end; returns whether the server ended it for a newer page of the same account. */
async function follow(body, onData, hear) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return false;
    onData();
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith("event: full")) return true;
      if (!event.startsWith("data: ")) continue;
      try {
        hear(JSON.parse(event.slice(6)));
      } catch (why) {
        console.error(why); // a bug of the page, not of the server
      }
    }
  }
}
