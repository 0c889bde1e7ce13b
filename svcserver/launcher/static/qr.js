// Reads a QR code (ISO/IEC 18004) that stands as a square of modules: true is dark. Throws Unread.

export class Unread extends Error {}

// For each level, by version: check bytes of a block, and blocks.
const CHECKS = [
  [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28, 28, 28, 30, 30, 26, 28, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30],
  [10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26, 26, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28],
  [13, 22, 18, 26, 18, 24, 18, 22, 20, 24, 28, 26, 24, 20, 30, 24, 28, 28, 26, 30, 28, 30, 30, 30, 30, 28, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30],
  [17, 28, 22, 16, 22, 28, 26, 26, 24, 28, 24, 28, 22, 24, 24, 30, 28, 28, 26, 28, 30, 24, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30],
];
const BLOCKS = [
  [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8, 8, 9, 9, 10, 12, 12, 12, 13, 14, 15, 16, 17, 18, 19, 19, 20, 21, 22, 24, 25],
  [1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16, 17, 17, 18, 20, 21, 23, 25, 26, 28, 29, 31, 33, 35, 37, 38, 40, 43, 45, 47, 49],
  [1, 1, 2, 2, 4, 4, 6, 6, 8, 8, 8, 10, 12, 16, 12, 17, 16, 18, 21, 20, 23, 23, 25, 27, 29, 34, 34, 35, 38, 40, 43, 45, 48, 51, 53, 56, 59, 62, 65, 68],
  [1, 1, 2, 4, 4, 4, 5, 6, 8, 8, 11, 11, 16, 16, 18, 16, 19, 21, 25, 25, 25, 34, 30, 32, 35, 37, 40, 42, 45, 48, 51, 54, 57, 60, 63, 66, 70, 74, 77, 81],
];
const LEVELS = [1, 0, 3, 2]; // rows above, by the two bits in the code
const MASKS = [
  (x, y) => (x + y) % 2, (x, y) => y % 2, (x) => x % 3, (x, y) => (x + y) % 3,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2, (x, y) => ((x * y) % 2) + ((x * y) % 3),
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2, (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
];

export function read(square) {
  const size = square.length, version = (size - 17) / 4;
  if (!Number.isInteger(version) || version < 1 || version > 40) throw new Unread("size");
  const { level, mask } = format(square);
  return text(data(codewords(square, version, MASKS[mask]), version, level), version);
}

// -- the square -----------------------------------------------------------------

function format(square) {
  const size = square.length;
  const near = [0, 1, 2, 3, 4, 5, 7].map((x) => square[8][x])
    .concat([8, 7, 5, 4, 3, 2, 1, 0].map((y) => square[y][8]));
  const far = [1, 2, 3, 4, 5, 6, 7].map((y) => square[size - y][8])
    .concat([8, 7, 6, 5, 4, 3, 2, 1].map((x) => square[8][size - x]));
  let best = { wrong: 4 };
  for (let value = 0; value < 32; value += 1) {
    let rest = value << 10;
    for (let bit = 14; bit >= 10; bit -= 1) if ((rest >> bit) & 1) rest ^= 0x537 << (bit - 10);
    const right = ((value << 10) | rest) ^ 0x5412;
    for (const bits of [near, far]) {
      const wrong = bits.filter((dark, at) => dark !== Boolean((right >> (14 - at)) & 1)).length;
      if (wrong < best.wrong) best = { wrong, level: LEVELS[value >> 3], mask: value & 7 };
    }
  }
  if (best.wrong > 3) throw new Unread("format");
  return best;
}

function alignments(version) {
  if (version === 1) return [];
  const count = Math.floor(version / 7) + 2;
  const step = Math.floor((version * 8 + count * 3 + 5) / (count * 4 - 4)) * 2;
  const found = [6];
  for (let at = version * 4 + 10; found.length < count; at -= step) found.splice(1, 0, at);
  return found;
}

function isFixed(version) {
  const size = version * 4 + 17, places = alignments(version), last = size - 7;
  return (x, y) => {
    if (x === 6 || y === 6) return true;
    if ((x < 9 && (y < 9 || y >= size - 8)) || (x >= size - 8 && y < 9)) return true;
    if (version >= 7 && ((x < 6 && y >= size - 11) || (y < 6 && x >= size - 11))) return true;
    const around = (at) => places.find((one) => Math.abs(one - at) <= 2);
    const [px, py] = [around(x), around(y)];
    return px !== undefined && py !== undefined &&
      !(px === 6 && py === 6) && !(px === 6 && py === last) && !(px === last && py === 6);
  };
}

function codewords(square, version, mask) {
  const size = square.length, fixed = isFixed(version), found = [];
  let value = 0, bits = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step += 1) {
      const y = ((right + 1) & 2) === 0 ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (fixed(x, y)) continue;
        value = (value << 1) | (square[y][x] !== (mask(x, y) === 0) ? 1 : 0);
        bits += 1;
        if (bits % 8 === 0) { found.push(value & 255); value = 0; }
      }
    }
  }
  return found;
}

// -- the bytes ------------------------------------------------------------------

