// Line icons of 24 × 24 units, drawn for this page.

import { el, svg } from "./dom.js";

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  health: "M3 12h4l3-7 4 14 3-7h4",
  accounts: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M3 20c0-3.5 2.7-6 6-6s6 2.5 6 6M16 4.5a3.5 3.5 0 0 1 0 6M18 14.5c1.8 1 3 3 3 5.5",
  invites: "M3 6h18v12H3zM3 7l9 7 9-7",
  guilds: "M5 21V4M5 5h13l-3 4 3 4H5",
  chat: "M4 5h16v11H10l-5 4v-4H4z",
  moderation: "M12 3l8 3v6c0 4.5-3.3 7.8-8 9-4.7-1.2-8-4.5-8-9V6z",
  servers: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  machines: "M3 5h18v11H3zM8 20h8M12 16v4",
  backups: "M4 7c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3M4 7v10c0 1.7 3.6 3 8 3s8-1.3 8-3V7M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3",
  alerts: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  settings: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4",
  audit: "M7 3h10v18l-2.5-2-2.5 2-2.5-2L7 21zM10 8h4M10 12h4",
  log: "M4 5h16v14H4zM7 9l3 3-3 3M12 15h4",
  enlarge: "M14 4h6v6M20 4l-7 7M10 20H4v-6M4 20l7-7",
  menu: "M4 7h16M4 12h16M4 17h16",
  good: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M8 12.5l3 3 5-6",
  warn: "M12 4L2.5 20h19zM12 10v4M12 17h.01",
  bad: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M9 9l6 6M15 9l-6 6",
  off: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M8 12h8",
  busy: "M12 3a9 9 0 1 0 9 9M12 8v4l3 2",
  todo: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18",
};

export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] ?? PATHS.settings }));
}

/** A state as icon, colour and words. kind: good, warn, bad, off, todo or busy. */
export function state(kind, text) {
  return el("span", { class: `state ${kind}` }, icon(kind), text);
}
