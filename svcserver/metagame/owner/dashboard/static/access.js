// The sign-in settings: a separate dashboard key and a second factor.

import { prove, read } from "./api.js";
import { act, ask, copy, show } from "./dialog.js";
import { button, el, qr } from "./dom.js";

export async function ways() {
  let mine;
  if (!await act(async () => { mine = await read("DashboardAccess"); })) return;
  const close = show("My access", false,
    el("p", {}, mine.ownKey ? "A separate key opens the dashboard. Your account key is only for playing." : "Your account key also opens the dashboard."),
    button(mine.ownKey ? "Go back to the account key" : "Create a dashboard key", () => ownKey(mine, close)),
    el("p", {}, mine.secondFactor ? "You need a two-factor code to sign in." : "You need only the key to sign in."),
    button(mine.secondFactor ? "Remove the second factor" : "Add a second factor", () => factor(mine, close)));
}

export const KEY = { name: "key", label: "Key that you sign in with", type: "password" };
export const CODE = { name: "code", label: "Current code from your authenticator app", longest: 6 };

async function ownKey(mine, close) {
  const on = !mine.ownKey;
  close();
  let made;
  const input = await ask({
    title: on ? "Create a dashboard key" : "Go back to the account key", confirm: on ? "Create" : "Use it",
    fields: mine.secondFactor ? [KEY, CODE] : [KEY],
    run: async ({ key, code }) => {
      made = await prove("DashboardOwnKey", { On: on }, key.trim(), code?.trim());
      return on ? "The dashboard has a separate key now" : "The account key opens the dashboard again";
    },
  });
  if (!input || !on) return;
  show("Your dashboard key", false, el("p", { class: "join" }, made.key),
    el("p", { class: "muted small" }, "Sign in with it from now on. It is not shown again."),
    button("Copy key", () => copy(made.key, "Key")));
}

async function factor(mine, close) {
  close();
  const run = async ({ key, code }) => {
    await prove("DashboardSecondFactor", { Code: code.trim(), Secret: mine.secondFactor ? "" : mine.secret }, key.trim());
    return mine.secondFactor ? "From now on, signing in requires only the key" : "From now on, signing in requires a code";
  };
  await ask(mine.secondFactor
    ? { title: "Remove the second factor", confirm: "Remove", fields: [KEY, CODE], run }
    : { title: "Add a second factor", confirm: "Add", fields: [KEY, CODE], run,
      text: "Scan this with an authenticator app, then enter the code it shows.",
      picture: el("div", {}, qr(mine.qr, "QR code for your authenticator app"), el("p", { class: "join" }, mine.secret)) });
}
