// Numbers and times for people.

export function ago(iso) {
  const seconds = Math.max(0, (Date.now() - Date.parse(iso)) / 1000);
  return seconds < 60 ? "just now" : `${span(seconds)} ago`;
}

export function span(seconds) {
  const minutes = Math.max(0, Math.floor(seconds / 60));
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

/** A date and time to the second. */
export function exactly(iso) {
  return new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function day(iso) {
  return new Date(iso).toLocaleDateString(undefined, { dateStyle: "medium" });
}

export function count(number, singular, plural = `${singular}s`) {
  return `${number} ${number === 1 ? singular : plural}`;
}

const UNITS = ["B", "KB", "MB", "GB", "TB"];

export function size(bytes) {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return power ? `${(bytes / 1024 ** power).toFixed(1)} ${UNITS[power]}` : `${bytes} B`;
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

export function clock(at, seconds = false) {
  return new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined });
}
