// All accounts: search, order and pages. Search and order are in the address, for Back.

import { inTurn, read } from "./api.js";
import { act } from "./dialog.js";
import { badge, button, card, choice, el, head, nothing, person, redraw, table } from "./dom.js";
import { place } from "./overview.js";
import { ago, exactly } from "./words.js";

const FILTERS = [["", "All"], ["staff", "Staff"], ["banned", "Banned"], ["muted", "Muted"]];
const SORTS = [["name", "Name"], ["seen", "Last seen"], ["role", "Role"]];

export async function accounts(root, live) {
  const wanted = { text: live.query.get("text") ?? "", sort: live.query.get("sort") ?? "name", only: live.query.get("only") ?? "" };
  const search = el("input", { type: "search", id: "search", class: "search", placeholder: "Name or account id", maxlength: 64, autocomplete: "off", "aria-label": "Search accounts" });
  search.value = wanted.text;
  const filter = el("div", {}), order = el("div", {}), list = el("div", {});
  let least = 1; // the minimum number of rows shown
  const noted = () => {
    live.keep({ text: wanted.text, sort: wanted.sort === "name" ? "" : wanted.sort, only: wanted.only });
    redraw(filter, choice("Accounts shown", FILTERS, wanted.only, (only) => again({ only })));
    redraw(order, choice("Sorted by", SORTS, wanted.sort, (sort) => again({ sort })));
  };
  const [look] = inTurn(async () => {
    const { text, sort, only } = wanted, accounts = [];
    const page = (offset) => read("DashboardPeople", { Text: text, Sort: sort, Only: only, Offset: offset });
    let next = 0;
    do {
      const reply = await page(next);
      accounts.push(...reply.accounts);
      next = reply.nextOffset;
    } while (next !== null && accounts.length < least && live.shown());
    if (live.shown() && text === wanted.text && sort === wanted.sort && only === wanted.only) draw(accounts, next);
  });
  const again = (changed) => {
    Object.assign(wanted, changed);
    least = 1;
    noted();
    return look().catch((why) => live.shown() && redraw(list, card(null, [], nothing(why.message))));
  };
  const draw = (accounts, next) => {
    const more = next === null ? [] : [el("p", { class: "foot" }, button("Show more", () => {
      least = accounts.length + 1;
      return act(look);
    }))];
    const none = wanted.text ? `No account name or id contains “${wanted.text}”.` : wanted.only ? "No account matches." : "There are no accounts yet.";
    redraw(list, card(null, [], accounts.length ? rows(accounts) : nothing(none), ...more));
  };
  let soon = 0;
  search.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(() => live.shown() && again({ text: search.value.trim() }), 250);
  });
  root.replaceChildren(head("Accounts", "Choose an account to see its saves and progression."),
    el("div", { class: "tools" }, search, filter, order), list);
  noted();
  await look();
  return look;
}

function rows(accounts) {
  return table("Accounts", [["Name"], ["Role"], ["Last seen"], ["Account id", "wide-only"]], accounts.map((account) => [
    el("span", {}, person(account.name, account.id), " ", account.banned ? badge("banned", "bad") : null, account.muted ? badge("muted", "warn") : null),
    account.role === "player" ? "player" : badge(account.role, "accent"),
    account.where ? badge(place(account.where), "good") : account.lastSeen ? el("time", { datetime: account.lastSeen, title: exactly(account.lastSeen) }, ago(account.lastSeen)) : "never",
    el("span", { class: "mono muted" }, account.id),
  ]), accounts.map((account) => account.id));
}
