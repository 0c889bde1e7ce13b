// Guilds: list and disband.

import { Refused, inTurn, read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { badge, card, el, head, nothing, person, redraw, table } from "./dom.js";
import { owners } from "./staff.js";
import { count } from "./words.js";

export async function guilds(root, live) {
  const [again] = inTurn(async () => {
    const guilds = await read("Guilds").catch((why) => {
      if (!(why instanceof Refused) || why.status !== 404) throw why;
      return null;
    });
    if (live.shown()) redraw(root, ...drawn(guilds, again));
  });
  await again();
  return again;
}

function drawn(guilds, again) {
  if (!guilds) return [head("Guilds"), card(null, [], nothing("Guilds are switched off on this server (GUILDS=0)."))];
  const rows = guilds.map((guild) => [el("strong", {}, guild.name), guild.nameplate ? badge(guild.nameplate) : null, guild.leader ? person(guild.leader) : "–", String(guild.members),
    el("div", { class: "actions" }, owners("Disband", () => disband(guild, again), "danger"))]);
  return [head("Guilds", count(guilds.length, "guild")), card(null, [], rows.length
    ? table("Guilds", [["Name"], ["Nameplate", "wide-only"], ["Leader"], ["Members", "end"], ["", "end"]], rows, guilds.map((guild) => guild.guildId))
    : nothing("No guild has been founded yet."))];
}

async function disband(guild, again) {
  const input = await ask({
    title: `Disband ${guild.name}?`, danger: true, confirm: "Disband",
    text: `${count(guild.members, "member")} will lose their guild. This cannot be undone.`, fields: [REASON],
  });
  if (input) {
    await act(() => send("DisbandGuild", { Guild: guild.guildId, Reason: input.reason }),
      (reply) => `${reply.Guild} disbanded; ${count(reply.Members, "member")} notified`, again);
  }
}
