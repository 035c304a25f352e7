// What all figures share: colours of the page, choices above a figure, the axis of a column.
const webgl = (() => {
  const context = document.createElement("canvas").getContext("webgl");
  return context !== null;
})();
const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
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
  legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, xanchor: "left" },
  ...layout,
});

const LOG_SPAN = 100;
const isLog = (column, rows) => {
  let [low, high] = [Infinity, 0];
  for (const row of rows) {
    const value = column.values[row];
    if (value <= 0) return false;
    if (value < low) low = value;
    if (value > high && value < Infinity) high = value;
  }
  return high / low > LOG_SPAN;
};

// The axis of a figure for a column; texts stand at the places of their levels.
const axisOf = (column, rows) => ({
  title: { text: heading(column), standoff: 10 },
  automargin: true,
  gridcolor: colour("grid"),
  linecolor: colour("line"),
  zeroline: false,
  ...(column.numeric
    ? { type: isLog(column, rows) ? "log" : "linear", exponentformat: "power" }
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
