// Asks the launcher. The link's token works once; the session it was exchanged for stays in this tab.

const KEPT = "launcher-session";
const PATIENCE = 30_000; // milliseconds: the launcher answers at once, or has ended
let session = "";

export class Closed extends Error {}

export async function enter() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, "", "/");
    const answer = await send("POST", "/api/enter", { token });
    if (answer.status === 200) {
      session = (await answer.json()).session;
      sessionStorage.setItem(KEPT, session);
      return;
    }
  }
  session = sessionStorage.getItem(KEPT) ?? "";
  if (!session) throw new Closed("link");
}

function send(method, path, body) {
  const headers = session ? { "X-Launcher-Session": session } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(PATIENCE) });
}

async function call(method, path, body) {
  let answer;
  try {
    answer = await send(method, path, body);
  } catch {
    throw new Closed("gone");
  }
  if (answer.status === 403) throw new Closed("link");
  const said = await answer.json();
  if (!answer.ok && !said.sentence) said.sentence = "The launcher cannot read that. Nothing was changed.";
  return said;
}

export const state = () => call("GET", "/api/state");
export const join = (invite) => call("POST", "/api/join", { invite });
export const quit = () => call("POST", "/api/quit", {});
export const bring = (path, replace) => call("POST", "/api/import", { path, replace });

// One act after another: Play pressed right after Save must find what was saved.
let before = Promise.resolve();
export function act(host, what, body = {}) {
  const now = before.then(() => call("POST", `/api/hosts/${host}/${what}`, body));
  before = now.catch(() => null);
  return now;
}

export async function picture(host, number) {
  try {
    const answer = await send("GET", `/api/hosts/${host}/pictures/${number}`);
    return answer.ok ? URL.createObjectURL(await answer.blob()) : null;
  } catch {
    return null; // the next round says that the launcher has ended
  }
}
