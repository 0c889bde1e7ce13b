// The page: polls the launcher once a second, and redraws only what has changed.
import * as api from "./api.js";
import { hunter, news, people, settings } from "./below.js";
import { el, readableOn } from "./dom.js";
import { bar, step } from "./steps.js";

const main = document.getElementById("main");
const tabs = document.getElementById("hosts");
const statusLine = document.getElementById("said");
const updateNotice = document.getElementById("update");
const end = document.getElementById("end");
let chosen = null; // the id of the host that is shown; "" for the page that joins
let opened = 0; // the number of invites opened so far
let parts = {}; // the data that each part was drawn from
let nodes = {};
let sentence = "";
let last = null;
const pictures = new Map();

function draw(update) {
  const state = last && update.number < last.number ? last : update; // a late reply replaces no newer one
  last = state;
  if (state.opened !== opened) {
    opened = state.opened;
    chosen = state.invited;
    sentence = state.refusal;
    delete parts.main; // redraw it
  }
  const host = state.hosts.find((item) => item.id === chosen) ?? (chosen === "" ? null : state.hosts[0]) ?? null;
  chosen = host ? host.id : "";
  part("tabs", [state.hosts.map((item) => [item.id, item.name, item.reachable]), chosen], () => tabs.replaceChildren(...tabButtons(state)));
  document.getElementById("foot").textContent = `${state.keys} This is svc-launcher ${state.version}.`;
  const playing = state.hosts.some((item) => item.stage === "playing");
  part("end", playing, () => end.replaceChildren(ending(playing)));
  part("update", state.update, () => updateNotice.replaceChildren(...updating(state.update)));
  if (host === null) { part("main", "welcome", welcome); return; }
  part("main", ["host", host.id], () => frame());
  accent(host.accent);
  drawHost(host, state);
}

function part(name, from, make) {
  const text = JSON.stringify(from);
  if (parts[name] === text) return;
  if (name === "main") parts = { tabs: parts.tabs, end: parts.end, update: parts.update };
  parts[name] = text;
  make();
}

function tabButtons(state) {
  const buttons = state.hosts.map((host) => el("button", {
    class: "tab", "aria-current": host.id === chosen ? "page" : null, onclick: () => choose(host.id),
  }, el("span", { class: `dot ${host.reachable ? "up" : host.reachable === false ? "down" : ""}`, "aria-hidden": "true" }), el("span", { class: "name" }, host.name)));
  if (state.hosts.length) buttons.push(el("button", { class: "tab", "aria-current": chosen === "" ? "page" : null, onclick: () => choose("") }, "+ Another host"));
  return buttons;
}

function updating({ text, can_restart: canRestart, host }) {
  if (!text) return [];
  const restart = async () => {
    const answer = await guarded(api.restart);
    if (answer && !answer.sentence) closed("updated");
  };
  const answered = (take) => async () => {
    const answer = await guarded(() => api.act(host, "updates", { take }));
    if (answer?.state) draw(answer.state);
  };
  const button = (label, onclick) => el("button", { class: "link", onclick }, label);
  const buttons = host ? [button("Yes, take them", answered(true)), " ", button("No", answered(false))] : canRestart ? [button("Restart the launcher now", restart)] : [];
  return [el("p", { class: "note", role: "status" }, text, " ", ...buttons)];
}

// A launcher that was started from a menu has no window to close.
function ending(playing) {
  const button = el("button", { class: "link", onclick: async () => {
    if (playing && !button.dataset.sure) { button.dataset.sure = "1"; button.textContent = "Close it, and end my game"; return; }
    if (await guarded(api.quit)) closed("gone");
  } }, "Close the launcher");
  return button;
}

function choose(id) {
  if (id === "") delete parts.main; // redraw it
  chosen = id;
  sentence = "";
  draw(last);
  main.focus();
}

