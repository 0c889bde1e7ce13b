// One account: its name, its saves, its progression.

import { Refused, read, send } from "./api.js";
import { act, ask, copy } from "./dialog.js";
import { badge, button, card, el, head, nothing } from "./dom.js";
import { handling } from "./people.js";
import { progression } from "./progression.js";
import { saves } from "./saves.js";

export async function account(root, live, id) {
  const [found, history, report] = await Promise.all([
    read("DashboardSearch", { Text: id.slice(0, 64) }),
    read("SaveHistory", { UserId: id }).catch(none),
    read("Progression", { UserId: id }).catch(none),
  ]);
  if (!live.shown()) return;
  const one = found.accounts.find((each) => each.id === id);
  if (!one) {
    root.replaceChildren(head("No such account", id), card(null, [], nothing("It may have been removed.")));
    return;
  }
  const back = el("a", { href: "#/accounts", class: "small" }, "All accounts");
  root.replaceChildren(
    el("div", {}, back, head(one.name, null, button("Copy id", () => copy(id, "Account id")), button("Rename", () => rename(one, live)), ...handling(one, live))),
    card(null, [], el("dl", { class: "facts inside" },
      el("dt", {}, "Account id"), el("dd", { class: "mono" }, one.id),
      el("dt", {}, "Role"), el("dd", {}, one.admin ? badge("admin", "accent") : "player"),
      el("dt", {}, "Key"), el("dd", { class: "mono" }, one.keyFingerprint ? `fingerprint ${one.keyFingerprint}` : "none"))),
    ...saves(history, live), ...(report ? progression(report, one, live) : []));
}

function none(why) {
  if (why instanceof Refused && why.status === 404) return null;
  throw why;
}

async function rename(one, live) {
  const given = await ask({
    title: `Rename ${one.name}`, text: "The account and its characters get the new name at once.",
    fields: [{ name: "name", label: "New name (3 to 16 letters, digits or _)", value: one.name }], confirm: "Rename",
  });
  if (given && await act(() => send("RenameUser", { UserId: one.id, NewUsername: given.name }),
    (said) => `${said.OldUsername} is now ${said.Username}`)) live.again();
}
