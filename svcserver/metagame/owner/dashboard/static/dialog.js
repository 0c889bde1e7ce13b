// Every act asks once and says what it did.

import { away, unread } from "./connection.js";
import { button, el } from "./dom.js";

/** The field by which every act of staff may say why. */
export const REASON = { name: "reason", label: "Reason (stands in the audit log)", optional: true, longest: 256 };

function open(title, wide, ...inside) {
  const heading = el("h2", { id: "dialog-title" }, title);
  const made = el("dialog", { "aria-labelledby": "dialog-title", class: wide ? "wide" : null });
  made.append(el("div", { class: "body" }, heading, ...inside));
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
  return made;
}

const CAN_BE_MENDED = [400, 404, 409, 429]; // with other words, or a little later

/**
 * fields: {name, label, type?, value?, min?, max?, options?, optional?}. Null when called off.
 * run: does it with what is given, and returns what to say once `again` has drawn the page anew;
 * while it is refused for what was typed the dialog stays open with the reason. Null too where it
 * failed otherwise, which is said.
 * What is under way cannot be called off: the dialog stays, and where the browser closes it all
 * the same, what came of it is answered.
 */
export function ask({ title, text, picture = null, fields = [], confirm, danger = false, run = null, again = null }) {
  return new Promise((answer) => {
    let given = null;
    let busy = false;
    const fault = el("p", { class: "error", role: "alert" });
    const inputs = fields.map(input);
    const cancel = el("button", { type: "button", class: "quiet", click: () => box.close() }, "Cancel");
    const does = el("button", { type: "submit", class: danger ? "primary danger" : "primary" }, confirm);
    const runs = (on) => {
      busy = cancel.disabled = does.disabled = on;
      if (!on && document.activeElement === document.body) does.focus(); // what is disabled loses it
    };
    const form = el("form", {},
      text ? el("p", { class: "muted" }, text) : null,
      picture,
      fields.map((one, at) => el("div", { class: "field" }, el("label", { for: inputs[at].id }, one.label), inputs[at])),
      run ? fault : null,
      el("div", { class: "actions" }, cancel, does));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (busy) return;
      runs(true);
      const typed = Object.fromEntries(fields.map((one, at) => [one.name, inputs[at].value]));
      fault.textContent = "";
      try {
        if (run) await told(await run(typed), again);
        given = typed;
        box.close();
      } catch (why) {
        const mends = why.status === 401 ? fields.some((one) => one.type === "password") : CAN_BE_MENDED.includes(why.status);
        if (box.open && mends) {
          fault.textContent = why.message;
        } else {
          refused(why);
          box.close();
        }
      }
      runs(false);
      if (!box.isConnected) answer(given); // it was closed meanwhile
    });
    const box = open(title, false, form);
    box.addEventListener("cancel", (event) => busy && event.preventDefault()); // which does not stop a second Escape
    box.addEventListener("close", () => busy || answer(given));
    // Enter in a field confirms: where nothing need be typed, what is dangerous is not one key away
    (danger && fields[0]?.optional ? cancel : inputs[0])?.focus();
  });
}

function input(one) {
  const id = `field-${one.name}`;
  if (one.options) {
    return el("select", { id }, one.options.map(([value, words]) =>
      el("option", { value, selected: value === one.value }, words)));
  }
  const made = el("input", {
    id, type: one.type || "text", min: one.min, max: one.max, step: one.step, maxlength: one.longest ?? 128,
    required: !one.optional, autocomplete: "off", spellcheck: "false",
  });
  made.value = one.value ?? "";
  return made;
}

export function show(title, wide, ...inside) {
  const box = open(title, wide, ...inside);
  box.firstChild.append(el("div", { class: "actions" }, button("Close", () => box.close(), "primary")));
  return () => box.close();
}

export function say(text, bad = false) {
  const line = el("p", { class: bad ? "bad" : null }, text);
  const says = document.getElementById("says");
  if (says.matches(":popover-open")) says.hidePopover();
  says.append(line);
  says.showPopover(); // last shown lies on top, of an open dialog too
  setTimeout(() => {
    line.remove();
    if (!says.children.length) says.hidePopover();
  }, bad ? 9000 : 6000);
}

/** What was done is said when the page shows it: whoever reads it acts on what is shown. */
async function told(text, again) {
  try {
    await again?.();
  } catch (why) {
    unread(why); // it was done all the same
  }
  say(text);
}

/**
 * Do it, let `again` draw the page anew, and say so (reading says nothing); a refusal is said too.
 * True when it was done.
 */
export async function act(work, done = null, again = null) {
  try {
    const said = await work();
    if (done) await told(done(said), again && (() => again(said)));
    return true;
  } catch (why) {
    refused(why);
    return false;
  }
}

export const LOST = "You are signed out: this session has ended, or your role has changed.";

function refused(why) {
  say(why.status === 401 ? LOST : why.message, true);
  if (why.status === 0) away();
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    say("The browser does not let this page copy; select the text instead.", true);
  }
}
