// The player's actions at each stage, as one block of the page.
import { el } from "./dom.js";

const submit = (handler) => (event) => {
  event.preventDefault();
  handler(new FormData(event.target));
};

function invited(host, act) {
  const words = host.words.split(" ").filter(Boolean);
  return [
    el("p", {}, words.length
      ? "These words stand for the host's certificate. Your name and key are not sent to the host yet. Ask the owner, for example on the phone, whether the owner sees the same words."
      : "This host is in your private network. Continue if its address is the one the owner gave you."),
    words.length ? el("ul", { class: "words", "aria-label": "Fingerprint in words" }, words.map((word) => el("li", {}, word))) : null,
    el("div", { class: "row" },
      el("button", { class: "main", onclick: () => act("agree") }, words.length ? "They match, go on" : "Go on"),
      el("button", { onclick: () => act("leave") }, "Not my host")),
  ];
}

let nameTimer = 0; // of all redraws, so that no late check clears what the registration answered

function naming(host, act, saying) {
  const name = el("input", {
    name: "name", required: true, minlength: 3, maxlength: 16, pattern: "[A-Za-z0-9_]{3,16}",
    autocomplete: "off", spellcheck: "false", "aria-describedby": "name-said",
  });
  name.addEventListener("input", () => {
    clearTimeout(nameTimer);
    saying.textContent = "";
    nameTimer = setTimeout(() => name.value.trim() && act("try-name", { name: name.value }), 400);
  });
  return [
    host.needs_code ? code(act) : null,
    el("form", { onsubmit: submit((data) => { clearTimeout(nameTimer); act("choose", { name: data.get("name") }); }) },
      el("label", {}, "Your name on this host",
        el("small", {}, "3 to 16 letters, digits or underscores. Your friends see it. While you type, the host checks whether it is free."), name),
      saying,
      el("button", { class: "main" }, "Make my account")),
  ];
}

function code(act) {
  const typed = el("input", { name: "code", required: true, minlength: 4, maxlength: 4096, autocomplete: "off", spellcheck: "false" });
  return el("form", { onsubmit: submit((data) => act("correct-code", { code: data.get("code").trim() })) },
    el("label", {}, "The code of your invite",
      el("small", {}, "The part after code= in the owner's line, or the whole line."), typed),
    el("button", {}, "Use this code"));
}

function checking(host, act) {
  return [bar(host, "Checking the game's files"), el("button", { onclick: () => act("stop") }, "Stop")];
}

export function bar(host, label) {
  const { done, total, so_far: soFar, pace } = host.files;
  return el("div", { class: "bar" },
    el("div", { class: "track" },
      el("progress", { max: Math.max(1, total), value: done, "aria-label": label })),
    el("p", {},
      el("span", {}, `${label}: ${soFar}`), el("span", {}, pace)));
}

function ready(host, act) {
  return [
    el("div", { class: "row" },
      el("button", { class: "main", onclick: () => act("play") }, "Play"),
      host.files.handed_out ? el("button", { onclick: () => act("check", { thorough: true }) }, "Repair") : null),
  ];
}

const STEPS = {
  invited,
  naming,
  registering: () => [el("p", {}, "Waiting for the host…")],
  unchecked: (host, act) => [
    el("p", {}, `You are ${host.username} here. The game's files have not been checked yet.`),
    el("button", { class: "main", onclick: () => act("check", { thorough: false }) }, "Check the files"),
  ],
  checking,
  incomplete: (host, act) => [
    el("div", { class: "row" },
      el("button", { class: "main", onclick: () => act("fetch") },
        `${host.note ? "Repair" : "Download"} (${host.files.missing})`),
      el("button", { onclick: () => act("check", { thorough: false }) }, "Check again")),
    el("p", { class: "hint" }, `Into ${host.settings.folder}`),
  ],
  fetching: (host, act) => [bar(host, "Downloading"), el("button", { onclick: () => act("stop") }, "Pause")],
  ready,
  starting: (host, act) => [el("p", {}, "Starting the game…"), el("button", { onclick: () => act("stop") }, "Stop")],
  playing: (host, act) => [
    el("p", {}, `You are playing as ${host.username}. Leave this launcher open: your game reaches the host through it.`),
    el("button", { onclick: () => act("stop") }, "End the game"),
  ],
};

export function step(host, act, saying) {
  return STEPS[host.stage](host, act, saying);
}
