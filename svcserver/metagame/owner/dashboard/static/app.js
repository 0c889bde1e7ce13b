// Signing in, the pages and their streams.

import { ways } from "./access.js";
import { Refused, listen, read, signIn as begin, signInByLink, signOut as leave } from "./api.js";
import { audit } from "./audit.js";
import * as connection from "./connection.js";
import { button, card, el, head, nothing } from "./dom.js";
import { SIGNED_OUT, say } from "./dialog.js";
import { account } from "./account.js";
import { accounts } from "./accounts.js";
import { alerts } from "./alerts.js";
import { backups } from "./backups.js";
import { chat } from "./chat.js";
import { gameConsole, output } from "./console.js";
import { guilds } from "./guilds.js";
import { health } from "./health.js";
import { icon } from "./icons.js";
import { invites } from "./invites.js";
import { log } from "./log.js";
import { machines } from "./machines.js";
import { moderation } from "./moderation.js";
import { overview } from "./overview.js";
import { servers } from "./servers.js";
import { settings } from "./settings.js";
import { may, signedIn } from "./staff.js";

// name, title, draw function, stream, and the role that sees it; a draw function returns the handler of stream
// updates, which hold the data to show or only announce that the page must read its list again
// (the icon of a page has the page's name, in icons.js)
const PAGES = [
  ["overview", "Overview", overview, "overview"], ["health", "Health", health, "health"], ["accounts", "Accounts", accounts, "accounts"],
  ["invites", "Invites", invites, "invites", "owner"], ["guilds", "Guilds", guilds, "guilds"], ["chat", "Chat", chat, "chat"],
  ["moderation", "Moderation", moderation, "moderation"], ["servers", "Game servers", servers, "servers"], ["machines", "Machines", machines, "beat"], ["backups", "Backups", backups, "backups", "owner"], ["alerts", "Alerts", alerts, "alerts"], ["settings", "Settings", settings, "settings", "owner"], ["audit", "Audit", audit, "audit"], ["log", "Log", log, "log", "owner"],
];
const HEADS = { accounts: "Players", servers: "Host" }; // the heading before a page's link

const at = (id) => document.getElementById(id);
let turn = 0; // replies for a page that was left are discarded
let hush = () => {}; // ends the stream of the previous page
let lastList = "#/accounts"; // the target of "All accounts", with its search

async function signIn(event) {
  event.preventDefault();
  at("sign-in-error").textContent = "";
  try {
    const me = await begin(at("key").value.trim(), at("code").value.trim());
    at("key").value = at("code").value = "";
    at("code-field").hidden = true;
    await enter(me);
  } catch (why) {
    if (why.code === "second_factor") {
      at("code-field").hidden = false;
      at("sign-in-error").textContent = "Enter the code from your authenticator app.";
      at("code").focus();
      return;
    }
    at("sign-in-error").textContent = why.status === 403 ? "This account is not an owner, moderator or helper. See svcctl account promote." : why.message;
    at("key").focus();
  }
}

async function enter(me) {
  at("who").textContent = me.Role === "owner" ? me.Username : `${me.Username} (${me.Role})`;
  signedIn(me.Role);
  for (const [id, , , , role = "helper"] of PAGES) at("nav").querySelector(`[data-page="${id}"]`).hidden = !may(role);
  at("sign-in").hidden = true;
  at("shell").hidden = false;
  connection.watch(true);
  if (!location.hash) location.hash = "#/overview";
  go();
  const status = await read("ServerStatus").catch(connection.unread);
  if (!status) return;
  at("server-name").textContent = status.name;
  titled(document.title.split(" – ")[0]);
}

/** Name the page in the tab and in the browser's history. */
function titled(page) {
  document.title = `${page} – ${at("server-name").textContent}`;
}

const LINK = /^#\/sign-in\/([0-9a-f]+)$/; // printed by svcctl dashboard

/** Sign in by the address's link; after a reload the browser's session may still be valid. */
async function resume() {
  let me = null, fault = "";
  try {
    const [, link] = LINK.exec(location.hash) ?? [];
    if (link) {
      history.replaceState(null, "", "#/overview"); // the browser's history keeps no secret
      me = await signInByLink(link).catch((why) => { fault = why.message; });
    }
    me ??= await read("DashboardSession");
  } catch (why) {
    if (!(why instanceof Refused) || (why.status !== 401 && why.status !== 403)) fault ||= why.message;
  }
  at("loading").hidden = true;
  if (me) return enter(me);
  at("sign-in").hidden = false;
  at("sign-in-error").textContent = fault;
  at("key").focus();
}

