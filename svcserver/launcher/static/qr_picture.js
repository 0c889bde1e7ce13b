// Finds a QR code in a picture, such as a screenshot of the owner's page: straight or turned, of any size.
import { read, Unread } from "./qr.js";

const LARGEST = 1600; // pixels of a side that are looked at
const MOST_CORNERS = 12;

// The text of the code in a file; throws Unread where there is none.
export async function fromFile(file) {
  let picture;
  try {
    picture = await createImageBitmap(file);
  } catch {
    throw new Unread("no picture");
  }
  const scale = Math.min(1, LARGEST / Math.max(picture.width, picture.height));
  const width = Math.max(1, Math.round(picture.width * scale)), height = Math.max(1, Math.round(picture.height * scale));
  const canvas = document.createElement("canvas");
  canvas.width = width; canvas.height = height;
  const drawing = canvas.getContext("2d", { willReadFrequently: true });
  drawing.fillStyle = "#fff"; // under what is transparent
  drawing.fillRect(0, 0, width, height);
  drawing.drawImage(picture, 0, 0, width, height);
  picture.close();
  return fromPixels(drawing.getImageData(0, 0, width, height));
}

export function fromPixels({ data, width, height }) {
  const grey = new Uint8Array(width * height);
  for (let at = 0; at < grey.length; at += 1) grey[at] = (data[at * 4] * 299 + data[at * 4 + 1] * 587 + data[at * 4 + 2] * 114) / 1000;
  const middle = threshold(grey);
  for (const light of [false, true]) { // a code may be light on dark
    const dark = (x, y) => x >= 0 && y >= 0 && x < width && y < height && (grey[Math.floor(y) * width + Math.floor(x)] <= middle) !== light;
    for (const three of triples(corners(dark, width, height))) {
      for (const square of squares(dark, three)) {
        try { return read(square); } catch (why) { if (!(why instanceof Unread)) throw why; }
      }
    }
  }
  throw new Unread("no code");
}

// Otsu: the brightness that parts the picture best.
function threshold(grey) {
  const counts = new Array(256).fill(0);
  for (const one of grey) counts[one] += 1;
  const whole = counts.reduce((sum, count, value) => sum + count * value, 0);
  let below = 0, darkness = 0, best = -1, found = 128;
  for (let value = 0; value < 255; value += 1) {
    below += counts[value];
    darkness += counts[value] * value;
    const above = grey.length - below;
    if (!below || !above) continue;
    const apart = below * above * (darkness / below - (whole - darkness) / above) ** 2;
    if (apart > best) { best = apart; found = value; }
  }
  return found;
}

// -- the three corners -----------------------------------------------------------

// The length of a corner's module where five runs are as 1:1:3:1:1, else 0.
function module(runs) {
  const one = runs.reduce((sum, run) => sum + run, 0) / 7;
  return runs.every((run, at) => Math.abs(run - (at === 2 ? 3 : 1) * one) <= (at === 2 ? 1.5 : 0.75) * one) ? one : 0;
}

// Runs to both sides of a point along (dx, dy): the middle of the corner and its module, or null.
function across(dark, x, y, dx, dy, most) {
  const half = (sign) => {
    const runs = [];
    let at = sign > 0 ? 0 : 1; // the point itself is counted once
    for (const wanted of [true, false, true]) {
      let run = 0;
      while (run <= most && dark(x + sign * at * dx, y + sign * at * dy) === wanted) { run += 1; at += 1; }
      if (run > most) return null;
      runs.push(run);
    }
    return runs;
  };
  const [after, before] = [half(1), half(-1)];
  if (!after || !before) return null;
  const size = module([before[2], before[1], before[0] + after[0], after[1], after[2]]);
  const off = (after[0] - before[0]) / 2;
  return size ? { x: x + off * dx, y: y + off * dy, size } : null;
}

function corners(dark, width, height) {
  const found = [];
  for (let y = 0; y < height; y += 1) {
    let runs = [], was = false, run = 0;
    for (let x = 0; x <= width; x += 1) {
      const is = x < width && dark(x, y);
      if (is === was) { run += 1; continue; }
      runs = [...runs.slice(-4), run];
      if (was && runs.length === 5 && module(runs)) note(dark, found, x - runs[4] - runs[3] - runs[2] / 2, y, Math.max(...runs) * 2);
      was = is; run = 1;
    }
  }
  return found.sort((a, b) => b.seen - a.seen).slice(0, MOST_CORNERS);
}

function note(dark, found, x, y, most) {
  const down = across(dark, Math.floor(x), y, 0, 1, most);
  const right = down && across(dark, Math.floor(x), Math.round(down.y), 1, 0, most);
  if (!right) return;
  const [cx, cy, size] = [right.x, down.y, (right.size + down.size) / 2];
  const known = found.find((one) => Math.hypot(one.x - cx, one.y - cy) < 3 * size);
  if (known) {
    known.seen += 1;
    for (const [name, value] of [["x", cx], ["y", cy], ["size", size]]) known[name] += (value - known[name]) / known.seen;
  } else found.push({ x: cx, y: cy, size, seen: 1 });
}

function* triples(found) {
  const all = [];
  for (const top of found) for (const right of found) for (const bottom of found) {
    if (top === right || top === bottom || right === bottom) continue;
    const a = [right.x - top.x, right.y - top.y], b = [bottom.x - top.x, bottom.y - top.y];
    const [la, lb] = [Math.hypot(...a), Math.hypot(...b)];
    const turn = (a[0] * b[1] - a[1] * b[0]) / (la * lb); // 1 for a right angle, clockwise
    const sizes = [top.size, right.size, bottom.size];
    const odd = Math.abs(1 - turn) + Math.abs(1 - la / lb) + (Math.max(...sizes) / Math.min(...sizes) - 1);
    if (odd < 0.8) all.push({ odd, top, a, b, size: (la + lb) / 2 / (sizes.reduce((sum, one) => sum + one) / 3) });
  }
  yield* all.sort((one, other) => one.odd - other.odd);
}

// The modules as they may stand between three corners, the likeliest number of them first.
function* squares(dark, { top, a, b, size }) {
  const likely = Math.round((size + 7 - 17) / 4);
  for (const version of [likely, likely - 1, likely + 1, likely + 2, likely - 2]) {
    if (version < 1 || version > 40) continue;
    const count = version * 4 + 17;
    const at = (x, y) => {
      const [u, v] = [(x - 3) / (count - 7), (y - 3) / (count - 7)];
      return dark(top.x + u * a[0] + v * b[0], top.y + u * a[1] + v * b[1]);
    };
    yield Array.from({ length: count }, (_, y) => Array.from({ length: count }, (_, x) => at(x, y)));
  }
}
