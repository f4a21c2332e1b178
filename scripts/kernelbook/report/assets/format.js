// Numbers and names for display, by the same rules as kernelbook/text/formatting.py; a test compares them.

const NA = "n/a";

// Control, format and lone surrogate characters are spelled out, so that no name can reorder or hide its neighbours.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}]/gu;
const visible = (value) =>
  String(value)
    .replace(/[\r\n\t\u2028\u2029]+/g, " ")
    .replace(HIDDEN, (c) => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

function clip(text, limit = 96) {
  if (text.length <= limit) return text;
  const head = Math.floor(((limit - 1) * 2) / 3);
  return `${text.slice(0, head)}…${text.slice(head + 1 - limit)}`;
}

const wholeDigits = (value) => (Math.abs(value) >= 1 ? String(Math.trunc(Math.abs(value))).length : 0);

function significant(value, digits = 3) {
  if (value === 0) return "0";
  let places = Math.max(digits - wholeDigits(value), 0);
  if (wholeDigits(Number(value.toFixed(places))) > wholeDigits(value)) places = Math.max(places - 1, 0);
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

// A value that three digits would show as 1,000 of a unit is shown in the next larger unit.
const ROUNDS_UP_FROM = 0.9995;
const UNITS = [
  [1e6, "s"],
  [1e3, "ms"],
  [1, "µs"],
];

const missing = (value) => value === null || value === undefined;

function duration(us) {
  if (missing(us)) return NA;
  if (us === 0) return "0";
  const [size, unit] = UNITS.find(([size]) => Math.abs(us) >= size * ROUNDS_UP_FROM) ?? [];
  return size ? `${significant(us / size)} ${unit}` : `${us.toFixed(2)} µs`;
}

function axisLabel(us, scale) {
  const [size, unit] = UNITS.find(([size]) => scale >= size) ?? UNITS[2];
  return us ? `${Number((us / size).toPrecision(6))} ${unit}` : "0";
}

function ratio(value) {
  if (missing(value)) return NA;
  return value >= 0.1 && value < 10 ? `${value.toFixed(2)}×` : `${significant(value)}×`;
}
const share = (value) => (missing(value) ? NA : `${(value * 100).toFixed(value >= 0.1 ? 0 : 1)} %`);
const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;

function niceTicks(from, to, about) {
  const raw = Math.max(to - from, 1e-6) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => power * factor >= raw * 0.999);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step * 1e-6; at += step)
    ticks.push(Number(at.toPrecision(10)));
  return { ticks, step };
}

// A cell that a spreadsheet cannot take for a formula, and a cell that Markdown cannot take for markup.
const isNumber = (text) => /^[-+]?\d[\d,]*(\.\d+)?([eE][-+]?\d+)?$/.test(text);
function csvCell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) && !isNumber(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
// As formatting.py has it: signs that mean something in Markdown or HTML become entities, which every renderer reads alike.
const entity = (sign) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;" })[sign] ?? `&#${sign.codePointAt(0)};`;
const markdownCell = (text) =>
  text
    .replace(/\s+/g, " ")
    .replace(/[\\`*[\]|~^$<>&{}]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])|=(?==)|(?<==)=|:(?=\/\/)|(?<=www)\./gu, entity)
    .replace(/^( ?)([#=!?]|[-+](?!\d))/, (all, blank, sign) => blank + entity(sign))
    .replace(/^( ?\d+)([.)])(?=\s|$)/, (all, number, sign) => number + entity(sign));
