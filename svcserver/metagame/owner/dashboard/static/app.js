// Signing in, the pages, and what is looked at again and again.

import { Refused, read, remove, signIn as begin } from "./api.js";
import { audit } from "./audit.js";
import { el } from "./dom.js";
import { say } from "./dialog.js";
import { account } from "./account.js";
import { accounts } from "./accounts.js";
import { chat } from "./chat.js";
import { guilds } from "./guilds.js";
import { health } from "./health.js";
import { invites } from "./invites.js";
import { log } from "./log.js";
import { moderation } from "./moderation.js";
import { overview } from "./overview.js";

const PAGES = [
  ["overview", "Overview", overview], ["health", "Health", health], ["accounts", "Accounts", accounts],
  ["invites", "Invites", invites], ["guilds", "Guilds", guilds], ["chat", "Chat", chat],
  ["moderation", "Moderation", moderation], ["audit", "Audit", audit], ["log", "Log", log],
];

const at = (id) => document.getElementById(id);
let timer = 0;
let turn = 0; // answers for a page that was left are thrown away

async function signIn(event) {
  event.preventDefault();
  at("sign-in-error").textContent = "";
  try {
    const me = await begin(at("key").value.trim());
    at("key").value = "";
    await enter(me);
  } catch (why) {
    at("sign-in-error").textContent = why.status === 403 ? "This account is not an admin, nor other staff; see svcctl account promote." : why.message;
    at("key").focus();
  }
}

async function enter(me) {
  at("who").textContent = me.Role === "owner" ? me.Username : `${me.Username} (${me.Role})`;
  at("sign-in").hidden = true;
  at("shell").hidden = false;
  if (!location.hash) location.hash = "#/overview";
  go();
  const status = await read("ServerStatus");
  at("server-name").textContent = status.name;
  document.title = `${status.name} – dashboard`;
}

/** After a reload the browser's session may still hold. */
async function resume() {
  let me = null;
  try {
    me = await read("DashboardSession");
  } catch (why) {
    if (!(why instanceof Refused) || (why.status !== 401 && why.status !== 403)) at("sign-in-error").textContent = why.message;
  }
  if (me) return enter(me);
  at("sign-in").hidden = false;
  at("key").focus();
}

function go() {
  if (at("shell").hidden) return;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const found = PAGES.find(([id]) => id === name) ?? PAGES[0];
  for (const link of at("nav").children) {
    if (link.dataset.page === found[0]) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  const page = found[0] === "accounts" && rest[0] ? (root, live) => account(root, live, rest[0]) : found[2];
  start(page);
}

function start(page) {
  clearTimeout(timer);
  const mine = ++turn;
  const root = el("div", { class: "stack" });
  at("content").replaceChildren(root);
  const live = {
    /** Call ``work`` now and every so many seconds while the page is shown. */
    every(seconds, work) {
      const round = async () => {
        if (mine !== turn) return;
        if (!document.hidden) await guarded(work, mine);
        if (mine === turn) timer = setTimeout(round, seconds * 1000);
      };
      return round();
    },
    shown: () => mine === turn,
    again: () => mine === turn && start(page),
  };
  guarded(() => page(root, live), mine);
}

let told = "";

async function guarded(work, mine) {
  try {
    await work();
    told = "";
  } catch (why) {
    if (mine !== turn) return;
    if (why.status === 401) return signOut("You are signed out; the server no longer knows this session.");
    if (told !== why.message) say(why.message, true);
    told = why.message;
  }
}

function signOut(why = "") {
  turn += 1;
  clearTimeout(timer);
  at("content").replaceChildren();
  at("shell").hidden = true;
  at("sign-in").hidden = false;
  at("sign-in-error").textContent = why;
  at("key").focus();
}

for (const [id, title] of PAGES) {
  at("nav").append(el("a", { class: "nav-link", href: `#/${id}`, "data-page": id }, title));
}
at("sign-in-form").addEventListener("submit", signIn);
at("sign-out").addEventListener("click", async () => {
  await remove("DashboardSession").catch((why) => say(why.message, true));
  signOut();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("content").focus();
});
addEventListener("hashchange", go);
resume();