function go() {
  if (at("shell").hidden) return;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decoded);
  const entry = PAGES.find(([id]) => id === name) ?? PAGES[0];
  unfold(false);
  titled(entry[1]);
  for (const link of at("nav").querySelectorAll("a")) {
    if (link.dataset.page === entry[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (entry[0] === "accounts" && rest[0]) start(rest[0], (root, live) => account(root, live, rest[0], lastList), `account&Account=${encodeURIComponent(rest[0].slice(0, 64))}`);
  else if (entry[0] === "servers" && rest[0] && may("owner")) start("Console", (root, live) => gameConsole(root, live, rest[0]), (live) => output(rest[0].slice(0, 64), live));
  else if (may(entry[4] ?? "helper")) start(entry[1], entry[2], entry[3], new URLSearchParams(query));
  else start(entry[1], (root) => root.replaceChildren(...refused(entry[1], "Only an owner sees this page.")));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch { // typed by hand
    return part;
  }
}

function start(title, page, stream = "beat", query = new URLSearchParams()) {
  hush();
  const mine = ++turn;
  const root = el("div", { class: "stack" });
  const [stale, quiet] = [notice(), notice()]; // an update failed; the stream failed
  at("content").replaceChildren(stale.node, quiet.node, root);
  const shown = () => mine === turn;
  const live = {
    query, shown, unfolded: new Set(), // the lists that are shown in full
    again: () => shown() && start(title, page, stream, query),
    /** Store this in the address, so that Back leads to it. */
    keep(wanted) {
      for (const [name, value] of Object.entries(wanted)) value ? query.set(name, value) : query.delete(name);
      const text = query.toString();
      const address = location.hash.split("?")[0] + (text ? `?${text}` : "");
      history.replaceState(null, "", address);
      lastList = address;
    },
  };
  connection.shows(live.again);
  let hear = () => {};
  setTimeout(() => { // never blank for long
    if (shown() && !root.childNodes.length) root.replaceChildren(head(title), card(null, [], nothing("Waiting for the server.")));
  }, 500);
  const failed = (why) => {
    if (!shown()) return;
    if (why.status === 401) return signOut(SIGNED_OUT);
    const again = passes(why, live.again);
    const wait = why.status === 0 ? " The page loads when the server answers." : again ? " The page loads again soon." : "";
    root.replaceChildren(...refused(title, worded(why) + wait, why.status === 403 ? null : button("Load again", live.again)));
  };
  const begun = (async () => { hear = await page(root, live) ?? hear; })().catch(failed);
  const update = (data) => begun.then(() => shown() && hear(data)).then(() => stale.show(""), (why) => {
    if (!shown()) return;
    if (why.status === 401 || why.status === 403) return failed(why);
    passes(why, () => shown() && update(data));
    if (why.status !== 0) stale.show(`This page is not up to date. ${worded(why)}`); // else the banner shows it
  });
  hush = listen(typeof stream === "function" ? () => stream(live) : () => stream, {
    hear: update,
    alive: () => {
      quiet.show("");
      connection.heard();
    },
    refused: (why) => {
      if (!shown()) return;
      connection.answered();
      if (why.status === 401) signOut(SIGNED_OUT);
      else quiet.show(`No live updates. ${worded(why)}`);
    },
  });
}

const RETRY_S = 5;

/** Try again later what failed for a passing reason; returns whether a timer does so. */
function passes(why, again) {
  connection.unread(why);
  if (why.status !== 429 && !(why.status >= 500)) return false;
  setTimeout(again, 1000 * (why.retryAfter ?? RETRY_S));
  return true;
}

/** The reason as a sentence. */
function worded(why) {
  const text = why.status === undefined ? `The page has an error: ${why.message}` : why.message;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

function notice() {
  const node = el("p", { class: "notice", role: "status", hidden: true });
  return { node, show: (text) => {
    if (node.textContent === text) return;
    node.textContent = text;
    node.hidden = !text;
  } };
}

function refused(title, why, again = null) {
  return [head(title), card(null, [], nothing(why), again ? el("p", { class: "foot" }, again) : null)];
}

function signOut(why = "") {
  turn += 1;
  hush();
  connection.watch(false);
  at("content").replaceChildren();
  at("shell").hidden = true;
  at("sign-in").hidden = false;
  at("sign-in-error").textContent = why;
  at("key").focus();
}

/** Show or hide the pages on a phone, where a menu holds them. */
function unfold(on) {
  at("menu").setAttribute("aria-expanded", String(on));
}

for (const [id, title] of PAGES) {
  if (HEADS[id]) at("nav").append(el("p", { class: "nav-head" }, HEADS[id]));
  at("nav").append(el("a", { class: "nav-link", href: `#/${id}`, "data-page": id }, icon(id), title));
}
at("menu").prepend(icon("menu"));
at("menu").addEventListener("click", () => unfold(at("menu").getAttribute("aria-expanded") === "false"));
at("nav").addEventListener("click", (event) => { // the link of the current page only closes the menu
  if (!event.target.closest("a") || !at("menu").checkVisibility()) return;
  unfold(false);
  at("content").focus();
});
document.querySelector(".side").addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !at("menu").checkVisibility()) return;
  unfold(false);
  at("menu").focus();
});
at("theme").value = localStorage.getItem(THEME) ?? "";
at("theme").addEventListener("change", ({ target: { value } }) => {
  if (value) localStorage.setItem(THEME, value);
  else localStorage.removeItem(THEME);
  applyTheme();
});
at("sign-in-form").addEventListener("submit", signIn);
at("access").addEventListener("click", ways);
at("sign-out").addEventListener("click", async () => {
  await leave().catch((why) => say(why.message, true));
  signOut();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("content").focus();
});
addEventListener("hashchange", () => LINK.test(location.hash) ? resume() : go());
resume();
