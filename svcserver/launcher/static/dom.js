// Makes elements. Text is always text: no text of a host can become markup.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== false && child !== ""));
  return element;
}

export function day(text) {
  const when = new Date(text);
  return Number.isNaN(when.getTime()) ? "" : when.toLocaleDateString(undefined, { dateStyle: "long" });
}

// Black or white, whichever is more readable on a colour; one of them has a contrast above 4.5.
export function readableOn(colour) {
  let hex = colour.slice(1);
  if (hex.length === 3) hex = [...hex].map((digit) => digit + digit).join("");
  const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  return light > 0.179 ? "#000000" : "#ffffff";
}
