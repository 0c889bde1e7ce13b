// Game servers: the running ones with their load and players, and past launches.

import { inTurn, read, send } from "./api.js";
import { drawing } from "./chart.js";
import { REASON, act, ask, show } from "./dialog.js";
import { badge, button, card, el, head, nothing, person, redraw, table } from "./dom.js";
import { icon } from "./icons.js";
import { may, owners } from "./staff.js";
import { count, exactly, size, span } from "./words.js";

const FIRST = 10; // launches shown at once
const NAMED = 6; // players named in a row
const MAX_SAMPLES = 900; // samples of the load
const AWAY = "The deploy server does not answer.";
export const WORLDS = { city: "city", dojo: "dojo" }; // kinds that an owner may start and restart

export function servers(root, live) {
  let fleet = null, past = null, mark = null, samples = [], trace = () => {}, away = false;
  root.replaceChildren(head("Game servers", "Loading…"));
  const draw = () => live.shown() && redraw(root, top(fleet, again), running(fleet, away, again, graph), history(fleet, past, live, draw));
  const graph = (server) => {
    const figures = [drawing("CPU", " %", ["CPU"]), drawing("Memory", " MB", ["memory"])];
    trace = () => {
      const known = samples.filter(({ loads }) => loads.has(server.id));
      if (!known.length || !figures[0].node.isConnected) return;
      const at = known.map((sample) => sample.at), end = at.at(-1);
      const column = (number) => known.map(({ loads }) => loads.get(server.id)[number] ?? undefined);
      figures.forEach((figure, number) => figure.draw(at, [column(number)], Math.min(at[0], end - 60), end));
    };
    show(`Load of ${server.title}`, true, el("p", { class: "muted small" }, "Since you opened this page. CPU in percent of one core."), figures.map(({ node }) => node));
    trace();
  };
  const [again, remember] = inTurn(async () => { // after an act: the stream may be two seconds late
    const { servers: list } = await read("DashboardGameServers");
    const known = new Map((fleet ?? []).map((server) => [server.id, server]));
    fleet = list.map((server) => ({ title: server.kind, players: 0, names: [], memoryBytes: null, cpuPercent: null, ...known.get(server.id), ...server }));
    fleet.sort((first, second) => first.port - second.port);
    draw();
  }, async () => {
    past = (await read("DashboardLaunches")).launches;
    draw();
  });
  return async ({ servers: list, launches }) => {
    away = !list;
    fleet = list ?? fleet; // a short break keeps the table and the reader's place in it
    if (list) {
      const loads = new Map(list.map(({ id, cpuPercent, memoryBytes }) => [id, [cpuPercent, memoryBytes === null ? null : memoryBytes / 2 ** 20]]));
      samples = [...samples, { at: Date.now() / 1000, loads }].slice(-MAX_SAMPLES);
    }
    draw();
    trace();
    if (list && launches !== mark) {
      await remember();
      mark = launches;
    }
  };
}

function top(fleet, again) {
  const missing = fleet ? Object.keys(WORLDS).filter((kind) => !fleet.some((server) => server.kind === kind)) : [];
  return head("Game servers", fleet ? summary(fleet) : null,
    ...missing.map((kind) => owners(`Start the ${kind}`, () => act(
      () => send("DashboardGameServer", { Act: "start", Kind: kind }), () => `The ${kind} was started`, again))));
}

function summary(fleet) {
  const memory = fleet.reduce((sum, server) => sum + (server.memoryBytes ?? 0), 0);
  return [`${fleet.length} running`, count(fleet.reduce((sum, server) => sum + server.players, 0), "player"), memory ? size(memory) : ""].filter(Boolean).join(" · ");
}

