// Alert channels: add, change, test, remove; the latest incidents and deliveries.

import { Refused, inTurn, read, remove, send } from "./api.js";
import { REASON, act, ask, copy, show } from "./dialog.js";
import { badge, button, card, el, head, nothing, redraw, table } from "./dom.js";
import { state } from "./icons.js";
import { owners } from "./staff.js";
import { exactly, span } from "./words.js";

const KINDS = [["down", "Service down"], ["loop", "Restart loop"], ["disk", "Low disk space"], ["certificate", "Certificate expires"],
  ["backup", "Backups"], ["errors", "Error rate"], ["attack", "Attack"],
  ["node", "Machine lost"], ["agent", "Agent away"], ["memory", "Not enough memory to start a game server"]];
const TOKEN = { name: "Token", type: "password", optional: true, longest: 4096 };
const webhook = (placeholder) => [{ name: "Url", label: "Webhook URL", placeholder }];
const FORMS = { // the title, and the fields besides those of every channel
  discord: ["Discord", webhook("https://…/api/webhooks/…")],
  slack: ["Slack", webhook("https://…/services/…")],
  matrix: ["Matrix", [{ name: "Url", label: "Home server", placeholder: "https://matrix.example.org" },
    { name: "Room", label: "Room id", placeholder: "!room:example.org", longest: 255 }, { ...TOKEN, label: "Access token" }]],
  ntfy: ["ntfy", [{ name: "Url", label: "Topic URL", placeholder: "https://…/your-topic" }, { ...TOKEN, label: "Access token (optional)" }]],
  json: ["JSON webhook", [...webhook("https://…"), { ...TOKEN, label: "Bearer token (optional)" }]],
  mail: ["Mail", [{ name: "Url", label: "Mail server", placeholder: "smtps://mail.example.org" },
    { name: "MailFrom", label: "From", longest: 320 }, { name: "MailTo", label: "To (several: separated by commas)", longest: 1024 },
    { name: "MailUser", label: "User (optional)", optional: true, longest: 320 }, { ...TOKEN, label: "Password (optional)" }]],
};

export async function alerts(root, live) {
  const [again] = inTurn(async () => {
    const reply = await read("DashboardAlerts");
    if (!live.shown()) return;
    redraw(root, head("Alerts", "Get a message when something is wrong with your server.", owners("Add a channel", () => add(again), "primary")),
      reply.on ? null : card(null, [], el("div", { class: "inside" }, state("off", "No alerts are sent"), el("p", { class: "muted small" }, "Start svc-stack or svc-watch."))),
      reply.wrong.map((fault) => card(null, [], el("p", { class: "inside" }, state("bad", fault)))),
      card("Channels", [], listed(reply, again)), past(reply.incidents), history(reply.channels));
  });
  await again();
  return again;
}

function listed({ on, channels, broken }, again) {
  if (!channels.length && !broken.length) return nothing("No alert channel yet. Add one to be notified when something breaks.");
  const rows = channels.map((channel) => [
    el("span", {}, el("strong", {}, channel.name), " ", badge(FORMS[channel.form]?.[0] ?? channel.form)), about(channel), channel.quiet ?? "–", last(channel),
    el("div", { class: "actions" }, on ? owners("Test", () => test(channel, again)) : null,
      owners("Change", () => change(channel, again)), owners("Remove", () => drop(channel, again), "danger"))]);
  const unusable = broken.map((channel) => [
    el("strong", {}, channel.name), "–", "–", el("div", {}, state("bad", "gets no alerts"), el("p", { class: "names" }, channel.why)),
    el("div", { class: "actions" }, owners("Remove", () => drop(channel, again), "danger"))]);
  return table("Channels", [["Channel"], ["About", "wide-only"], ["Quiet", "wide-only"], ["Last alert"], ["", "end"]], [...rows, ...unusable],
    [...channels, ...broken].map((channel) => channel.name));
}

function about(channel) {
  return channel.about.map((kind) => KINDS.find(([value]) => value === kind)?.[1] ?? kind).join(", ") || "everything";
}

const waits = new Map(); // channel name: the time of the last alert before a test whose result is not known yet
const TESTED_MS = 60_000; // an older request for a test is ignored

function last({ name, last: delivery }) {
  if (waits.has(name) && waits.get(name) === delivery?.at) return "test sent, waiting for the result";
  waits.delete(name);
  if (!delivery) return "none yet";
  return el("div", {}, outcome(delivery), el("p", { class: "names" }, [exactly(delivery.at), delivery.why].filter(Boolean).join(" · ")));
}

function outcome(delivery) {
  return delivery.why === null ? state("good", "delivered") : state("bad", "not delivered");
}

/** The latest faults, each from its first alert to its end. */
function past(incidents) {
  const items = incidents.map(({ title, text, since, until }) => el("li", { "data-key": `${title} ${since}` },
    el("div", {}, el("strong", {}, title), el("p", { class: "names" }, `${until ? `${exactly(since)} – ${exactly(until)}` : `since ${exactly(since)}`} · ${text}`)),
    until ? state("good", span(Math.max(60, (Date.parse(until) - Date.parse(since)) / 1000))) : state("bad", "ongoing")));
  return card("Incidents", [], items.length ? el("ul", { class: "list", "aria-label": "Incidents" }, items) : nothing("No incident yet."));
}