function welcome() {
  accent("");
  document.title = "Launcher";
  const invite = el("textarea", { name: "invite", required: true, autocomplete: "off", spellcheck: "false", placeholder: "svc://join?…" });
  let replacing = false; // the chosen file replaces another key after a second click
  const bringing = el("button", {}, "Bring my key");
  const replace = (whether) => { replacing = whether; bringing.textContent = whether ? "Use this key instead of mine" : "Bring my key"; };
  const keyFile = el("input", { type: "file", accept: ".json,application/json", name: "key", required: true, onchange: () => replace(false) });
  const on = (ask) => async (event) => {
    event.preventDefault();
    const answer = await guarded(ask);
    if (!answer) return;
    if (answer.other_key) replace(true);
    sentence = answer.sentence ?? "";
    if (answer.id) chosen = answer.id;
    if (answer.state) draw(answer.state);
    else tell(problem, sentence);
  };
  const problem = el("p", { class: "alert", role: "alert", hidden: true });
  const form = el("form", { onsubmit: on(() => api.join(invite.value.trim())) },
    el("label", {}, "Your invite", el("small", {}, "The whole line that the host's owner sent you. It begins with svc://join."), invite),
    el("button", { class: "main" }, "Open the invite"));
  const importing = el("form", { onsubmit: on(() => api.bring(keyFile.files[0], replacing)) },
    el("label", {}, "Key file of another PC", el("small", {}, "The file that you saved on the other PC with \"Save my key for another PC\". Its name begins with svc-key."), keyFile),
    bringing);
  main.replaceChildren(el("div", { class: "welcome" },
    el("div", { class: "stack" }, el("h1", {}, "Hunt with your friends"),
      el("p", { class: "hint" }, "Somebody you know runs a host for the game. With their invite you need three steps: compare a few words, choose a name, download.")),
    problem, form, el("details", {}, el("summary", {}, "I have played there before, on another PC"), el("div", {}, importing))));
  tell(problem, sentence);
}

function tell(node, text) { node.textContent = text; node.hidden = !text; }

function frame() {
  nodes = {
    hero: el("section", { class: "hero plain" }),
    announced: el("p", { class: "announced", role: "status", hidden: true }),
    head: el("div"), step: el("div", { class: "step" }), trouble: el("p", { class: "alert", role: "alert", hidden: true }),
    note: el("p", { class: "note", hidden: true }), saying: el("p", { id: "name-said", class: "hint", role: "status" }),
    news: el("div"), people: el("div"), hunter: el("div"), settings: el("div"),
  };
  nodes.hero.append(nodes.head, nodes.announced, nodes.step);
  main.replaceChildren(nodes.hero, el("div", { class: "below", id: "below" }, nodes.news, el("div", { class: "stack" }, nodes.people, nodes.hunter)), nodes.settings);
}

function drawHost(host, state) {
  document.title = `${host.name}: launcher`;
  const act = async (what, body) => {
    const answer = await guarded(() => api.act(host.id, what, body));
    if (!answer) return;
    sentence = answer.sentence ?? "";
    if (answer.state) draw(answer.state);
  };
  const member = !["invited", "naming", "registering"].includes(host.stage);
  const bad = host.trouble || host.standing;
  part("head", [host.name, host.username, host.status, host.reachable, host.wrong_certificate, host.address], () => nodes.head.replaceChildren(...heading(host)));
  const steady = ["checking", "fetching"].includes(host.stage) ? null : [host.files, host.settings.folder, host.note];
  tell(nodes.trouble, bad);
  tell(nodes.note, sentence || host.note);
  const typed = nodes.step.querySelector("input[name=name]")?.value ?? nodes.typed ?? "";
  nodes.typed = typed; // a refused name is there again
  part("step", [host.stage, host.words, host.needs_code, steady], () => {
    nodes.step.replaceChildren(nodes.trouble, nodes.note, ...step(host, act, nodes.saying).filter(Boolean));
    const name = nodes.step.querySelector("input[name=name]");
    if (name) name.value = typed;
    statusLine.textContent = nodes.step.querySelector("p:not([hidden])")?.textContent ?? "";
  });
  const running = nodes.step.querySelector(".bar");
  if (running && steady === null) running.replaceWith(bar(host, host.stage === "fetching" ? "Downloading" : "Checking the game's files"));
  const shown = nodes.step.querySelector("input[name=name]")?.value.trim() ?? "";
  nodes.saying.textContent = host.tried === shown ? host.saying : ""; // otherwise it is about an earlier name
  nodes.saying.className = `hint ${host.free === null ? "" : host.free ? "good" : "bad"}`;
  document.getElementById("below").hidden = !member;
  part("news", host.news, () => nodes.news.replaceChildren(news(host)));
  const known = Object.keys(host.hunter).length > 0;
  part("hunter", host.hunter, () => keepOpen(nodes.hunter, () => nodes.hunter.replaceChildren(...(known ? [hunter(host, act)] : []))));
  tell(nodes.announced, host.announced);
  part("people", [host.status.players ?? [], host.hunter.friends ?? []], () => nodes.people.replaceChildren(people(host)));
  part("settings", [host.settings, host.username, state.keys], () => keepOpen(nodes.settings, () => nodes.settings.replaceChildren(settings(host, act, state.keys))));
  part("picture", [host.id, host.pictures], () => showPicture(host));
}

