// The signed-in role; controls that it may not use are hidden. The server checks every request.

import { button } from "./dom.js";

const ROLES = ["player", "helper", "moderator", "owner"]; // in rising order
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
