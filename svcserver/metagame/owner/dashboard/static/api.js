// The admin routes. The key is sent once, to sign in; then the browser keeps a session that no
// script can read.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const WORDS = {
  400: "The server does not take one of these values.",
  401: "The server does not know this key.",
  403: "Your role does not allow this.",
  404: "The server has no such thing.",
  409: "The server says this cannot be done now.",
  429: "Too often; wait a moment.",
  503: "The server cannot serve just now.",
};

async function call(method, route, body, key) {
  const headers = { "x-svc-dashboard": "1" };
  if (key !== undefined) headers["x-svc-user-api-key"] = key;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(`/svc/api/${route}`, {
      method, headers, cache: "no-store", credentials: "same-origin", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  if (reply.ok) return reply.json();
  const said = await reply.json().catch(() => ({}));
  throw new Refused(reply.status, said.message || WORDS[reply.status] || `The server answered ${reply.status}.`);
}

export function read(route, wanted = {}) {
  const query = new URLSearchParams(wanted).toString();
  return call("GET", query ? `${route}?${query}` : route);
}

export function send(route, body) {
  return call("POST", route, body);
}

export function remove(route) {
  return call("DELETE", route);
}

export function signIn(key) {
  return call("POST", "DashboardSession", undefined, key);
}
