// Maintenance mode and game servers. `again` reloads the page.

import { inTurn, read, send } from "./api.js";
import { REASON, act, ask, show } from "./dialog.js";
import { card, el, head, linked, nothing, redraw, table } from "./dom.js";
import { owners } from "./staff.js";
import { count, exactly } from "./words.js";

export async function machine(root, live) {
  const [again] = inTurn(async () => {
    const said = await read("DashboardDrain");
    const runs = await read("DashboardGameServers").catch((why) => {
      if (why.status !== 409) throw why;
      return null;
    });
    if (!live.shown()) return;
    redraw(root, head("Machine", "Maintenance mode and game servers."),
      maintenance(said, again), gameServers(runs, again));
  });
  await again();
  return again;
}

function maintenance(said, again) {
  const one = said.drain;
  const hunts = said.hunts === null ? "number of hunts unknown" : `${count(said.hunts, "hunt")} running`;
  const there = `${hunts}, ${count(said.playersOnline, "player")} online`;
  if (!one) {
    return card("Maintenance", [owners("Pause new hunts", () => begin(said.stack, again))],
      el("p", { class: "muted" }, `New hunts are allowed. Now: ${there}.`));
  }
  const acting = { stopping: "the stack is stopping", restarting: "the stack is restarting" }[one.then];
  const then = acting ?? { "": "nothing", stop: "the stack stops", restart: "the stack restarts" }[one.then];
  return card("Maintenance", acting ? [] : [owners("End it", () => end(again))],
    el("dl", { class: "facts inside" },
      el("dt", {}, "New hunts paused since"), el("dd", {}, `${exactly(one.since)}, by `, linked(one.by)),
      one.reason ? [el("dt", {}, "Reason"), el("dd", {}, one.reason)] : null,
      el("dt", {}, "Waits until"), el("dd", {}, one.until === "nobody" ? "nobody is online" : "no hunt runs"),
      el("dt", {}, "Then"), el("dd", {}, then),
      el("dt", {}, "Now"), el("dd", {}, said.empty ? "empty" : there)));
}

const ACTS = [["restart", "restart the stack"], ["stop", "stop the stack"]];
const UNITS = "This host was not started by svc-stack, so the dashboard cannot stop or restart the host. If you use systemd, wait until no hunt is running, then run: systemctl restart svcserver.target";

async function begin(stack, again) {
  const given = await ask({
    title: "Pause new hunts?", confirm: "Pause",
    text: "Running hunts continue to their end. No new hunt can start until you end the pause." + (stack ? "" : ` ${UNITS}`),
    fields: [
      { name: "then", label: "When the server is empty", options: [["", "do nothing"], ...(stack ? ACTS : [])] },
      { name: "until", label: "Empty means", options: [["no hunt", "no hunt runs"], ["nobody", "nobody is online"]] },
      REASON],
  });
  if (given) {
    await act(() => send("DashboardDrain", { On: true, Then: given.then, Until: given.until, Reason: given.reason }),
      () => "New hunts are paused", again);
  }
}

async function end(again) {
  const given = await ask({ title: "Allow new hunts again?", fields: [REASON], confirm: "Allow" });
  if (given) await act(() => send("DashboardDrain", { On: false, Reason: given.reason }), () => "New hunts are allowed", again);
}

/** Game servers, each with its acts; `said` is null if the deploy server does not answer. */
function gameServers(said, again) {
  if (!said) return card("Game servers", [], nothing("The deploy server does not answer."));
  const missing = ["city", "dojo"].filter((kind) => !said.servers.some((one) => one.kind === kind));
  const servers = said.servers.toSorted((one, other) => one.port - other.port);
  const rows = servers.map((one) => [
    one.kind, String(one.port), one.map, exactly(one.startedAt),
    el("div", { class: "actions" },
      owners("Console", () => printed(one)),
      ["city", "dojo"].includes(one.kind) ? owners("Restart", () => handle(one, "restart", again)) : null,
      owners("Stop", () => handle(one, "stop", again)))]);
  return card("Game servers", missing.map((kind) => owners(`Start the ${kind}`, () => start(kind, again))), rows.length
    ? table("Game servers", [["Kind"], ["Port"], ["Map", "wide-only"], ["Since", "wide-only"], ["", "end"]], rows, servers.map((one) => one.port))
    : nothing("No game server is running."));
}

async function start(kind, again) {
  await act(() => send("DashboardGameServer", { Act: "start", Kind: kind }), () => `The ${kind} was started`, again);
}

async function handle(one, what, again) {
  const given = await ask({
    title: `${what === "stop" ? "Stop" : "Restart"} the ${one.kind} on port ${one.port}?`, confirm: what === "stop" ? "Stop" : "Restart",
    text: "Players on it lose their connection.", danger: true, fields: [REASON],
  });
  if (given) {
    await act(() => send("DashboardGameServer", { Act: what, Id: one.id, Reason: given.reason }),
      () => `The ${one.kind} ${what === "stop" ? "was stopped" : "was restarted"}`, again);
  }
}

async function printed(one) {
  await act(async () => {
    const said = await read("DashboardConsole", { Id: one.id });
    const lines = said.lines.length ? said.lines.join("\n") : "No output yet.";
    show(`${one.kind} on port ${one.port}`, true, el("pre", { class: "log", tabindex: "0" }, lines));
  });
}
