// Machines: those of the fleet that run game servers, with their memory and hunts.

import { inTurn, read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { card, el, head, nothing, redraw, table } from "./dom.js";
import { state } from "./icons.js";
import { owners } from "./staff.js";
import { count, size } from "./words.js";

const KINDS = { ready: "good", draining: "busy", drained: "off" };
const EVERY_MS = 5000;
const MOST_AHEAD_S = 2;

export async function machines(root, live) {
  let timer = null;
  const [again] = inTurn(async () => {
    clearTimeout(timer);
    const all = await readMachines();
    if (!live.shown()) return;
    redraw(root, head("Machines", all?.length ? summary(all) : null), card("Fleet", [], listed(all, again)));
    timer = setTimeout(() => live.shown() && again().catch(() => live.again()), EVERY_MS);
  });
  await again();
}

/** The machines, or null while the deploy server does not answer. */
async function readMachines() {
  try {
    return (await read("DashboardMachines")).machines;
  } catch (why) {
    if (why.status !== 409) throw why;
    return null;
  }
}

function summary(all) {
  const hunts = all.reduce((sum, machine) => sum + machine.hunts, 0);
  const room = all.reduce((sum, machine) => sum + machine.room, 0);
  return `${count(all.length, "machine")} · ${count(hunts, "hunt")} · room for ${room} more`;
}

function listed(all, again) {
  if (!all) return nothing("The deploy server does not answer.");
  if (!all.length) return nothing("Game servers run only on this machine. To use more machines, run svcctl fleet init.");
  const rows = all.map((machine) => [
    el("div", {}, el("strong", {}, named(machine)), el("p", { class: "names" }, machine.address)),
    el("div", {}, state(KINDS[machine.state] ?? "bad", machine.state), ...faults(machine).map((fault) => el("p", { class: "names" }, fault))),
    machine.gamePorts,
    el("div", {}, `${size(Math.max(0, machine.memoryBytes - machine.reservedBytes))} free`, el("p", { class: "names" }, `${size(machine.reservedBytes)} reserved`)),
    el("div", {}, count(machine.hunts, "hunt"), el("p", { class: "names" }, count(machine.players, "player"))),
    machine.version, el("div", { class: "actions" }, ...controls(machine, again))]);
  return table("Machines", [["Machine"], ["State"], ["Game ports", "wide-only"], ["Memory"], ["Hunts"], ["Docker", "wide-only"], ["", "end"]], rows, all.map((machine) => machine.id));
}

/** What is wrong with a machine, in a few words each. */
function faults({ agent, clockSeconds: ahead, hasImage }) {
  const lines = [];
  if (agent === "away") lines.push("agent not connected");
  if (Math.abs(ahead ?? 0) > MOST_AHEAD_S) lines.push(`clock ${Math.abs(ahead).toFixed(1)} s ${ahead > 0 ? "ahead" : "behind"}`);
  if (hasImage === false) lines.push("image missing");
  return lines;
}

function controls(machine, again) {
  if (machine.state === "ready") return [owners("Drain", () => drain(machine, again))];
  if (machine.state === "draining" || machine.state === "drained") return [owners("Use again", () => undrain(machine, again))];
  return [];
}

async function drain(machine, again) {
  const input = await ask({
    title: `Drain ${named(machine)}?`, confirm: "Drain",
    text: "No more hunts start on this machine. When the last hunt has ended, a city on this machine moves to another machine.", fields: [REASON],
  });
  if (input) await change("drain", machine, input.reason, "starts no more hunts", again);
}

async function undrain(machine, again) {
  const input = await ask({ title: `Use ${named(machine)} again?`, confirm: "Use again", text: "Hunts start on this machine again.", fields: [REASON] });
  if (input) await change("undrain", machine, input.reason, "is used again", again);
}

function change(what, machine, reason, result, again) {
  return act(() => send("DashboardGameServer", { Act: what, Id: machine.id, Reason: reason }), () => `${named(machine)} ${result}`, again);
}

function named(machine) {
  return machine.name || machine.id;
}
