// Everybody who has an account; search and pages.

import { read } from "./api.js";
import { badge, button, card, el, head, nothing, table } from "./dom.js";

export async function accounts(root, live) {
  const search = el("input", { type: "search", id: "search", class: "search", placeholder: "Name or account id", maxlength: 64, autocomplete: "off", "aria-label": "Search accounts" });
  const place = el("div", {});
  root.replaceChildren(head("Accounts", "Choose one to see saves and progression."), search, place);
  let asked = 0;
  const look = async () => {
    const mine = ++asked;
    const text = search.value.trim();
    const said = text ? await read("DashboardSearch", { Text: text }) : await read("DashboardAccounts");
    if (mine !== asked || !live.shown()) return;
    const found = [...said.accounts];
    place.replaceChildren(listed(found, said, text));
  };
  const listed = (found, said, text) => {
    const more = said.nextOffset === undefined || said.nextOffset === null ? [] : [el("p", { class: "foot" },
      button("Show more", async () => {
        const next = await read("DashboardAccounts", { offset: said.nextOffset });
        found.push(...next.accounts);
        place.replaceChildren(listed(found, next, text));
      }))];
    const note = said.more ? [el("p", { class: "foot muted small" }, "There are more than fifty; write more of the name.")] : [];
    if (!found.length) return card(null, [], nothing(text ? `No account’s name or id holds “${text}”.` : "There are no accounts yet."));
    return card(null, [], rows(found), ...more, ...note);
  };
  let soon = 0;
  search.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(() => live.shown() && look().catch((why) => place.replaceChildren(card(null, [], nothing(why.message)))), 250);
  });
  await look();
}

function rows(found) {
  return table("Accounts", [["Name"], [""], ["Account id", "wide-only"], ["Key", "wide-only"]], found.map((one) => [
    el("a", { href: `#/accounts/${encodeURIComponent(one.id)}` }, el("strong", {}, one.name)),
    one.admin ? badge("admin", "accent") : null,
    el("span", { class: "mono muted" }, one.id),
    el("span", { class: "mono muted" }, one.keyFingerprint ? `${one.keyFingerprint.slice(0, 8)}…` : "none"),
  ]));
}
