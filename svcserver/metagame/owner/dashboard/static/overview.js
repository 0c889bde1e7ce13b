// The overview: whether all is well, players and hunts, recent activity, services and the machine.

import { read } from "./api.js";
import { enlargeable } from "./chart.js";
import { unread } from "./connection.js";
import { act } from "./dialog.js";
import { badge, button, card, choice, el, head, nothing, person, redraw, svg, table, tile } from "./dom.js";
import { RANGES, column, named, readHistory, uptime } from "./history.js";
import { state } from "./icons.js";
import { allow, endable, maintained, pause } from "./maintenance.js";
import { may, owners } from "./staff.js";
import { ago, count, exactly, short, size, span } from "./words.js";

const PLACES = { city: "In the city", hunt: "Hunting", menu: "In the menu", dojo: "In the dojo", tutorial: "In the tutorial", unknown: "Unknown place" };

export function place(where) {
  return PLACES[where] ?? where;
}

export function overview(root, live) {
  root.replaceChildren(head("Overview", "Loading…"));
  let current, todo = [], range = "hour", past = null, wanted = "";
  const charts = new Map(); // the large chart of each figure of the machine
  const look = async () => {
    const wanted = range === "week" ? "week" : "day";
    const history = await readHistory(wanted);
    if (!live.shown() || wanted !== (range === "week" ? "week" : "day")) return;
    past = history;
    draw(current);
  };
  const choose = (wanted) => {
    range = wanted;
    draw(current);
    look().catch(unread);
  };
  const check = async () => {
    ({ items: todo } = await read("DashboardChecklist"));
    if (live.shown() && current) draw(current);
  };
  if (may("owner")) {
    check().catch(unread);
    const round = setInterval(() => live.shown() ? check().catch(unread) : clearInterval(round), CHECK_MS);
  }
  const fold = (hidden) => {
    if (hidden) localStorage.setItem(HIDDEN, "1");
    else localStorage.removeItem(HIDDEN);
    draw(current);
  };
  const seek = (text) => {
    wanted = text;
    draw(current);
  };
  const maintains = ({ drain: maintenance }) => draw({ ...current, maintenance });
  const draw = (update) => {
    if (!current) {
      look().catch(unread);
      const again = setInterval(() => live.shown() ? look().catch(unread) : clearInterval(again), HISTORY_MS);
    }
    current = update;
    const { status, backup, machine, feed, accounts } = update;
    redraw(root, top(update, maintains), standing(update, maintains), status?.playersOnline ? null : checklist(todo, check, fold), services(update, past), status ? tiles(status, backup, accounts) : null,
      machine ? load(machine, range, past, choose, charts) : null,
      status ? el("div", { class: "columns evening" }, players(status, wanted, seek), el("div", { class: "stack" }, instances(status), evening(feed))) : null);
  };
  return draw;
}

function top({ status, startedAt, maintenance }, maintains) {
  const up = `Up for ${span((Date.now() - Date.parse(startedAt)) / 1000)}`;
  if (!status) return head("Overview", up);
  const version = [status.version, status.commit === "unknown" ? "" : status.commit].filter(Boolean).join(" · ");
  return head("Overview", `${up}${version ? ` · version ${version}` : ""}`,
    maintenance ? null : owners("Pause new hunts", () => pause(maintains)));
}

const HIDDEN = "svc-dashboard-checklist-hidden";
const CHECK_MS = 60_000;
const HISTORY_MS = 300_000; // between two additions to the history
const PAGES = { alerts: ["#/alerts", "Alerts"], backup: ["#/backups", "Backups"], invite: ["#/invites", "Invites"] }; // where an item is done
const SETTING = /[A-Z]+_[A-Z_]+/; // in a cure

function pageOf({ id, cure }) {
  const [setting] = SETTING.exec(cure) ?? [];
  const [target, words] = PAGES[id] ?? (setting ? [`#/settings?text=${setting}`, "Settings"] : []);
  return target ? el("a", { href: target }, words) : null;
}

