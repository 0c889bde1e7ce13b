// Who is signed in, and what that role may do: what it may not is not shown. The server decides anew each time.

import { button } from "./dom.js";

const ROLES = ["player", "helper", "moderator", "owner"]; // each may do what those before it may
let mine = "player";

export function signedIn(role) {
  mine = role;
}

export function may(role) {
  return ROLES.indexOf(mine) >= ROLES.indexOf(role);
}

/** A button for moderators and owners; null for others. */
export function moderators(text, act, kind) {
  return may("moderator") ? button(text, act, kind) : null;
}

/** A button for owners; null for others. */
export function owners(text, act, kind) {
  return may("owner") ? button(text, act, kind) : null;
}
