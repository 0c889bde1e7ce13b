// What opens the dashboard for me: a key of its own, and a second factor.

import { prove, read } from "./api.js";
import { act, ask, copy, show } from "./dialog.js";
import { button, el, qr } from "./dom.js";

export async function ways() {
  let mine;
  if (!await act(async () => { mine = await read("DashboardAccess"); })) return;
  const close = show("My access", false,
    el("p", {}, mine.ownKey ? "A key of its own opens the dashboard; your account key only plays." : "Your account key opens the dashboard, too."),
    button(mine.ownKey ? "Let the account key open it again" : "Make a key for the dashboard", () => ownKey(mine, close)),
    el("p", {}, mine.secondFactor ? "Signing in asks for the code of your second factor." : "Signing in takes the key alone."),
    button(mine.secondFactor ? "End the second factor" : "Add a second factor", () => factor(mine, close)));
}

const KEY = { name: "key", label: "Key that you sign in with", type: "password" };
const CODE = { name: "code", label: "Code that the program shows now", longest: 6 };

async function ownKey(mine, close) {
  const on = !mine.ownKey;
  close();
  let made;
  const given = await ask({
    title: on ? "Make a key for the dashboard" : "Let the account key open it again", confirm: on ? "Make it" : "Let it",
    fields: mine.secondFactor ? [KEY, CODE] : [KEY],
    run: async ({ key, code }) => {
      made = await prove("DashboardOwnKey", { On: on }, key.trim(), code?.trim());
      return on ? "The dashboard has a key of its own" : "The account key opens the dashboard again";
    },
  });
  if (!given || !on) return;
  show("Your key for the dashboard", false, el("p", { class: "join" }, made.key),
    el("p", { class: "muted small" }, "Sign in with it from now on. This is the only copy; it is not shown again."),
    button("Copy key", () => copy(made.key, "Key")));
}

async function factor(mine, close) {
  close();
  const run = async ({ key, code }) => {
    await prove("DashboardSecondFactor", { Code: code.trim(), Secret: mine.secondFactor ? "" : mine.secret }, key.trim());
    return mine.secondFactor ? "The key alone is enough again" : "Signing in asks for a code from now on";
  };
  await ask(mine.secondFactor
    ? { title: "End the second factor", confirm: "End it", fields: [KEY, CODE], run }
    : { title: "Add a second factor", confirm: "Add it", fields: [KEY, CODE], run,
      text: "Read this with an authenticator program on your telephone, then write the code that it shows.",
      picture: el("div", {}, qr(mine.qr, "QR code of the second factor"), el("p", { class: "join" }, mine.secret)) });
}