/** The newest alerts of all channels. */
function history(channels) {
  const entries = channels.flatMap((channel) => channel.deliveries.map((delivery) => ({ ...delivery, name: channel.name })))
    .sort((first, second) => second.at.localeCompare(first.at));
  const items = entries.map((entry) => el("li", {},
    el("div", {}, el("strong", {}, entry.title), el("p", { class: "names" }, [entry.name, exactly(entry.at), entry.why].filter(Boolean).join(" · "))),
    outcome(entry)));
  return card("Delivery history", [], items.length
    ? el("ul", { class: "list", "aria-label": "Delivery history" }, items)
    : nothing("No alert was sent yet."));
}

async function test(channel, again) {
  await act(async () => {
    await send("DashboardAlertTest", { Name: channel.name });
    waits.set(channel.name, channel.last?.at);
    setTimeout(() => waits.delete(channel.name), TESTED_MS);
  }, () => `Test sent to ${channel.name}`, again);
}

const NAME = { name: "Name", label: "Name of the channel", hint: "Small letters, digits and -.", longest: 32 };

async function add(again) {
  const choice = await ask({
    title: "Add an alert channel", confirm: "Continue",
    fields: [{ name: "form", label: "Send alerts to", options: Object.entries(FORMS).map(([form, [title]]) => [form, title]) }],
  });
  if (!choice) return;
  let made = null;
  const done = await ask({
    title: `Alerts to ${FORMS[choice.form][0]}`, confirm: "Add", fields: [NAME, ...fields(choice.form)], again,
    run: async (typed) => {
      made = await send("DashboardAlertChannel", body(typed.Name.trim(), choice.form, true, typed));
      return `Channel ${made.name} added. Send a test to try it.`;
    },
  });
  if (done && made.signingSecret) showSecret(made.signingSecret);
}

async function change(channel, again) {
  let settings;
  if (!await act(async () => { settings = await read(`DashboardAlertChannel/${channel.name}`); })) return;
  let made = null;
  await ask({
    title: `Change ${channel.name}`, confirm: "Change", fields: fields(settings.form, settings), again,
    run: async (typed) => {
      made = await send("DashboardAlertChannel", { ...body(channel.name, settings.form, false, typed), Mark: settings.mark });
      return `Channel ${channel.name} changed`;
    },
  });
  if (made?.signingSecret) showSecret(made.signingSecret);
}

function showSecret(secret) {
  show("Signing secret", false, el("p", {}, "The receiver uses this secret to check that an alert comes from your server. The secret is not shown again."),
    el("p", { class: "join" }, secret), button("Copy", () => copy(secret, "Signing secret")));
}

/** The fields of a form; `settings` are those of a channel that is changed, without its secrets. */
function fields(form, settings = null) {
  const saved = { Room: settings?.room, MailFrom: settings?.mailFrom, MailTo: settings?.mailTo, MailUser: settings?.mailUser };
  const own = FORMS[form][1].map((field) => {
    const value = saved[field.name] ?? "";
    if (!settings) return { ...field, type: field.name === "Url" ? "url" : field.type, longest: field.longest ?? 2048, value, optional: field.optional && form !== "matrix" };
    if (field.name === "Url") return { ...field, type: "url", longest: 2048, optional: true, hint: "Not shown. Leave the field empty to keep the address." };
    if (field.name === "Token") return { ...field, hint: settings.token ? "Not shown. Leave the field empty to keep the secret. If you change the address, enter the secret again." : null };
    return { ...field, value };
  });
  return [...own,
    { name: "About", label: "Send alerts about", checks: KINDS, value: settings?.about.length ? settings.about : KINDS.map(([kind]) => kind) },
    { name: "Quiet", label: "Quiet time (optional)", placeholder: "23:00-07:00", optional: true, longest: 16, value: settings?.quiet },
    { name: "Private", label: "The receiver is", options: [["", "on the internet"], ["1", "on this machine or network"]], value: settings?.private ? "1" : "" },
    ...settings && form === "json" ? [{ name: "NewSecret", label: "Signing secret", checks: [["1", "Make a new secret. The receiver rejects alerts until it has the new secret."]], value: [] }] : [],
    REASON];
}

function body(name, form, fresh, typed) {
  if (!typed.About.length) throw new Refused(400, "Choose at least one kind of alert.");
  const { reason, About: kinds, Private: inside, NewSecret: renews = [], ...rest } = typed;
  const trimmed = Object.fromEntries(Object.entries(rest).map(([field, value]) => [field, value.trim()]));
  return { ...trimmed, Name: name, New: fresh, Form: form, About: kinds.length === KINDS.length ? "" : kinds.join(","), Private: inside === "1", NewSecret: renews.length > 0, Reason: reason };
}

async function drop(channel, again) {
  const answer = await ask({ title: `Remove ${channel.name}?`, text: "Its address and its delivery history are deleted.", fields: [REASON], danger: true, confirm: "Remove" });
  if (answer) await act(() => remove(`DashboardAlertChannel/${encodeURIComponent(channel.name)}`, { Reason: answer.reason }), () => `Channel ${channel.name} removed`, again);
}