// Details that the player has opened or closed stay so after a redraw.
function keepOpen(node, redraw) {
  const heads = () => [...node.querySelectorAll("summary")];
  const open = new Map(heads().map((head) => [head.textContent, head.parentNode.open]));
  redraw();
  for (const head of heads()) if (open.has(head.textContent)) head.parentNode.open = open.get(head.textContent);
}

function heading(host) {
  const online = host.status.online ?? 0;
  const state = host.reachable === null ? "contacting the host…" : host.wrong_certificate ? "wrong certificate" :
    !host.reachable ? "not reachable" :
    host.username && online ? `${online} ${online === 1 ? "player" : "players"} online` : "online";
  return [el("h1", {}, host.name), el("p", { class: "line" },
    el("span", { class: "state" }, el("span", { class: `dot ${host.reachable ? "up" : host.reachable === false ? "down" : ""}`, "aria-hidden": "true" }), state),
    host.username ? el("span", {}, `You are ${host.username}`) : null, el("span", {}, host.address))];
}

async function showPicture(host) {
  clearPicture();
  if (host.pictures.length === 0) return;
  const number = new Date().getDate() % host.pictures.length; // another one each day
  const name = `${host.id}/${number}`;
  if (!pictures.has(name)) pictures.set(name, await api.picture(host.id, number));
  if (chosen !== host.id || !pictures.get(name)) return;
  clearPicture(); // the player may have switched to another host and back
  nodes.hero.className = "hero pictured";
  nodes.hero.prepend(el("img", { class: "picture", src: pictures.get(name), alt: "" }));
  const credit = host.pictures[number].credit;
  if (credit) nodes.hero.append(el("p", { class: "credit" }, credit));
}

function clearPicture() {
  nodes.hero.querySelector(".picture")?.remove();
  nodes.hero.querySelector(".credit")?.remove();
  nodes.hero.className = "hero plain";
}

function accent(colour) {
  const style = document.documentElement.style;
  if (colour) { style.setProperty("--accent", colour); style.setProperty("--on-accent", readableOn(colour)); }
  else { style.removeProperty("--accent"); style.removeProperty("--on-accent"); }
}

async function guarded(work) {
  try { return await work(); }
  catch (error) { if (!(error instanceof api.Closed)) throw error; closed(error.message === "gone" && last?.update.ready ? "updated" : error.message); return null; }
}

function closed(reason) {
  parts = {};
  tabs.replaceChildren();
  end.replaceChildren();
  updateNotice.replaceChildren();
  main.replaceChildren(el("div", { class: "welcome" }, el("h1", {}, reason === "updated" ? "The launcher starts again" : reason === "gone" ? "The launcher has ended" : "This page is closed"),
    el("p", { class: "hint" }, reason === "updated" ? "The new version of the launcher opens a new page." : reason === "gone"
      ? "Start it again to play. If you were playing, the game has lost its connection to the host."
      : "Open this page from the launcher: each link works once, and only on this PC.")));
}

async function poll() {
  const state = await guarded(api.state);
  if (state) draw(state);
  setTimeout(poll, document.hidden ? 5000 : 1000);
}

addEventListener("pagehide", api.leave);
if (await guarded(async () => { await api.enter(); return true; })) poll();
