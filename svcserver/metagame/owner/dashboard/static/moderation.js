// Bans and mutes in force, and the announcement.

import { inTurn, read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { badge, card, el, head, linked, nothing, person, redraw, table } from "./dom.js";
import { lift, withIt } from "./people.js";
import { moderators } from "./staff.js";
import { count, exactly } from "./words.js";

export async function moderation(root, live) {
  const [again] = inTurn(async () => {
    const [held, told] = await Promise.all([read("DashboardSanctions"), read("DashboardAnnouncement")]);
    if (!live.shown()) return;
    const shown = held.sanctions.length;
    const more = held.count > shown ? ` The newest ${shown} are shown; svcctl sanctions lists all.` : "";
    redraw(root,
      head("Moderation", `Bans and mutes: ${held.count.toLocaleString()}.${more} To ban, mute or kick, open the account’s page.`),
      announced(told.announcement, again), card("Bans and mutes", [], listed(held.sanctions, again)));
  });
  await again();
  return again;
}

function listed(sanctions, again) {
  const rows = sanctions.map((one) => [
    person(one.Username, one.UserId),
    el("span", {}, badge(one.Kind === "ban" ? "banned" : "muted", one.Kind === "ban" ? "accent" : ""), withIt(one.Sanction)),
    one.Sanction.reason || "–", one.Sanction.note || "–", linked(one.Sanction.by),
    one.Sanction.until ? exactly(one.Sanction.until) : "no end",
    el("div", { class: "actions" }, moderators(one.Kind === "ban" ? "Unban" : "Unmute", () => lift(one, { again })))]);
  return rows.length
    ? table("Bans and mutes", [["Player"], [""], ["Reason"], ["Note", "wide-only"], ["By", "wide-only"], ["Until"], ["", "end"]],
      rows, sanctions.map((one) => `${one.Kind} ${one.UserId}`))
    : nothing("Nobody is banned or muted.");
}

function announced(one, again) {
  const acts = [moderators("Announce", () => announce(again), "primary")];
  if (one) acts.unshift(moderators("End it", () => end(again)));
  return card("Announcement", acts, one
    ? el("dl", { class: "facts inside" }, el("dt", {}, "Text"), el("dd", {}, one.text),
      el("dt", {}, one.restartAt ? "Restart" : "Until"), el("dd", {}, exactly(one.restartAt ?? one.until)), el("dt", {}, "By"), el("dd", {}, linked(one.by)))
    : nothing("There is no announcement."));
}

async function announce(again) {
  await ask({
    title: "Announce to everybody", confirm: "Announce",
    text: "The text is shown in the status banner and sent to every chat room. A restart is only announced: you must restart the server yourself.",
    fields: [{ name: "text", label: "Text", longest: 256 },
      { name: "restart", label: "Time until the restart (for example 10m; leave empty for no restart)", optional: true, longest: 16 },
      { name: "lasts", label: "Time to show the text (for example 2h; default: 1h)", optional: true, longest: 16 }, REASON],
    run: async (asked) => {
      const sent = { Text: asked.text, RestartIn: asked.restart, For: asked.lasts, Reason: asked.reason };
      const said = await send("DashboardAnnouncement", sent);
      return `Announced: ${said.announcement.text}`;
    },
    again,
  });
}

async function end(again) {
  const given = await ask({ title: "End the announcement?", fields: [REASON], confirm: "End it" });
  if (given) await act(() => send("DashboardAnnouncement", { Text: "", Reason: given.reason }), () => "The announcement has ended", again);
}