/** What a new host lacks for its first evening, hidden or not; null if it lacks nothing. */
function checklist(items, check, fold) {
  const open = items.filter(({ done }) => !done);
  if (!open.length) return null;
  const hidden = localStorage.getItem(HIDDEN) !== null;
  const shown = [el("span", { class: "muted small" }, `${items.length - open.length} of ${items.length} done`),
    hidden ? null : button("Check again", () => act(check)), button(hidden ? "Show" : "Hide", () => fold(!hidden))];
  if (hidden) return card("First evening", shown);
  const rows = items.map((item) => el("li", { "data-key": item.id },
    el("div", {}, state(item.done ? "good" : "todo", item.title), el("span", { class: "unseen" }, item.done ? "done" : "to do"),
      el("p", { class: "muted small" }, [item.state, item.cure].filter(Boolean).join(" "))),
    item.done ? null : pageOf(item)));
  return card("First evening", shown, el("ul", { class: "list" }, rows));
}

const LOG = ["#/log", "Read the log", "owner"], HEALTH = ["#/health", "See Health"], ROOM = ["#/backups", "Keep fewer backups", "owner"];
const MACHINES = ["#/machines", "See machines"];
const CURES = { // the page that helps, by the kind of the fault or the name of what is almost full
  down: LOG, loop: LOG, starting: LOG, errors: HEALTH, attack: HEALTH, disk: ROOM, Disk: ROOM, Memory: ["#/servers", "See game servers"],
  node: MACHINES, agent: MACHINES, memory: MACHINES, "Open files": HEALTH, backup: ["#/backups", "See backups", "owner"], certificate: ["#/invites", "Make new invites", "owner"],
};
const WORST = ["down", "loop"];
const QUIET_S = 60; // after a start the stack has not reported yet

/** One line: all is normal, or each fault with the way to its cure. */
function standing({ status, faults, watched, startedAt, maintenance, services: all, machine }, maintains) {
  const lines = faults.map(({ kind, title, text, since }) =>
    line(`${kind} ${title}`, state(WORST.includes(kind) ? "bad" : "warn", title), since ? `${text} Since ${exactly(since)}.` : text, CURES[kind]));
  if (!status && !faults.length) lines.push(line("live", state("bad", "Live state cannot be read"), "Players and hunts are unknown.", CURES.down));
  for (const { name, state: where } of all) {
    if (where === "starting") lines.push(line(`starting ${name}`, state("warn", `${name} is starting`), "It is not ready yet, or does not answer.", CURES.starting));
  }
  for (const { name, percent, note, full } of machine ? used(machine.now) : []) {
    const known = name === "Disk" && faults.some(({ kind }) => kind === "disk");
    if (percent >= full && !known) lines.push(line(`full ${name}`, state("warn", `${name}: almost full`), note, CURES[name]));
  }
  if (!lines.length) lines.push(line("normal", state("good", "All systems normal"), ""));
  if (maintenance) {
    lines.push(line("maintenance", state("warn", "Maintenance mode"), maintained(maintenance), null,
      endable(maintenance) ? owners("End it", () => allow(maintains)) : null));
  }
  if (!watched && Date.now() - Date.parse(startedAt) > QUIET_S * 1000) {
    lines.push(line("alone", state("off", "Only the metagame is watched"), "Run svc-stack or svc-watch to watch the other services too."));
  }
  return el("section", { class: "card standing", "aria-label": "Status" }, el("ul", { class: "list" }, lines));
}

function line(key, what, text, cure = null, acts = null) {
  const [target, words, role = "helper"] = cure ?? [];
  return el("li", { "data-key": key }, el("div", {}, what, text ? el("p", { class: "muted small" }, text) : null),
    target && may(role) ? el("a", { href: target }, words) : acts);
}

const STATES = { ready: ["good", "running"], starting: ["warn", "starting"], down: ["bad", "down"] };

