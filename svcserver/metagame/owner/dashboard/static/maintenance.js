// Maintenance mode: no new hunt begins, and then the empty stack may stop or restart.

import { read, send } from "./api.js";
import { REASON, act, ask } from "./dialog.js";
import { count, exactly } from "./words.js";

const THEN = { stop: "the stack stops", restart: "the stack restarts" };
const NOW = { stopping: "The stack is stopping.", restarting: "The stack is restarting." };
const ACTS = [["restart", "restart the stack"], ["stop", "stop the stack"]];
const UNITS = "This host was not started by svc-stack, so the dashboard cannot stop or restart the host. If you use systemd, wait until no hunt is running, then run: systemctl restart svcserver.target";

/** The mode in words: who began it, why, and what follows. */
export function maintained({ by, since, reason, until, then }) {
  const next = NOW[then] ?? (THEN[then] ? `When ${until === "nobody" ? "nobody is online" : "no hunt runs"}, ${THEN[then]}.` : "");
  return `${by} paused new hunts ${exactly(since)}${reason ? `: ${reason}` : ""}. ${next}`;
}

/** Whether the mode can be ended: not while the stack stops. */
export function endable({ then }) {
  return !NOW[then];
}

/** Ask and pause; `changed` gets the reply. */
export async function pause(changed) {
  let status;
  if (!await act(async () => { status = await read("DashboardDrain"); })) return;
  const { stack, playersOnline } = status;
  const hunts = status.hunts === null ? "an unknown number of hunts" : count(status.hunts, "hunt");
  const input = await ask({
    title: "Pause new hunts?", confirm: "Pause",
    text: `Running hunts continue to their end. No new hunt can start until you end the pause. Now: ${hunts} running, ${count(playersOnline, "player")} online.${stack ? "" : ` ${UNITS}`}`,
    fields: [
      { name: "then", label: "When the server is empty", options: [["", "do nothing"], ...(stack ? ACTS : [])] },
      { name: "until", label: "The server is empty when", options: [["no hunt", "no hunt runs"], ["nobody", "nobody is online"]] },
      REASON],
  });
  if (input) {
    await act(() => send("DashboardDrain", { On: true, Then: input.then, Until: input.until, Reason: input.reason }),
      () => "New hunts are paused", changed);
  }
}

/** Ask and allow new hunts; `changed` gets the reply. */
export async function allow(changed) {
  const input = await ask({ title: "Allow new hunts again?", fields: [REASON], confirm: "Allow" });
  if (input) await act(() => send("DashboardDrain", { On: false, Reason: input.reason }), () => "New hunts are allowed", changed);
}
