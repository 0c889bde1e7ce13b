// Bans and mutes in force, and the announcement.

import { inTurn, read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { badge, card, el, head, linked, nothing, person, redraw, table } from "./dom.js";
import { lift, withIt } from "./people.js";
import { moderators } from "./staff.js";
import { count, exactly } from "./words.js";

export async function moderation(root, live) {
  const [again] = inTurn(async () => {
    const [held, current] = await Promise.all([read("DashboardSanctions"), read("DashboardAnnouncement")]);
    if (!live.shown()) return;
    const shown = held.sanctions.length;
    const more = held.count > shown ? ` The newest ${shown} are shown; svcctl sanctions lists all.` : "";
    redraw(root,
      head("Moderation", `Bans and mutes: ${held.count.toLocaleString()}.${more} To ban, mute or kick, open the account’s page.`),
      announced(current.announcement, again), card("Bans and mutes", [], listed(held.sanctions, again)));
  });
  await again();
  return again;
}

function listed(sanctions, again) {
  const rows = sanctions.map((entry) => [
    person(entry.Username, entry.UserId),
    el("span", {}, badge(entry.Kind === "ban" ? "banned" : "muted", entry.Kind === "ban" ? "accent" : ""), withIt(entry.Sanction)),
    entry.Sanction.reason || "–", entry.Sanction.note || "–", linked(entry.Sanction.by),
    entry.Sanction.until ? exactly(entry.Sanction.until) : "no end",
    el("div", { class: "actions" }, moderators(entry.Kind === "ban" ? "Unban" : "Unmute", () => lift(entry, { again })))]);
  return rows.length
    ? table("Bans and mutes", [["Player"], [""], ["Reason"], ["Note", "wide-only"], ["By", "wide-only"], ["Until"], ["", "end"]],
      rows, sanctions.map((entry) => `${entry.Kind} ${entry.UserId}`))
    : nothing("Nobody is banned or muted.");
}

function announced(announcement, again) {
  const acts = [moderators("Announce", () => announce(again), "primary")];
  if (announcement) acts.unshift(moderators("End it", () => end(again)));
  return card("Announcement", acts, announcement
    ? el("dl", { class: "facts inside" }, el("dt", {}, "Text"), el("dd", {}, announcement.text),
      el("dt", {}, announcement.restartAt ? "Restart" : "Until"), el("dd", {}, exactly(announcement.restartAt ?? announcement.until)), el("dt", {}, "By"), el("dd", {}, linked(announcement.by)))
    : nothing("There is no announcement."));
}

async function announce(again) {
  await ask({
    title: "Announce to everybody", confirm: "Announce",
    text: "The text is shown in the status banner and sent to every chat room. A restart is only announced: you must restart the server yourself.",
    fields: [{ name: "text", label: "Text", longest: 256 },
      { name: "restart", label: "Time until the restart (for example 10m; leave empty for no restart)", optional: true, longest: 16 },
      { name: "lasts", label: "Time to show the text (for example 2h; default: 1h)", optional: true, longest: 16 }, REASON],
    run: async (input) => {
      const sent = { Text: input.text, RestartIn: input.restart, For: input.lasts, Reason: input.reason };
      const reply = await send("DashboardAnnouncement", sent);
      return `Announced: ${reply.announcement.text}`;
    },
    again,
  });
}

async function end(again) {
  const input = await ask({ title: "End the announcement?", fields: [REASON], confirm: "End it" });
  if (input) await act(() => send("DashboardAnnouncement", { Text: "", Reason: input.reason }), () => "The announcement has ended", again);
}
