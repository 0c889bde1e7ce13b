// The output of one game server as it grows, or the last output of one that has ended. Colours are the only escape sequences that the host sends.

import { read } from "./api.js";
import { copy } from "./dialog.js";
import { button, card, el, head, nothing, redraw } from "./dom.js";
import { controls, ending } from "./servers.js";
import { count, exactly } from "./words.js";

const MOST = 2000; // lines
const GAP = { text: "… lines left out …", parts: [["muted", "… lines left out …"]] };
const COLOUR = /\u001b\[([0-9;]*)m/g;

/** The stream of a game server's output; after a break it continues where it ended. */
export function output(id, live) {
  return `console&Server=${encodeURIComponent(id)}&After=${encodeURIComponent(live.cursor ?? "")}`;
}

export function gameConsole(root, live, id) {
  let lines = [], waiting = [], paused = false, paint = painter(), server = null, notice = null;
  const top = el("div", {}), place = el("div", { class: "log console", role: "log", "aria-live": "off", tabindex: "0", "aria-label": "Output" });
  const search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search", autocomplete: "off", input: () => draw(true) });
  const pause = button("Pause", () => hold(!paused));
  const matches = () => {
    const text = search.value.toLowerCase();
    return text ? lines.filter((line) => line.text.toLowerCase().includes(text)) : lines;
  };
  const header = () => redraw(top, head(server ? titled(server) : "Console",
    el("a", { href: "#/servers" }, "All game servers"), ...(server && !notice ? controls(server, follow) : [])),
    notice ? el("p", { class: "notice", role: "status" }, notice) : null);

  function follow(reply) {
    if (reply.id) location.hash = `#/servers/${encodeURIComponent(reply.id)}`;
  }
  function hold(on) {
    paused = on;
    if (!on) {
      lines.push(...waiting);
      waiting = [];
      draw(true);
    }
    label();
  }
  function label() {
    pause.textContent = paused ? `Resume${waiting.length ? ` (${count(waiting.length, "new line")})` : ""}` : "Pause";
  }
  /** Draw all lines that match, or add those that are new. */
  function draw(whole, fresh = []) {
    const low = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    lines.splice(0, Math.max(0, lines.length - MOST));
    const shown = matches();
    if (whole || !place.querySelector("div")) {
      place.replaceChildren(...(shown.length ? shown.map(row) : [nothing(lines.length ? "No lines match." : "No output yet.")]));
    } else {
      const wanted = new Set(shown);
      place.append(...fresh.filter((line) => wanted.has(line)).map(row));
      while (place.childElementCount > shown.length) place.firstElementChild.remove();
    }
    if (low) place.scrollTop = place.scrollHeight;
  }
  async function look() {
    const { servers } = await read("DashboardGameServers");
    server = servers.find((entry) => entry.id === id) ?? server;
    if (live.shown()) header();
  }
  /** Show how the game server has ended, and which one has its port now. */
  async function end() {
    notice = "This game server has ended.";
    pause.hidden = !paused; // nothing more comes
    header();
    const [{ servers }, { launches }] = await Promise.all([read("DashboardGameServers"), read("DashboardLaunches")]);
    if (!live.shown()) return;
    const launch = launches.find((entry) => entry.id === id);
    server = launch ?? server;
    const next = server && servers.find((entry) => entry.port === server.port && entry.id !== id);
    notice = [launch ? ["This game server has ended ", exactly(launch.endedAt), ": ", ending(launch), " ", launch.reason] : "This game server has ended.",
      next ? [" ", el("a", { href: `#/servers/${encodeURIComponent(next.id)}` }, "Show the game server that replaced it")] : null];
    header();
  }

  root.replaceChildren(top, el("div", { class: "tools" }, search, pause,
    button("Copy", () => copy(matches().map((line) => line.text).join("\n"), "Output"))), card(null, [], place));
  header();
  place.append(nothing("Loading…"));
  look().catch(() => {}); // the stream says whether the host answers
  return async (update) => {
    if (update.over) {
      if (!lines.length) draw(true);
      return end();
    }
    if (update.away) {
      notice = "The deploy server does not answer.";
      header();
      if (!lines.length) draw(true);
      return;
    }
    if (notice && !update.ended) {
      notice = null;
      header();
    }
    live.cursor = update.cursor;
    if (update.fresh) [lines, waiting, paint] = [paused ? lines : [], [], painter()]; // a pause keeps what is shown
    const fresh = update.lines.map(paint);
    if (update.missed && (fresh.length || (waiting.at(-1) ?? lines.at(-1)) !== GAP)) fresh.unshift(GAP);
    (paused ? waiting : lines).push(...fresh);
    waiting.splice(0, Math.max(0, waiting.length - MOST));
    if (paused) label();
    else draw(update.fresh, fresh);
    if (update.ended) await end();
  };
}

function titled({ kind, port }) {
  return `${kind.slice(0, 1).toUpperCase()}${kind.slice(1) || "Server"} on port ${port}`;
}

function row({ parts }) {
  return el("div", {}, parts.map(([kind, text]) => kind ? el("span", { class: kind }, text) : text));
}

/** Return a function that splits each line into texts with the class of their colour. */
function painter() {
  let colour = "", bold = false;
  const set = (codes) => {
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at];
      if (code === 0) [colour, bold] = ["", false];
      else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4; // of 256 or all colours: not shown
      else if (code === 39) colour = "";
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = `ansi-${code % 10}`;
    }
  };
  return (line) => {
    const parts = [];
    let at = 0;
    const add = (text) => text && parts.push([[colour, bold ? "bold" : ""].filter(Boolean).join(" "), text]);
    for (const match of line.matchAll(COLOUR)) {
      add(line.slice(at, match.index));
      set(match[1].split(";").map(Number));
      at = match.index + match[0].length;
    }
    add(line.slice(at));
    return { parts, text: parts.map(([, text]) => text).join("") };
  };
}
