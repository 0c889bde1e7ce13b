// Asks the launcher. The link's token works once; the session it was exchanged for stays in this tab.

const KEPT = "launcher-session";
const PATIENCE = 30_000; // milliseconds: the launcher answers at once, or has ended
const MOST_OF_A_FILE = 65_536; // bytes that the launcher takes, far more than a key file has
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
  const sent = body === undefined || body instanceof Blob ? body : JSON.stringify(body);
  if (typeof sent === "string") headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: sent, signal: AbortSignal.timeout(PATIENCE) });
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

// The file goes from the browser to the launcher as it is: nothing here reads it, so no key is ever in the page.
export async function bring(file, replace) {
  try {
    return await call("POST", replace ? "/api/import/replace" : "/api/import", file.slice(0, MOST_OF_A_FILE));
  } catch (why) {
    if (!(why instanceof Closed) || why.message !== "gone") throw why;
    return { sentence: "That file cannot be read any more. Choose it again." }; // if it is the launcher, the next round says so
  }
}

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