/** The services of the host, each with state, version, uptime, restarts and history. */
function services({ services: all, status }, past) {
  const items = all.map(({ name, state: where, version, since, restarts }) => service(name, ...(STATES[where] ?? STATES.down),
    [version, since ? `up ${span((Date.now() - Date.parse(since)) / 1000)}` : "", restarts === null ? "" : count(restarts, "restart")], uptime(name, past)));
  if (status) {
    const running = status.instances.length;
    items.push(service("game servers", running ? "good" : "off", running ? `${running} running` : "none", []));
  }
  return card("Services", [], el("ul", { class: "services" }, items));
}

function service(name, kind, words, facts, bars = null) {
  return el("li", { "data-key": name }, el("strong", {}, name), state(kind, words), facts.filter(Boolean).map((fact) => el("span", { class: "muted small" }, fact)), bars);
}

const FULL = 90; // percent

/** The machine's load in percent, null if unknown, and the share from which it is almost full. */
function used(now) {
  const share = (part, total) => part === null || !total ? null : 100 * part / total;
  const sizes = (part, total) => total ? `${size(part)} of ${size(total)}` : "";
  return [{ name: "CPU", percent: now.cpu_percent, note: "of the machine", trend: "cpu", full: Infinity },
    { name: "Memory", percent: share(now.memory_used, now.memory_total), note: sizes(now.memory_used, now.memory_total), trend: "memory", full: FULL },
    { name: "Disk", percent: share(now.disk_used, now.disk_total), note: sizes(now.disk_used, now.disk_total), trend: "disk", full: FULL },
    { name: "Open files", percent: share(now.files, now.most_files), note: now.files === null ? "unknown" : `${now.files.toLocaleString()} of ${now.most_files.toLocaleString()}`, trend: "files", full: FULL }];
}

/** The machine's load, each with its trend of the chosen range, and a button for a large chart of it. */
function load(machine, range, history, choose, charts) {
  const enlarge = (name, { at, values }) => {
    if (!charts.has(name)) charts.set(name, enlargeable(name, " %", [name]));
    charts.get(name).draw(at, [values], at[0], at.at(-1));
    return charts.get(name).button();
  };
  return el("div", { class: "group" },
    el("div", { class: "page-head" }, el("h2", {}, "Machine"), choice("Time range", RANGES, range, choose)),
    el("dl", { class: "tiles", "aria-label": "Machine" }, used(machine.now).map(({ name, percent, note, trend, full }) => {
      const past = over(machine, trend, range, history);
      return el("div", { class: "card tile" }, el("dt", {}, name, enough(past?.values) ? enlarge(name, past) : null),
        el("dd", { class: percent >= full ? "bad" : null }, percent === null ? "–" : `${short(percent)} %`),
        el("dd", { class: "note" }, percent >= full ? `almost full: ${note}` : note), el("dd", { class: "trend" }, trendOf(name, past?.values, range)));
    })));
}

/** The values of a figure in the chosen range and their times (epoch seconds), or null while they are read. */
function over({ at, trend }, figure, range, history) {
  if (range === "hour") return { at, values: trend[figure] };
  if (history?.range !== range) return null;
  const values = column(history.load, figure) ?? [];
  return { at: values.map((_, index) => history.since + index * history.stepSeconds), values };
}

function enough(values) {
  return values?.filter((value) => value !== null).length >= 2;
}

/** A line of values in percent, with a gap where none is known. */
function trendOf(name, values, range) {
  if (!values) return el("span", { class: "small muted" }, "Loading…");
  const known = values.filter((value) => value !== null), runs = [];
  if (!enough(values)) return el("span", { class: "small muted" }, "Not enough history yet.");
  values.forEach((value, at) => {
    if (value === null) return;
    if ((values[at - 1] ?? null) === null) runs.push([]);
    runs[runs.length - 1].push(`${(60 * at / (values.length - 1)).toFixed(1)},${(20 - Math.min(100, value) / 5).toFixed(1)}`);
  });
  const label = `${name} in the last ${named(range)}: ${short(Math.min(...known))} to ${short(Math.max(...known))} %`;
  return svg("svg", { viewBox: "0 0 60 20", preserveAspectRatio: "none", role: "img", "aria-label": label },
    runs.map((points) => svg("polyline", { points: points.join(" "), "vector-effect": "non-scaling-stroke" })));
}