function data(words, version, level) {
  const count = BLOCKS[level][version - 1], checks = CHECKS[level][version - 1];
  const short = Math.floor(words.length / count) - checks, long = words.length % count;
  const blocks = Array.from({ length: count }, () => []);
  let at = 0;
  for (let column = 0; column <= short; column += 1) {
    blocks.forEach((block, number) => {
      if (column < short || number >= count - long) block.push(words[at++]);
    });
  }
  for (let column = 0; column < checks; column += 1) blocks.forEach((block) => block.push(words[at++]));
  return blocks.flatMap((block) => mended(block, checks).slice(0, block.length - checks));
}

const EXP = [], LOG = [];
for (let power = 0, value = 1; power < 255; power += 1) {
  EXP[power] = value; LOG[value] = power;
  value = value & 128 ? (value << 1) ^ 0x11d : value << 1;
}
const times = (a, b) => (a && b ? EXP[(LOG[a] + LOG[b]) % 255] : 0);
const over = (a, b) => (a ? EXP[(LOG[a] + 255 - LOG[b]) % 255] : 0);
const at = (polynomial, x) => polynomial.reduceRight((sum, one) => times(sum, x) ^ one, 0); // lowest first

// Reed-Solomon: as many wrong bytes as half of the check bytes are put right.
function mended(block, checks) {
  const wrongness = Array.from({ length: checks }, (_, power) =>
    block.reduce((sum, one) => times(sum, EXP[power]) ^ one, 0));
  if (wrongness.every((one) => one === 0)) return block;
  const where = locator(wrongness);
  const value = wrongness.map((_, power) => // the product of both, up to the number of check bytes
    where.reduce((sum, one, k) => (k <= power ? sum ^ times(one, wrongness[power - k]) : sum), 0));
  const fixed = [...block];
  let found = 0;
  for (let place = 0; place < block.length; place += 1) {
    const inverse = EXP[(255 - place) % 255];
    if (at(where, inverse) !== 0) continue;
    const slope = where.reduce((sum, one, k) => (k % 2 ? sum ^ times(one, EXP[(LOG[inverse] * (k - 1)) % 255]) : sum), 0);
    fixed[block.length - 1 - place] ^= times(EXP[place % 255], over(at(value, inverse), slope));
    found += 1;
  }
  if (found !== where.length - 1 || found * 2 > checks) throw new Unread("damaged");
  return fixed;
}

// Berlekamp and Massey: the polynomial whose roots say which bytes are wrong.
function locator(wrongness) {
  let now = [1], before = [1], length = 0, gap = 1, last = 1;
  for (let n = 0; n < wrongness.length; n += 1) {
    let off = wrongness[n];
    for (let k = 1; k <= length; k += 1) off ^= times(now[k] ?? 0, wrongness[n - k]);
    if (off === 0) { gap += 1; continue; }
    const kept = now, factor = over(off, last);
    now = Array.from({ length: Math.max(now.length, before.length + gap) }, (_, k) =>
      (now[k] ?? 0) ^ (k >= gap ? times(factor, before[k - gap] ?? 0) : 0));
    if (2 * length <= n) { length = n + 1 - length; before = kept; last = off; gap = 1; } else gap += 1;
  }
  while (now.length > 1 && now[now.length - 1] === 0) now.pop();
  if (now.length - 1 !== length) throw new Unread("damaged");
  return now;
}

// -- the text -------------------------------------------------------------------

const ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:";

function text(bytes, version) {
  let position = 0;
  const take = (count) => {
    if (position + count > bytes.length * 8) throw new Unread("short");
    let value = 0;
    for (let end = position + count; position < end; position += 1) value = (value << 1) | ((bytes[position >> 3] >> (7 - (position & 7))) & 1);
    return value;
  };
  const wide = version < 10 ? 0 : version < 27 ? 1 : 2;
  const found = [];
  while (bytes.length * 8 - position >= 4) {
    const mode = take(4);
    if (mode === 0) break;
    if (mode === 1) numbers(take, take([10, 12, 14][wide]), found);
    else if (mode === 2) letters(take, take([9, 11, 13][wide]), found);
    else if (mode === 4) for (let left = take(wide ? 16 : 8); left > 0; left -= 1) found.push(take(8));
    else if (mode === 7) take(8); // says which alphabet: an invite has plain letters
    else throw new Unread("mode");
  }
  const raw = new Uint8Array(found);
  try { return new TextDecoder("utf-8", { fatal: true }).decode(raw); } catch { return new TextDecoder("latin1").decode(raw); }
}

function numbers(take, count, found) {
  for (let left = count; left > 0; left -= 3) {
    const digits = Math.min(3, left);
    for (const one of String(take([0, 4, 7, 10][digits])).padStart(digits, "0")) found.push(one.charCodeAt(0));
  }
}

function letters(take, count, found) {
  for (let left = count; left > 0; left -= 2) {
    const pair = take(left > 1 ? 11 : 6);
    const both = left > 1 ? [Math.floor(pair / 45), pair % 45] : [pair];
    for (const one of both) found.push(ALPHANUMERIC.charCodeAt(one));
  }
}
