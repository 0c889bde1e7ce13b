// Tracks, objectives and entitlements of one account.

import { read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { badge, card, el, nothing, table } from "./dom.js";
import { owners } from "./staff.js";
import { count, exactly } from "./words.js";

export function progression(report, account, live) {
  return [tracks(report, account, live), entitlements(report, account, live)];
}

function tracks(report, account, live) {
  const rows = report.Tracks.map((track) => [el("strong", { title: track.progression_id }, trackName(track.progression_id)), track.progress.toLocaleString(),
    rank(track.confirmed_fremium_rank, track.earned_free_rank), rank(track.confirmed_premium_rank, track.earned_premium_rank)]);
  const note = `${trackName(report.HuntPass)} · ${count(report.Objectives.length, "objective")}`;
  return card("Progression", [report.RealMode ? null : badge("fixed progression", "warn"), el("span", { class: "muted small" }, note),
    owners("Set progress", () => seed(account, live))], rows.length
    ? table("Tracks", [["Track"], ["Progress", "end"], ["Free rank", "end"], ["Premium rank", "end"]], rows, report.Tracks.map((track) => track.progression_id))
    : nothing("No track has any progress yet."));
}

/** "Chain blades" for MasteryTrack_Weapon_ChainBlades; an id of another form stays as it is. */
function trackName(id) {
  const pass = /^season0*(\d+\w*)$/.exec(id);
  if (pass) return `Hunt pass, season ${pass[1]}`;
  const mastery = /^MasteryTrack_(?:Weapon_)?([A-Za-z]+)$/.exec(id);
  if (!mastery) return id;
  const words = mastery[1].replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return words[0].toUpperCase() + words.slice(1);
}

function rank(confirmed, earned) {
  return earned === null || earned === confirmed ? String(confirmed) : `${earned} earned, ${confirmed} shown to the player in the game`;
}

async function seed(account, live) {
  const input = await ask({
    title: `Overwrite the progress of ${account.name}?`, danger: true, confirm: "Overwrite",
    text: "Every track is overwritten. The player's progress on the tracks is lost.",
    fields: [{ name: "mode", label: "How", options: [["fresh", "Fresh: every track at 0"], ["grandfather", "Complete: every track finished"]] }, REASON],
  });
  if (input) {
    await act(() => send("SeedProgression", { UserId: account.id, Mode: input.mode, Reason: input.reason }),
      (reply) => `${account.name}: ${count(reply.Tracks.length, "track")} set to ${reply.Mode === "fresh" ? "0" : "complete"}`, live.again);
  }
}

function entitlements(report, account, live) {
  const rows = report.Entitlements.map((entitlement) => [el("strong", {}, entitlement.name),
    entitlement.duration ? `${entitlement.duration} hours` : "for ever", exactly(entitlement.activatedDate),
    el("div", { class: "actions" }, owners("Revoke", () => revoke(entitlement, account, live), "danger"))]);
  return card("Entitlements", [owners("Grant", () => grant(account, live), "primary")], rows.length
    ? table("Entitlements", [["Name"], ["Lasts"], ["Since", "wide-only"], ["", "end"]], rows, report.Entitlements.map((entitlement) => entitlement.name)) : nothing("No entitlements."));
}

async function grant(account, live) {
  let names;
  if (!await act(async () => { ({ names } = await read("DashboardEntitlements")); })) return;
  await ask({
    title: `Grant ${account.name} an entitlement`, confirm: "Grant",
    fields: [{ name: "name", label: "Entitlement", options: [...names.map((name) => [name, name]), ["", "Other (enter below)"]] },
      { name: "other", label: "Name of another entitlement", optional: true }, { name: "hours", label: "Hours (0: for ever)", type: "number", min: 0, step: "any", value: "0" }, REASON],
    run: async (typed) => {
      const name = typed.name || typed.other.trim();
      await send("GrantEntitlement", { UserId: account.id, Entitlement: name, Duration: Number(typed.hours), Reason: typed.reason });
      return `${account.name} now has ${name}`;
    },
    again: live.again,
  });
}

async function revoke(entitlement, account, live) {
  const input = await ask({ title: `Revoke ${entitlement.name}?`, text: `${account.name} loses the entitlement at once.`, fields: [REASON], danger: true, confirm: "Revoke" });
  if (input) {
    await act(() => send("RevokeEntitlement", { UserId: account.id, Entitlement: entitlement.name, Reason: input.reason }),
      (reply) => reply.Revoked ? `${entitlement.name} revoked from ${account.name}` : `${account.name} did not have ${entitlement.name}`, live.again);
  }
}
