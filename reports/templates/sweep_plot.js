// What all figures share: colours of the page, choices above a figure, the axis of a column.
const webgl = (() => {
  const context = document.createElement("canvas").getContext("webgl");
  return context !== null;
})();
// The buttons by name: Plotly's own set has one that sends the chart to a server.
const BUTTONS = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
const CONFIG = { responsive: true, displaylogo: false, modeBarButtons: BUTTONS };
const place = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const say = (id, ...sentences) => {
  place(`${id}-remark`).textContent = sentences.filter(Boolean).join(" ");
};

const look = (layout = {}) => ({
  paper_bgcolor: "rgba(0,0,0,0)",
  plot_bgcolor: "rgba(0,0,0,0)",
  font: { family: getComputedStyle(document.body).fontFamily, color: colour("ink"), size: 12.5 },
  margin: { l: 60, r: 20, t: 12, b: 50 },
  modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("muted"), activecolor: colour("accent") },
  legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, xanchor: "left" },
  ...layout,
});

const LOG_SPAN = 100;
// Whether the middle one of an axis's values is nearer to the geometric than to the arithmetic mean of its ends.
const spacedByRatio = (column, rows, low, high) => {
  const values = [...new Set(rows.map((row) => column.values[row]))].sort((a, b) => a - b);
  const half = values.length >> 1;
  const middle = values.length % 2 ? values[half] : Math.sqrt(values[half - 1] * values[half]);
  return high / low > 4 && Math.log(middle) < Math.log(Math.sqrt(low * high) * ((low + high) / 2)) / 2;
};
const isLog = (column, rows) => {
  let [low, high] = [Infinity, 0];
  for (const row of rows) {
    const value = column.values[row];
    if (value <= 0) return false;
    if (value < low) low = value;
    if (value > high && value < Infinity) high = value;
  }
  return column.role === "axis" ? spacedByRatio(column, rows, low, high) : high / low > LOG_SPAN;
};

// Round values between two, about `most`; on a logarithmic axis `low` and `high` are powers of ten, and all are digits of it.
const roundTicks = (low, high, most) => {
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((digit) => digit * power >= raw * 0.999) * power;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, nth) => Number(((first + nth) * step).toPrecision(12)));
};
const logTicks = (low, high) => {
  const digits = high - low > 3.2 ? [1] : high - low > 1.1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 8];
  const every = Math.ceil((high - low) / 8);
  const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, nth) => Math.floor(low) + nth).filter((power) => power % every === 0);
  return powers.flatMap((power) => digits.map((digit) => Number(`${digit}e${power}`)));
};
// The ticks of an axis that shows `low` to `high`; Plotly's own where it is linear, or shows less than a factor of 3.
const ticksOf = (type, low, high) => {
  if (type !== "log" || high - low < 0.5) return { tickmode: "auto" };
  const tickvals = logTicks(low, high);
  return { tickmode: "array", tickvals, ticktext: tickvals.map(shown) };
};
const ticksInView = (plot) => {
  const ticks = {};
  for (const name of ["xaxis", "yaxis"]) {
    const { type, range } = plot.layout[name];
    if (type === "log") for (const [key, value] of Object.entries(ticksOf(type, Math.min(...range), Math.max(...range)))) ticks[`${name}.${key}`] = value;
  }
  return ticks;
};

const PLAIN_TICKS = { exponentformat: "power", minexponent: 5, separatethousands: true };

const NARROW = 600;
const narrowHeading = (column) => {
  const [label, unit] = [linesOf(short(column.label), 24).map(safe).join("<br>"), column.unit ? ` [${safe(column.unit)}]` : ""];
  return label + unit;
};

// The axis of a figure for a column; texts stand at the places of their levels.
const axisOf = (column, rows) => ({
  title: { text: innerWidth < NARROW ? narrowHeading(column) : heading(column), standoff: 10 },
  automargin: true,
  gridcolor: colour("grid"),
  linecolor: colour("line"),
  zeroline: false,
  ...(column.numeric
    ? { type: isLog(column, rows) ? "log" : "linear", ...PLAIN_TICKS }
    : { tickvals: column.levels.map((_, nth) => nth), ticktext: column.levels.map((text) => safe(short(text, 24))) }),
});
const coordinates = (column, rows) => rows.map((row) => (column.numeric ? column.values[row] : column.codes[row]));

// A select above a figure. `options`: [value, text]; `changed` is called after each choice.
const choose = (id, text, options, changed) => {
  const [label, select] = [document.createElement("label"), document.createElement("select")];
  for (const [value, name] of options) select.add(new Option(short(name, 60), value));
  label.append(text, select);
  place(`${id}-choices`).append(label);
  select.addEventListener("change", changed);
  return select;
};
const byPlace = (columns) => columns.map((column) => [column.place, column.label]);
const picked = (select) => sweep.columns[select.value];

// Every nth of `rows`, so that at most `most` are left.
const thinned = (rows, most) => (rows.length <= most ? rows : rows.filter((_, nth) => Math.floor((nth * most) / rows.length) !== Math.floor(((nth - 1) * most) / rows.length)));

// A select for each axis of the workload, as only points of one workload are compared: a test of rows for what they say;
// `free` axes vary all the same.
const chooseWorkload = (id, changed) => {
  const kinds = workload.map((axis) => [axis, [...new Set(axis.values)].filter((value) => value === value && value !== "")]);
  const fixed = kinds.filter(([, values]) => values.length > 1).map(([axis, values]) => {
    const sorted = axis.numeric ? values.sort((a, b) => a - b) : values;
    return [axis, sorted, choose(id, axis.label, sorted.map((value, nth) => [nth, shown(value)]), changed)];
  });
  return (...free) => {
    for (const [axis, , select] of fixed) select.disabled = free.includes(axis);
    const held = fixed.filter(([axis]) => !free.includes(axis)).map(([axis, values, select]) => [axis, values[select.value]]);
    return (row) => held.every(([axis, value]) => axis.values[row] === value);
  };
};
const designFirst = (columns) => [...columns.filter((axis) => !workload.includes(axis)), ...columns.filter((axis) => workload.includes(axis))];
