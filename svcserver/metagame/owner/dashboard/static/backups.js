// Backups: the list, a backup now, schedule and retention, download, and the command to restore.

import { fetchFile, fileOf, inTurn, prove, read, send } from "./api.js";
import { CODE, KEY } from "./access.js";
import { REASON, act, ask, copy, say, show } from "./dialog.js";
import { badge, button, card, el, head, nothing, redraw, table } from "./dom.js";
import { state } from "./icons.js";
import { count, exactly, size } from "./words.js";

const STEPS = [["make", "Copying the database and settings"], ["test", "Testing the backup on a temporary server"], ["check", "Checking the stored backups"]];

const HOW = "Backups from this page need a running svc-stack. In a terminal, run svcctl backup now.";
const SOURCES = { file: "stack.env", environment: "environment of svc-stack" };

export async function backups(root, live) {
  const [again] = inTurn(async () => {
    const reply = await read("DashboardBackups");
    if (!live.shown()) return;
    const idle = reply.stack && !reply.running && !reply.requested;
    redraw(root, head("Backups", "Database and settings, without the game's files.", idle ? button("Back up now", () => start(again), "primary") : null),
      standing(reply), schedule(reply, again),
      card("Stored backups", [], listed(reply.backups), el("p", { class: "foot small muted" },
        "To restore one player, open ", el("a", { href: "#/accounts" }, "the account"), " and choose an older save.")));
  });
  await again();
  return again;
}

/** The fault, or the run in progress, or the newest tested backup. */
function standing({ stack, wrong, running, requested, notTaken, schedule: settings, backups: all }) {
  const tested = all.map((backup) => backup.provenAt).filter(Boolean).sort().at(-1);
  const well = tested ? state("good", `Tested ${exactly(tested)}`) : state("off", all.length ? "Not tested yet" : "No backup yet");
  return card(null, [], el("div", { class: "inside groups" }, wrong ? el("p", {}, state("bad", wrong)) : el("p", {}, well),
    notTaken ? el("p", {}, state("bad", `svc-stack did not make the backup that was requested on ${exactly(notTaken)}. ${HOW}`)) : null,
    stack || notTaken ? null : el("p", { class: "muted small" }, HOW),
    running || requested ? el("div", { class: "group" }, progress(running, settings)) : null));
}

function progress(running, settings) {
  const steps = STEPS.filter(([step]) => step !== "test" || settings?.drill !== false);
  const current = running ? Math.max(0, steps.findIndex(([step]) => step === running.step)) : -1;
  const items = steps.map(([step, words], number) => el("li", { "data-key": step, "aria-current": number === current ? "step" : null },
    state(number < current ? "good" : number === current ? "busy" : "todo", words)));
  return [el("p", {}, running ? `A backup has been in progress since ${exactly(running.since)}.` : "A backup starts in a moment."),
    el("ol", { class: "steps", "aria-label": "Progress" }, items)];
}

function from(source) {
  return SOURCES[source] ? el("span", { class: "muted small" }, ` (${SOURCES[source]})`) : "";
}

function schedule({ stack, schedule: settings, badSettings }, again) {
  if (!settings) return card("Schedule", [], el("p", { class: "inside bad" }, state("bad", badSettings)));
  const when = !stack ? "by svc-backup.timer, or by you" : settings.at === "off" ? "off" : `every night at ${settings.at}, server time`;
  const units = ["day", "week", "month"].filter((unit) => settings[`${unit}s`]);
  const source = (unit) => settings.sources[`${unit}s`];
  const kept = units.flatMap((unit, at) => [at ? ", " : "", count(settings[`${unit}s`], unit),
    at === units.length - 1 || source(unit) !== source(units[at + 1]) ? from(source(unit)) : ""]);
  return card("Schedule", [button("Change", () => change(settings, stack, again))], el("dl", { class: "facts inside" },
    el("dt", {}, "Made"), el("dd", {}, when, stack ? from(settings.sources.at) : ""),
    el("dt", {}, "Kept"), el("dd", {}, "the newest of each of the last ", kept),
    el("dt", {}, "Tested"), el("dd", {}, settings.drill ? "after each backup" : "no (BACKUP_DRILL=0)"),
    el("dt", {}, "Encrypted"), el("dd", {}, settings.encrypted ? "yes" : "no (set BACKUP_PASSPHRASE or BACKUP_RECIPIENTS in stack.env)"),
    el("dt", {}, "Folder"), el("dd", {}, el("code", {}, settings.folder))));
}

