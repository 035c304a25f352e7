// One line per point through all axes and objectives; brushes select points.
const MOST_LINES = 5000;
const FEW_LEVELS = 16;

// Where a column's values stand on its line, and its ticks, which Plotly takes as plain text here, unlike the label.
const dimensionOf = (column, rows) => {
  const lines = linesOf(short(column.label), 16).map((text) => safe(short(text, 20)));
  const label = [...lines, ...(column.unit && column.unit !== "-" ? [`[${safe(column.unit)}]`] : [])].join("<br>");
  const { levels } = column;
  if (levels && (!column.numeric || (column.role === "axis" && levels.length <= FEW_LEVELS))) {
    const ends = [-0.25, Math.max(levels.length - 0.75, 0.25)];
    const step = Math.ceil(levels.length / FEW_LEVELS);
    const ticks = levels.map((_, nth) => nth).filter((nth) => nth % step === 0);
    return { label, range: ends, of: (row) => column.codes[row], tickvals: ticks, ticktext: ticks.map((nth) => short(shown(levels[nth]), 13)) };
  }
  const log = isLog(column, rows);
  const of = log ? (row) => Math.log10(column.values[row]) : (row) => column.values[row];
  let [low, high] = [Infinity, -Infinity];
  for (const row of rows) [low, high] = [Math.min(low, of(row)), Math.max(high, of(row))];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const values = log ? logTicks(low, high) : roundTicks(low, high, 6);
  const ticks = values.map((value) => [log ? Math.log10(value) : value, shown(value)]).filter(([at]) => low <= at && at <= high);
  const margin = (high - low) / 16; // a label has up to three lines
  return { label, range: [low - margin, high + margin], of, tickvals: ticks.map(([at]) => at), ticktext: ticks.map(([, text]) => text) };
};

const within = (ranges, value) => ranges.some(([low, high]) => low <= value && value <= high);

const startParallel = () => {
  const shownColumns = [...axes, ...objectives.filter((column) => !axes.includes(column))];
  if (!webgl) {
    place("parallel-plot").style.minHeight = 0;
    say("parallel", "This browser has no WebGL, which parallel coordinates need; the table below filters the same points.");
    return null;
  }
  if (shownColumns.length < 2) {
    place("parallel-plot").style.minHeight = 0;
    say("parallel", "Fewer than two axes and objectives: there is nothing to lay side by side.");
    return null;
  }
  const plot = place("parallel-plot");
  const plotted = (row) => finished(row) && shownColumns.every((column) => has(column, row));
  const kinds = { feasible: isFeasible, finished: () => true, front: isFront };
  let [rows, dimensions, button] = [[], [], null];
  const draw = () => {
    rows = rowsWhere((row) => plotted(row) && kinds[kind.value](row));
    const drawn = rows.length > MOST_LINES ? [...thinned(rows.filter((row) => !isFront(row)), MOST_LINES), ...rows.filter(isFront)] : rows;
    if (!rows.length) {
      Plotly.purge(plot);
      plot.style.minHeight = 0;
      say("parallel", "No such point has values on all axes and objectives.");
      return;
    }
    dimensions = shownColumns.map((column) => dimensionOf(column, rows));
    const by = picked(tint);
    const width = Math.max(plot.parentElement.clientWidth - 48, 110 * dimensions.length + 120);
    const trace = {
      type: "parcoords",
      dimensions: dimensions.map(({ of, ...rest }) => ({ ...rest, values: drawn.map(of) })),
      line: { color: drawn.map(dimensionOf(by, rows).of), colorscale: "Viridis", reversescale: by.direction === "min" },
      labelfont: { color: colour("ink"), size: 12 }, tickfont: { color: colour("ink"), size: 11 }, rangefont: { color: "rgba(0,0,0,0)", size: 1 },
      unselected: { line: { color: colour("band"), opacity: 0.15 } },
    };
    Plotly.react(plot, [trace], look({ height: 460, width, margin: { l: 100, r: 80, t: 84, b: 24 } }), { ...CONFIG, responsive: false, modeBarButtons: [["toImage"]] });
    tell();
  };
  const brushed = () => {
    const limits = (plot.data?.[0]?.dimensions ?? []).map(({ constraintrange: range }) => range && (Array.isArray(range[0]) ? range : [range]));
    const active = dimensions.map(({ of }, nth) => [of, limits[nth]]).filter(([, ranges]) => ranges?.length);
    return active.length ? rows.filter((row) => active.every(([of, ranges]) => within(ranges, of(row)))) : null;
  };
  const tell = () => {
    const kept = brushed();
    const lines = rows.length > MOST_LINES && `${shown(MOST_LINES)} of ${counted(rows.length, "point")} are drawn, evenly picked, and all on the front.`;
    say("parallel", lines || `${counted(rows.length, "point")}.`, kept && `${shown(kept.length)} of ${shown(rows.length)} within the brushes.`);
    button.hidden = kept === null;
  };
  const kind = choose("parallel", "points", [["feasible", "feasible"], ["front", "on the front"], ["finished", "all finished"]], draw);
  const tint = choose("parallel", "colour by", byPlace([...objectives, ...axes]), draw);
  button = Object.assign(document.createElement("button"), { className: "choice", textContent: "Show these in the table", hidden: true });
  button.addEventListener("click", () => showOnly(brushed()));
  place("parallel-choices").append(button);
  if (!rowsWhere((row) => plotted(row) && isFeasible(row)).length) kind.value = "finished";
  draw();
  plot.on?.("plotly_restyle", tell);
  return draw;
};
