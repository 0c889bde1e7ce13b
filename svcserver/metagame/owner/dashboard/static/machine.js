// Maintenance mode. `again` reloads the page.

import { inTurn, read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { card, el, head, linked, redraw } from "./dom.js";
import { owners } from "./staff.js";
import { count, exactly } from "./words.js";

export async function machine(root, live) {
  const [again] = inTurn(async () => {
    const status = await read("DashboardDrain");
    if (live.shown()) redraw(root, head("Machine"), maintenance(status, again));
  });
  await again();
  return again;
}

function maintenance(status, again) {
  const { drain } = status;
  const hunts = status.hunts === null ? "number of hunts unknown" : `${count(status.hunts, "hunt")} running`;
  const there = `${hunts}, ${count(status.playersOnline, "player")} online`;
  if (!drain) {
    return card("Maintenance", [owners("Pause new hunts", () => begin(status.stack, again))],
      el("p", { class: "muted" }, `New hunts are allowed. Now: ${there}.`));
  }
  const acting = { stopping: "the stack is stopping", restarting: "the stack is restarting" }[drain.then];
  const then = acting ?? { "": "nothing", stop: "the stack stops", restart: "the stack restarts" }[drain.then];
  return card("Maintenance", acting ? [] : [owners("End it", () => end(again))],
    el("dl", { class: "facts inside" },
      el("dt", {}, "New hunts paused since"), el("dd", {}, `${exactly(drain.since)}, by `, linked(drain.by)),
      drain.reason ? [el("dt", {}, "Reason"), el("dd", {}, drain.reason)] : null,
      el("dt", {}, "Waits until"), el("dd", {}, drain.until === "nobody" ? "nobody is online" : "no hunt runs"),
      el("dt", {}, "Then"), el("dd", {}, then),
      el("dt", {}, "Now"), el("dd", {}, status.empty ? "empty" : there)));
}

const ACTS = [["restart", "restart the stack"], ["stop", "stop the stack"]];
const UNITS = "This host was not started by svc-stack, so the dashboard cannot stop or restart the host. If you use systemd, wait until no hunt is running, then run: systemctl restart svcserver.target";

async function begin(stack, again) {
  const input = await ask({
    title: "Pause new hunts?", confirm: "Pause",
    text: "Running hunts continue to their end. No new hunt can start until you end the pause." + (stack ? "" : ` ${UNITS}`),
    fields: [
      { name: "then", label: "When the server is empty", options: [["", "do nothing"], ...(stack ? ACTS : [])] },
      { name: "until", label: "Empty means", options: [["no hunt", "no hunt runs"], ["nobody", "nobody is online"]] },
      REASON],
  });
  if (input) {
    await act(() => send("DashboardDrain", { On: true, Then: input.then, Until: input.until, Reason: input.reason }),
      () => "New hunts are paused", again);
  }
}

async function end(again) {
  const input = await ask({ title: "Allow new hunts again?", fields: [REASON], confirm: "Allow" });
  if (input) await act(() => send("DashboardDrain", { On: false, Reason: input.reason }), () => "New hunts are allowed", again);
}
