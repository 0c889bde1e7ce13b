// Makes elements. Text is always text: nothing of a host's can become markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== false && child !== ""));
  return made;
}

export function day(text) {
  const when = new Date(text);
  return Number.isNaN(when.getTime()) ? "" : when.toLocaleDateString(undefined, { dateStyle: "long" });
}

// Black or white, whichever is read better on a colour; one of them has a contrast above 4.5.
export function readableOn(colour) {
  let hex = colour.slice(1);
  if (hex.length === 3) hex = [...hex].map((one) => one + one).join("");
  const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  return light > 0.179 ? "#000000" : "#ffffff";
}