function listed(all) {
  if (!all.length) return nothing("There is no backup yet.");
  const rows = all.map((backup) => [
    exactly(backup.madeAt), size(backup.bytes), badge(backup.encrypted ? "encrypted" : "not encrypted"), verified(backup),
    el("div", { class: "actions" }, button("Download", () => download(backup)), button("How to restore", () => restore(backup)))]);
  return table("Stored backups", [["Made"], ["Size"], ["Encryption"], ["State"], ["", "end"]], rows, all.map((backup) => backup.name));
}

function verified(backup) {
  if (backup.fault) return el("div", {}, state("bad", "damaged or failed"), el("p", { class: "names" }, backup.fault));
  return backup.provenAt ? state("good", "tested") : state("off", "not tested");
}

async function start(again) {
  await ask({ title: "Back up now?", text: "The server keeps running. The test needs about a minute and the memory of a second server.", fields: [REASON], confirm: "Back up",
    run: async ({ reason }) => {
      await send("DashboardBackup", { Reason: reason });
      return "The backup starts";
    }, again });
}

async function change(settings, stack, again) {
  let access;
  if (!await act(async () => { access = await read("DashboardAccess"); })) return;
  const units = [["days", "Days kept", 1, 366], ["weeks", "Weeks kept", 0, 260], ["months", "Months kept", 0, 120]];
  const own = (name) => settings.sources[name] !== "environment"; // the others are changed there
  const number = ([name, label, min, max]) => ({ name, label, type: "number", min, max, value: String(settings[name]) });
  const proof = [{ ...KEY, label: `${KEY.label} (needed only to keep fewer backups or to turn backups off)`, hint: "The next backup run deletes all backups that are over these limits.", optional: true }];
  if (access.secondFactor) proof.push({ ...CODE, label: `${CODE.label} (needed only to keep fewer backups or to turn backups off)`, optional: true });
  await ask({
    title: "Schedule of backups", confirm: "Change", again,
    fields: [...stack && own("at") ? [{ name: "at", label: "Time of day on the server, or: off", value: settings.at, longest: 5 }] : [],
      ...units.filter(([name]) => own(name)).map(number), ...proof, REASON],
    run: async ({ key, code, reason, ...typed }) => {
      const { at, days, weeks, months } = { ...settings, ...typed };
      const body = { At: at.trim().toLowerCase(), Days: Number(days), Weeks: Number(weeks), Months: Number(months), Mark: settings.mark, Reason: reason };
      await (key.trim() ? prove("DashboardBackupSchedule", body, key.trim(), code?.trim()) : send("DashboardBackupSchedule", body));
      return "Schedule changed";
    },
  });
}

async function download(backup) {
  let access;
  if (!await act(async () => { access = await read("DashboardAccess"); })) return;
  let started = null;
  const input = await ask({
    title: `Download the backup of ${exactly(backup.madeAt)}`, confirm: "Download",
    text: backup.encrypted ? "The file is encrypted." : "The file is not encrypted. Anybody who has it can read all player data.",
    fields: [...access.secondFactor ? [KEY, CODE] : [KEY], REASON],
    run: async ({ key, code, reason }) => {
      started = await fetchFile("DashboardBackupDownload", { Name: backup.name, Reason: reason }, key.trim(), code?.trim());
      return `Downloading ${size(backup.bytes)}…`;
    },
  });
  if (!input) return;
  const bar = el("progress", { max: Math.max(1, backup.bytes), "aria-label": "Download" }), figures = el("p", { class: "muted" });
  let cancelled = false, result = ["Backup downloaded"];
  const close = show(`Downloading ${backup.name}`, false, bar, figures, el("p", { class: "muted small" }, "The download continues after you close this dialog, as long as you stay on the dashboard."),
    button("Cancel the download", () => { cancelled = true; started.cut.abort(); }));
  try {
    const file = await fileOf(started, (bytes) => {
      bar.value = bytes;
      figures.textContent = `${size(bytes)} of ${size(backup.bytes)}`;
    });
    const address = URL.createObjectURL(file);
    el("a", { href: address, download: backup.name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch {
    result = cancelled ? ["Download cancelled"] : ["The download broke off. Try again.", true];
  }
  close();
  say(...result);
}

function restore(backup) {
  show(`Restore the backup of ${exactly(backup.madeAt)}`, false,
    el("p", {}, "Run this command on the server's machine. It checks the file, stops the server and replaces the database. The previous database is kept in the same folder."),
    el("p", { class: "join" }, backup.restore), button("Copy", () => copy(backup.restore, "Command")));
}
