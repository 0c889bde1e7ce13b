// Requests to the launcher. The link's token works once; its session stays in this tab.

const STORAGE_KEY = "launcher-session";
const TIMEOUT = 30_000; // milliseconds; the launcher answers at once unless it has ended
const MAX_KEY_FILE = 65_536; // bytes that the launcher accepts, far more than a key file has
let session = "";

export class Closed extends Error {}

export async function enter() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, "", "/");
    const answer = await send("POST", "/api/enter", { token });
    if (answer.status === 200) {
      session = (await answer.json()).session;
      sessionStorage.setItem(STORAGE_KEY, session);
      return;
    }
  }
  session = sessionStorage.getItem(STORAGE_KEY) ?? "";
  if (!session) throw new Closed("link");
}

function send(method, path, body) {
  const headers = session ? { "X-Launcher-Session": session } : {};
  const content = body === undefined || body instanceof Blob ? body : JSON.stringify(body);
  if (typeof content === "string") headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: content, signal: AbortSignal.timeout(TIMEOUT) });
}

async function call(method, path, body) {
  let answer;
  try {
    answer = await send(method, path, body);
  } catch {
    throw new Closed("gone");
  }
  if (answer.status === 403) throw new Closed("link");
  const reply = await answer.json();
  if (!answer.ok && !reply.sentence) reply.sentence = "The launcher rejected this request. Nothing was changed.";
  return reply;
}

export const state = () => call("GET", "/api/state");
export const join = (invite) => call("POST", "/api/join", { invite });
export const restart = () => call("POST", "/api/restart", {});
// The request outlives the page. The launcher ends a minute after its last page.
export const leave = () => fetch("/api/closed", { method: "POST", headers: { "X-Launcher-Session": session }, body: "{}", keepalive: true }).catch(() => null);
export const quit = () => call("POST", "/api/quit", {});

// The browser sends the file unread, so no key is ever in the page.
export async function bring(file, replace) {
  try {
    return await call("POST", replace ? "/api/import/replace" : "/api/import", file.slice(0, MAX_KEY_FILE));
  } catch (error) {
    if (!(error instanceof Closed) || error.message !== "gone") throw error;
    return { sentence: "That file can no longer be read. Choose it again." }; // if the launcher ended, the next poll shows it
  }
}

// One action after another: Play pressed right after Save must use the saved settings.
let previous = Promise.resolve();
export function act(host, action, body = {}) {
  const current = previous.then(() => call("POST", `/api/hosts/${host}/${action}`, body));
  previous = current.catch(() => null);
  return current;
}

export async function picture(host, number) {
  try {
    const answer = await send("GET", `/api/hosts/${host}/pictures/${number}`);
    return answer.ok ? URL.createObjectURL(await answer.blob()) : null;
  } catch {
    return null; // the next poll shows that the launcher has ended
  }
}
