// Guilds: list and disband.

import { Refused, inTurn, read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { badge, card, el, head, nothing, person, redraw, table } from "./dom.js";
import { owners } from "./staff.js";
import { count } from "./words.js";

export async function guilds(root, live) {
  const [again] = inTurn(async () => {
    const found = await read("Guilds").catch((why) => {
      if (!(why instanceof Refused) || why.status !== 404) throw why;
      return null;
    });
    if (live.shown()) redraw(root, ...drawn(found, again));
  });
  await again();
  return again;
}

function drawn(found, again) {
  if (!found) return [head("Guilds"), card(null, [], nothing("Guilds are switched off on this server (GUILDS=0)."))];
  const rows = found.map((one) => [el("strong", {}, one.name), one.nameplate ? badge(one.nameplate) : null, one.leader ? person(one.leader) : "–", String(one.members),
    el("div", { class: "actions" }, owners("Disband", () => disband(one, again), "danger"))]);
  return [head("Guilds", count(found.length, "guild")), card(null, [], rows.length
    ? table("Guilds", [["Name"], ["Nameplate", "wide-only"], ["Leader"], ["Members", "end"], ["", "end"]], rows, found.map((one) => one.guildId))
    : nothing("No guild has been founded yet."))];
}

async function disband(one, again) {
  const given = await ask({
    title: `Disband ${one.name}?`, danger: true, confirm: "Disband",
    text: `${count(one.members, "member")} will lose their guild. This cannot be undone.`, fields: [REASON],
  });
  if (given) {
    await act(() => send("DisbandGuild", { Guild: one.guildId, Reason: given.reason }),
      (said) => `${said.Guild} disbanded; ${count(said.Members, "member")} notified`, again);
  }
}
