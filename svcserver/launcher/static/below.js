// News, players, settings: everything below the host's picture.
import { day, el } from "./dom.js";

export function news(host) {
  return el("section", { class: "card", "aria-labelledby": "news-title" },
    el("h2", { id: "news-title" }, "News"),
    host.news.length === 0 ? el("p", { class: "hint" }, "No news from the owner.") :
      el("div", { class: "items" }, host.news.slice(0, 6).map((item) => el("article", { class: "item" },
        el("h3", {}, item.title), el("time", { datetime: item.date }, day(item.date)), el("p", {}, item.body)))));
}

function when(milliseconds) {
  return new Date(milliseconds).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function hunter(host, act) {
  const { profile, guild, huntPass, tracks, characters, hunts } = host.hunter;
  const own = characters ?? [];
  const saved = own.flatMap((character) => character.saves).sort((a, b) => b - a)[0];
  const facts = [["Guild", guild || "none"], ["Hunt pass", huntPass || "none"],
    ["Last save", saved ? when(saved) : "none yet"]];
  return el("section", { class: "card", "aria-labelledby": "hunter-title" },
    el("h2", { id: "hunter-title" }, "My hunter"), el("p", {}, profile),
    el("dl", { class: "facts" }, facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    (tracks ?? []).length === 0 ? null : el("details", { class: "inner" }, el("summary", {}, "Mastery"),
      el("dl", { class: "facts" }, tracks.flatMap((track) => [el("dt", {}, track.name), el("dd", {}, `${track.rank} of ${track.of}`)]))),
    (hunts ?? []).length === 0 ? null : el("details", { class: "inner", open: true }, el("summary", {}, "Latest hunts"),
      el("dl", { class: "facts" }, hunts.flatMap((hunt) => [el("dt", {}, hunt.title), el("dd", {}, when(hunt.at))]))),
    own.length === 0 ? null : el("details", { class: "inner" }, el("summary", {}, "Characters and their saves"),
      el("dl", { class: "facts" }, own.flatMap((character) => [el("dt", {}, character.name),
        el("dd", {}, el("ul", {}, character.saves.length ? character.saves.map((at) => el("li", {}, when(at))) : el("li", {}, "no save")))]))),
    el("button", { onclick: () => act("save-passport") }, "Save my passport"));
}

export function people(host) {
  const friends = new Set(host.hunter.friends ?? []);
  const players = [...(host.status.players ?? [])].sort((a, b) => friends.has(b.name) - friends.has(a.name));
  return el("section", { class: "card", "aria-labelledby": "people-title" },
    el("h2", { id: "people-title" }, "Who is here"),
    players.length === 0 ? el("p", { class: "hint" }, "Nobody is online at the moment.") :
      el("ul", { class: "people" }, players.slice(0, 30).map((player) => el("li", {},
        el("span", {}, player.name, friends.has(player.name) ? el("span", { class: "friend" }, "friend") : null), el("span", { class: "where" }, player.place),
        friends.has(player.name) && player.meet && player.name !== host.username ? el("p", { class: "hint meet" }, player.meet) : null))));
}

export function settings(host, act, keys) {
  const { folder, command, documented, runner, windows, found, shown, speed_limit: limit } = host.settings;
  const runnerHint = windows ? "Leave empty, unless another program must start the game." :
    found ? `Leave empty to run a Windows game with ${found}, which is installed. Enter "none" to start the game directly.` :
      "On Linux a Windows game needs a program such as wine. None is installed.";
  const form = el("form", {
    onsubmit: (event) => {
      event.preventDefault();
      const data = new FormData(form);
      const typed = data.get("command").trim();
      act("settings", {
        folder: data.get("folder"), command: typed === documented ? "" : typed, runner: data.get("runner"),
        speed_limit: Math.round(Number(data.get("limit") || 0) * 1_000_000),
      });
    },
  },
    field("The game's folder", "If the folder has an older copy of the game, only the differences are downloaded.", "folder", folder),
    field("Command that starts the game", "{folder}, {program}, {server}, {chat} and {key} are replaced when you press Play.", "command", command),
    field("Program that runs the game", runnerHint, "runner", runner),
    field("Speed limit in MB per second", "0 means no limit.", "limit", String(limit / 1_000_000), { type: "number", min: "0", max: "1000000", step: "any" }),
    el("div", {}, el("p", { class: "hint" }, "Start command:"), el("code", { tabindex: "0", "aria-label": "Start command" }, shown)),
    el("button", {}, "Save"));
  const remove = el("button", { class: "danger", onclick: () => {
    if (remove.dataset.sure) act("leave");
    else { remove.dataset.sure = "1"; remove.textContent = "Remove it, and my key on this PC"; }
  } }, "Remove this host");
  return el("details", {}, el("summary", {}, "Settings"), el("div", {}, form,
    host.username ? el("div", { class: "stack" },
      el("h2", {}, "Your key"), el("p", { class: "hint" }, `${keys} The key is your password for this host, and is never shown.`),
      el("div", { class: "row" }, el("button", { onclick: () => act("save-key") }, "Save my key for another PC"), el("button", { onclick: () => act("renew-key") }, "Renew my key"))) : null,
    el("div", {}, remove)));
}

function field(label, hint, name, value, more = {}) {
  return el("label", {}, label, el("small", {}, hint), el("input", { name, value, autocomplete: "off", spellcheck: "false", ...more }));
}