function running(fleet, away, again, graph) {
  if (!fleet) return card("Running", [], nothing(AWAY));
  const rows = fleet.map((server) => [
    el("div", {}, el("strong", {}, server.title), el("p", { class: "names" }, `${server.kind} · port ${server.port}`)),
    players(server), el("span", { class: "whole" }, load(server), " ", hasLoad(server) ? el("button", { type: "button", class: "quiet enlarge", "aria-label": `Graph of ${server.title}`, title: "Graph", click: () => graph(server) }, icon("health")) : null),
    el("span", { title: server.startedAt ? exactly(server.startedAt) : null }, server.startedAt ? since(server.startedAt) : "–"),
    el("div", { class: "actions" }, may("owner") ? el("a", { class: "button", href: `#/servers/${encodeURIComponent(server.id)}` }, "Console") : null,
      ...controls(server, again))]);
  return card("Running", [], rows.length
    ? table("Game servers", [["Server"], ["Players"], ["CPU · memory"], ["Uptime", "wide-only"], ["", "end"]], rows, fleet.map((server) => server.port))
    : nothing("No game server is running."), away ? el("p", { class: "foot", role: "status" }, `${AWAY} The table shows the deploy server's last answer.`) : null);
}

function players({ players: number, names }) {
  const shown = names.slice(0, NAMED);
  return el("div", {}, count(number, "player"), shown.length
    ? el("p", { class: "names" }, shown.flatMap((name, index) => [index ? ", " : "", person(name)]), number > shown.length ? ` and ${number - shown.length} more` : "") : null);
}

/** CPU time in percent of one core, and memory. */
function load({ cpuPercent, memoryBytes }) {
  return [cpuPercent === null ? "" : `${Math.round(cpuPercent)} %`, memoryBytes === null ? "" : size(memoryBytes)].filter(Boolean).join(" · ") || "–";
}

function hasLoad({ cpuPercent, memoryBytes }) {
  return cpuPercent !== null || memoryBytes !== null;
}

function since(iso) {
  return span((Date.now() - Date.parse(iso)) / 1000);
}

/** The buttons for one game server; `again` gets the id of the server that runs afterwards. */
export function controls(server, again) {
  return [
    WORLDS[server.kind] ? owners("Restart", () => change(server, "restart", again)) : null,
    owners("Stop", () => change(server, "stop", again))];
}

async function change(server, what, again) {
  const input = await ask({
    title: `${what === "stop" ? "Stop" : "Restart"} the ${server.kind} on port ${server.port}?`, confirm: what === "stop" ? "Stop" : "Restart",
    text: "Players on it lose their connection.", danger: true, fields: [REASON],
  });
  if (input) {
    await act(() => send("DashboardGameServer", { Act: what, Id: server.id, Reason: input.reason }),
      () => `The ${server.kind} ${what === "stop" ? "was stopped" : "was restarted"}`, again);
  }
}

function history(fleet, past, live, draw) {
  if (!past?.length) return card("Past launches", [], nothing(past ? "No game server has ended yet." : fleet ? "Loading…" : AWAY));
  const all = live.unfolded.has("launches") || past.length <= FIRST;
  const shown = all ? past : past.slice(0, FIRST);
  const rows = shown.map((launch) => [
    el("div", {}, el("strong", {}, launch.title), el("p", { class: "names" }, launch.port ? `${launch.kind} · port ${launch.port}` : launch.kind)),
    exactly(launch.endedAt), launch.port ? lasted((Date.parse(launch.endedAt) - Date.parse(launch.startedAt)) / 1000) : "–",
    el("div", {}, ending(launch), launch.reason ? el("p", { class: "names" }, launch.reason) : null),
    launch.hasOutput && may("owner") ? el("div", { class: "actions" }, el("a", { class: "button", href: `#/servers/${encodeURIComponent(launch.id)}` }, "Output")) : null]);
  return card("Past launches", [], table("Past launches", [["Server"], ["Ended"], ["Ran for", "wide-only"], ["Result"], ["", "end"]], rows, shown.map((launch) => `${launch.id} ${launch.endedAt}`)),
    all ? null : el("p", { class: "foot" }, button(`Show all ${past.length}`, () => {
      live.unfolded.add("launches");
      draw();
    })));
}

function lasted(seconds) {
  return seconds < 60 ? `${Math.max(0, Math.round(seconds))} s` : span(seconds);
}

/** How a game server has ended. */
export function ending({ how, reason }) {
  const code = /^code (\d+)$/.exec(how)?.[1];
  if (code) return badge(`exit code ${code}`, code === "0" ? "good" : "bad");
  if (how === "failed") return badge("did not start", "bad");
  if (how.startsWith("signal ")) return badge(how, reason ? "" : "bad");
  return badge(how === "code unknown" ? "exit code unknown" : how);
}
