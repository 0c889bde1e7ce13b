// The overview: players and places, recent activity, instances and health.

import { send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { badge, button, card, el, head, nothing, person, redraw, table } from "./dom.js";
import { owners } from "./staff.js";
import { ago, count, exactly, short, span } from "./words.js";

const PLACES = { city: "In the city", hunt: "Hunting", menu: "In the menu", dojo: "In the dojo", tutorial: "In the tutorial", unknown: "Unknown place" };
const MODES = [["OPEN", "Open: anyone may register"], ["INVITECODE", "Invite code: only with a code"], ["NONE", "Closed: nobody may register"]];

export function place(where) {
  return PLACES[where] ?? where;
}

export function overview(root) {
  root.replaceChildren(head("Overview", "Loading…"));
  let said;
  const changed = ({ RegistrationMode: registration }) => draw({ ...said, status: { ...said.status, registration } });
  const draw = (told) => {
    said = told;
    const { status, startedAt, health, backup, down, feed } = said;
    redraw(root, top(status, startedAt, changed), tiles(status, health, backup, down),
      el("div", { class: "columns" }, players(status), el("div", { class: "stack" }, instances(status), evening(feed))));
  };
  return draw;
}

function top(status, startedAt, changed) {
  const version = [status.version, status.commit === "unknown" ? "" : status.commit].filter(Boolean).join(" · ");
  return head("Overview", `Up for ${span((Date.now() - Date.parse(startedAt)) / 1000)}${version ? ` · version ${version}` : ""}`,
    owners("Change registration", () => registration(status, changed)));
}

async function registration(status, changed) {
  const given = await ask({
    title: "Who may register?", text: "This lasts until the metagame restarts. Set REGISTRATION_MODE in metagame.env to make it permanent.",
    fields: [{ name: "mode", label: "Registration", options: MODES, value: status.registration }, REASON], confirm: "Change",
  });
  if (given) {
    await act(() => send("RegistrationStatus", { RegistrationStatus: given.mode, Reason: given.reason }),
      (said) => `Registration changed. ${MODES.find(([mode]) => mode === said.RegistrationMode)?.[1] ?? said.RegistrationMode}`, changed);
  }
}

function tile(name, value, note, bad = false) {
  return el("div", { class: "card tile" }, el("dt", {}, name), el("dd", { class: bad ? "bad" : null }, value),
    el("dd", { class: "note" }, note));
}

function backedUp({ madeAt, provenAt, wrong }) {
  if (wrong) return tile("Backup", "Needs attention", wrong, true);
  if (provenAt) return tile("Backup", "Tested", `by a simulated session, ${exactly(provenAt)}`);
  return madeAt ? tile("Backup", "Made", `not tested yet, ${exactly(madeAt)}`) : tile("Backup", "–", "none yet");
}

function tiles(status, health, backup, down) {
  const shown = [
    tile("Players online", String(status.playersOnline), "seen in the last 90 s"),
    tile("Instances", String(status.instances.length), count(status.instances.filter((one) => one.kind === "hunt").length, "hunt")),
    tile("Registration", { OPEN: "Open", INVITECODE: "By code", NONE: "Closed" }[status.registration] ?? "–", "who may register"),
  ];
  for (const one of down) shown.push(tile("Service", `${one.name} is down`, `no answer since ${exactly(one.since)}`, true));
  if (backup) shown.push(backedUp(backup));
  if (health) {
    const seen = health.requests;
    shown.push(
      tile("Requests", `${short(seen.requestsPerSecond)}/s`, "last minute"),
      tile("p95 latency", seen.latencyP95UpperMs === null ? "–" : `${seen.latencyP95UpperMs} ms`, "last minute"),
      tile("Server errors", String(seen.serverErrors), "last minute", seen.serverErrors > 0),
      tile("Event-loop lag", health.eventLoop === null ? "–" : `${short(Math.max(0, health.eventLoop.p95Ms - 20))} ms`, "p95"),
      tile("Memory", health.memoryMB.rss === null ? "–" : `${health.memoryMB.rss} MB`, "of the metagame"),
    );
  }
  return el("dl", { class: "tiles", "aria-label": "Now" }, shown);
}

function players(status) {
  const titles = new Map(status.instances.map((one) => [one.id, one.title]));
  const somewhere = status.players.some((one) => one.instance);
  const columns = [["Player"], ["Place"], ...(somewhere ? [["Instance"]] : [])];
  const rows = status.players.map((one) => [
    person(one.name), place(one.where), one.instance ? titles.get(one.instance) : "–"].slice(0, columns.length));
  return card("Who is where", [], rows.length
    ? table("Players online", columns, rows, status.players.map((one) => one.name))
    : nothing("Nobody is online."));
}

function instances(status) {
  const items = status.instances.map((one) => el("li", {},
    el("div", {}, el("strong", {}, one.title), el("p", { class: "names" }, `${one.map} · started ${ago(one.startedAt)}`)),
    badge(one.maxPlayers ? `${one.players} of ${one.maxPlayers}` : count(one.players, "player"), one.players ? "accent" : "")));
  return card("Instances", [], items.length ? el("ul", { class: "list" }, items) : nothing("No game server is running."));
}

function evening(feed) {
  const items = feed.map((one) => el("li", {}, el("p", {}, names(one.who, one.count), " ", one.what),
    el("time", { datetime: one.at, title: exactly(one.at), class: "muted small" }, ago(one.at))));
  return card("Recent activity", [], items.length ? el("ul", { class: "list feed", tabindex: "0", "aria-label": "Recent activity" }, items) : nothing("No recent events."));
}

/** The names of the first players of an event. */
function names(who, many) {
  const shown = who.slice(0, many > 4 ? 3 : 4);
  const linked = shown.flatMap((name, at) => [at === 0 ? "" : at === many - 1 ? " and " : ", ", person(name)]);
  return many > shown.length ? [...linked, ` and ${many - shown.length} others`] : linked;
}
