"use strict";
// The sweep's columns decoded, and numbers and names as text.
const sweep = JSON.parse(document.getElementById("sweep-data").textContent);
const KINDS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: Float64Array };

const bytes = (text) => (Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
const unpack = (text, width) => new KINDS[width](bytes(text).buffer);

const decode = (column) => {
  if (column.floats) {
    column.values = unpack(column.floats, 8);
    return;
  }
  const { levels } = column;
  column.codes = column.codes ? unpack(column.codes, column.width) : Uint32Array.from({ length: sweep.rows }, (_, row) => row);
  const look = column.numeric ? (code) => levels[code] ?? NaN : (code) => levels[code] ?? "";
  column.values = (column.numeric ? Float64Array : Array).from(column.codes, look);
};

sweep.columns.forEach((column, place) => {
  column.place = place;
  decode(column);
});

const named = (name) => sweep.columns.find((column) => column.name === name);
const [front, feasible] = [named("front"), named("feasible")];
const errors = named("error");
const axes = sweep.axes.map((place) => sweep.columns[place]);
const workload = sweep.workload.map((place) => sweep.columns[place]);
const objectives = sweep.objectives.map(({ column, direction }) => Object.assign(sweep.columns[column], { direction }));
const results = sweep.columns.filter((c) => c.numeric && ["objective", "result"].includes(c.role) && c.values.some(Number.isFinite));
const finished = (row) => !errors || errors.numeric || errors.values[row] === "";
const isFront = (row) => front.codes[row] === 1;
const isFeasible = (row) => feasible.codes[row] === 1;
const rowsWhere = (test) => Array.from({ length: sweep.rows }, (_, row) => row).filter(test);
const has = (column, row) => (column.numeric ? Number.isFinite(column.values[row]) : column.values[row] !== "");

const PLAIN = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// A number with four significant digits, whole numbers with all of theirs; texts as they are.
const shown = (value) => {
  if (typeof value !== "number") return value === "" ? "–" : String(value);
  if (Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return WHOLE.format(value).replace("-", "−");
  if (!Number.isFinite(value) || value === 0 || (size >= 1e-3 && size < 1e7)) return PLAIN.format(value).replace("-", "−");
  const [mantissa, power] = value.toExponential(3).split("e");
  const high = [...power.replace("+", "")].map((c) => (c === "-" ? "⁻" : SUPERSCRIPT[c])).join("");
  return `${Number(mantissa)} × 10${high}`.replace("-", "−");
};

const withUnit = (column, value) => {
  const text = shown(value);
  return column.unit && column.unit !== "-" && text !== "–" ? `${text} ${column.unit}` : text;
};
const counted = (count, word) => `${shown(count)} ${word}${count === 1 ? "" : "s"}`;
// Plotly reads some HTML in its texts: `safe` takes that away from names.
const safe = (text) => String(text).replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
const short = (text, most = 44) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
// A name in lines of at most `most` characters, cut behind a dot or an underscore.
const linesOf = (name, most) => {
  const lines = [""];
  for (const piece of name.match(/[^._]*[._]|[^._]+$/g) ?? [name]) {
    if (lines.at(-1) && lines.at(-1).length + piece.length > most) lines.push("");
    lines.push(lines.pop() + piece);
  }
  return lines;
};
const heading = (column) => safe(short(column.label) + (column.unit ? ` [${column.unit}]` : ""));
