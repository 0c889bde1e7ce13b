// Dialogs: every act asks once and reports its result.

import { away, unread } from "./connection.js";
import { button, el } from "./dom.js";

/** The reason field of every act of staff. */
export const REASON = { name: "reason", label: "Reason (shown in the audit log)", optional: true, longest: 256 };

function open(title, wide, ...inside) {
  const heading = el("h2", { id: "dialog-title" }, title);
  const made = el("dialog", { "aria-labelledby": "dialog-title", class: wide ? "wide" : null });
  made.append(el("div", { class: "body" }, heading, ...inside));
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
  return made;
}

const CAN_BE_MENDED = [400, 404, 409, 429]; // by other input, or a little later

/**
 * fields: {name, label, type?, value?, min?, max?, options?, checks?, hint?, optional?}. Returns the
 * input, or null if it was cancelled or failed. `checks` are boxes; their value is a list.
 * run: does the act with the input and returns the message to show once `again` has reloaded the
 * page. If it is refused because of the input, the dialog stays open with the reason.
 * A running act cannot be cancelled: the dialog stays, and if the browser closes it anyway, the
 * result is still returned.
 */
export function ask({ title, text, picture = null, fields = [], confirm, danger = false, run = null, again = null }) {
  return new Promise((answer) => {
    let result = null;
    let busy = false;
    const fault = el("p", { class: "error", role: "alert" });
    const inputs = fields.map(input);
    const cancel = el("button", { type: "button", class: "quiet", click: () => box.close() }, "Cancel");
    const does = el("button", { type: "submit", class: danger ? "primary danger" : "primary" }, confirm);
    const runs = (on) => {
      busy = cancel.disabled = does.disabled = on;
      if (!on && document.activeElement === document.body) does.focus(); // a disabled button loses the focus
    };
    const form = el("form", {},
      text ? el("p", { class: "muted" }, text) : null,
      picture,
      fields.map((field, at) => el("div", { class: "field" }, field.checks ? null : el("label", { for: inputs[at].id }, field.label), inputs[at],
        field.hint ? el("p", { class: "muted small", id: `${inputs[at].id}-hint` }, field.hint) : null)),
      run ? fault : null,
      el("div", { class: "actions" }, cancel, does));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (busy) return;
      runs(true);
      const typed = Object.fromEntries(fields.map((field, at) => [field.name, typedIn(inputs[at])]));
      fault.textContent = "";
      try {
        if (run) await report(await run(typed), again);
        result = typed;
        box.close();
      } catch (why) {
        const mends = why.status === 401 ? fields.some((field) => field.type === "password") : CAN_BE_MENDED.includes(why.status);
        if (box.open && mends) {
          fault.textContent = why.message;
        } else {
          refused(why);
          box.close();
        }
      }
      runs(false);
      if (!box.isConnected) answer(result); // the browser closed it meanwhile
    });
    const box = open(title, false, form);
    box.addEventListener("cancel", (event) => busy && event.preventDefault()); // which does not stop a second Escape
    box.addEventListener("close", () => busy || answer(result));
    // Enter in a field confirms, so a dangerous act without required input focuses Cancel
    (danger && fields[0]?.optional ? cancel : inputs[0])?.focus();
  });
}

function typedIn(place) {
  return place.tagName === "FIELDSET" ? [...place.querySelectorAll(":checked")].map((box) => box.value) : place.value;
}

function input(field) {
  const id = `field-${field.name}`;
  if (field.checks) {
    return el("fieldset", { id, class: "checks" }, el("legend", {}, field.label), field.checks.map(([value, words]) =>
      el("label", { for: `${id}-${value}` }, el("input", { id: `${id}-${value}`, type: "checkbox", value, checked: field.value.includes(value) }), words)));
  }
  if (field.options) {
    return el("select", { id }, field.options.map(([value, words]) =>
      el("option", { value, selected: value === field.value }, words)));
  }
  const made = el("input", {
    id, type: field.type || "text", min: field.min, max: field.max, step: field.step, maxlength: field.longest ?? 128,
    required: !field.optional, autocomplete: field.type === "password" ? "new-password" : "off", spellcheck: "false",
    placeholder: field.placeholder, "aria-describedby": field.hint ? `${id}-hint` : null,
  });
  made.value = field.value ?? "";
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
  says.querySelector(bad ? ".bad" : "p:not(.bad)")?.remove(); // a newer message replaces one of its kind
  says.append(line);
  says.showPopover(); // shown last, it is on top of an open dialog as well
  setTimeout(() => {
    if (!line.isConnected) return;
    line.remove();
    if (!says.children.length) says.hidePopover();
  }, bad ? 9000 : 6000);
}

/** Report a result once the page shows it. */
async function report(text, again) {
  try {
    await again?.();
  } catch (why) {
    unread(why); // the act itself has succeeded
  }
  say(text);
}

/**
 * Do it, reload the page with `again`, and show the message of `done`, or a refusal. Returns true on
 * success.
 */
export async function act(work, done = null, again = null) {
  try {
    const reply = await work();
    if (done) await report(done(reply), again && (() => again(reply)));
    return true;
  } catch (why) {
    refused(why);
    return false;
  }
}

export const SIGNED_OUT = "You are signed out: this session has ended, or your role has changed.";

function refused(why) {
  say(why.status === 401 && why.code !== "key_wanted" ? SIGNED_OUT : why.message, true);
  if (why.status === 0) away();
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    say("The browser does not allow copying. Select the text instead.", true);
  }
}