function backedUp({ madeAt, provenAt, wrong }) {
  if (wrong) return tile("Backup", "Needs attention", wrong, true);
  if (provenAt) return tile("Backup", "Tested", `by a simulated session, ${exactly(provenAt)}`);
  return madeAt ? tile("Backup", "Made", `not tested yet, ${exactly(madeAt)}`) : tile("Backup", "–", "none yet");
}

function tiles(status, backup, accounts) {
  return el("dl", { class: "tiles", "aria-label": "Now" },
    tile("Players online", String(status.playersOnline), accounts === null ? "in the last 90 s" : `in the last 90 s, of ${accounts.toLocaleString()} account${accounts === 1 ? "" : "s"}`),
    tile("Hunts", String(status.instances.filter((instance) => instance.kind === "hunt").length), count(status.instances.length, "game server")),
    tile("Registration", { OPEN: "Open", INVITECODE: "By code", NONE: "Closed" }[status.registration] ?? "–",
      may("owner") ? el("a", { href: "#/settings?text=REGISTRATION_MODE" }, "Change who may register") : "who may register"),
    backedUp(backup));
}

const FEW = 5; // players that need no search

function players(status, wanted, seek) {
  const titles = new Map(status.instances.map((instance) => [instance.id, instance.title]));
  const somewhere = status.players.some((player) => player.instance);
  const columns = [["Player"], ["Place"], ...(somewhere ? [["Instance"]] : [])];
  const search = el("input", { type: "search", placeholder: "Name or place", "aria-label": "Search players", autocomplete: "off", input: (event) => seek(event.target.value) });
  search.value = wanted; // `redraw` may show this field instead of an older one
  const matches = (player) => [player.name, place(player.where), titles.get(player.instance) ?? ""].some((text) => text.toLowerCase().includes(wanted.trim().toLowerCase()));
  const shown = status.players.filter(matches);
  const rows = shown.map((player) => [
    person(player.name), place(player.where), player.instance ? titles.get(player.instance) : "–"].slice(0, columns.length));
  return card("Who is where", status.players.length > FEW || wanted ? [search] : [], rows.length
    ? table("Players online", columns, rows, shown.map((player) => player.name))
    : nothing(status.players.length ? "No player or place matches." : "Nobody is online."));
}

function instances(status) {
  const items = status.instances.map((instance) => el("li", {},
    el("div", {}, el("strong", {}, instance.title), el("p", { class: "names" }, `${instance.map} · started ${ago(instance.startedAt)}`)),
    badge(instance.maxPlayers ? `${instance.players} of ${instance.maxPlayers}` : count(instance.players, "player"), instance.players ? "accent" : "")));
  return card("Instances", [], items.length ? el("ul", { class: "list fleet", tabindex: "0", "aria-label": "Instances" }, items) : nothing("No game server is running."));
}

function evening(feed) {
  const items = feed.map((event) => el("li", {}, el("p", {}, names(event.who, event.count), " ", event.what),
    el("time", { datetime: event.at, title: exactly(event.at), class: "muted small" }, ago(event.at))));
  return card("Recent activity", [], items.length ? el("ul", { class: "list feed", tabindex: "0", "aria-label": "Recent activity" }, items) : nothing("No recent events."));
}

/** The names of the first players of an event. */
function names(who, many) {
  const shown = who.slice(0, many > 4 ? 3 : 4);
  const linked = shown.flatMap((name, at) => [at === 0 ? "" : at === many - 1 ? " and " : ", ", person(name)]);
  return many > shown.length ? [...linked, ` and ${many - shown.length} others`] : linked;
}
