// A value over two axes, the other axes reduced to one value per cell.
const MOST_BINS = 24;
const BINS = 12;

// For each row a bin, and the names of the bins; many values are cut into ranges of as many values each.
const binsOf = (column) => {
  const used = [...new Set(column.values)].filter((value) => value === value && value !== "");
  const values = column.numeric ? used.sort((a, b) => a - b) : column.levels;
  const bins = new Map(values.map((value, nth) => [value, values.length <= MOST_BINS ? nth : Math.floor((nth * BINS) / values.length)]));
  const names = [];
  for (const [value, bin] of bins) names[bin] = names[bin] ? [names[bin][0], value] : [value];
  const text = names.map((ends) => safe(ends.map((end) => short(shown(end), 16)).join(" – ")));
  return { of: (row) => bins.get(column.values[row]), text };
};

const REDUCE = {
  best: (values, direction) => values.reduce((a, b) => ((direction === "min" ? b.value < a.value : b.value > a.value) ? b : a)).value,
  mean: (values) => values.reduce((sum, { value }) => sum + value, 0) / values.length,
  min: (values) => values.reduce((low, { value }) => Math.min(low, value), Infinity),
  max: (values) => values.reduce((high, { value }) => Math.max(high, value), -Infinity),
};

const startHeat = () => {
  const varying = axes.filter((axis) => new Set(axis.values).size > 1);
  if (varying.length < 2 || !results.length) {
    say("heat", results.length ? "Fewer than two axes have more than one value." : "No finished point has values to show.");
    return null;
  }
  const plot = place("heat-plot");
  const draw = () => {
    const [x, y, value] = [across, up, column].map(picked);
    const best = reduce.querySelector("[value=best]");
    best.disabled = !value.direction;
    if (best.disabled && reduce.value === "best") reduce.value = "mean";
    const [columns, lines] = [binsOf(x), binsOf(y)];
    const cells = lines.text.map(() => columns.text.map(() => []));
    const same = sameWork(x, y);
    const rows = rowsWhere((row) => finished(row) && same(row) && (which.value === "finished" || isFeasible(row)) && has(x, row) && has(y, row) && has(value, row));
    for (const row of rows) cells[lines.of(row)][columns.of(row)].push({ row, value: value.values[row] });
    const z = cells.map((cellsOfLine) => cellsOfLine.map((found) => (found.length ? REDUCE[reduce.value](found, value.direction) : null)));
    const text = z.map((ofLine) => ofLine.map((found) => (found === null ? "" : shown(found))));
    const written = columns.text.length <= 9 && plot.clientWidth > 620;
    const trace = {
      type: "heatmap", z, x: columns.text.map((_, nth) => nth), y: lines.text.map((_, nth) => nth), text, cells,
      texttemplate: written ? "%{text}" : "", colorscale: "Viridis", reversescale: value.direction === "min", hoverinfo: "none", hoverongaps: false, xgap: 2, ygap: 2,
      colorbar: { title: { text: heading(value), side: "right" }, thickness: 14, outlinewidth: 0, ...PLAIN_TICKS },
    };
    const ticks = (bins) => ({ tickvals: bins.text.map((_, nth) => nth), ticktext: bins.text, type: "linear", showgrid: false });
    const layout = { height: Math.max(340, 110 + 34 * lines.text.length), hovermode: "closest", xaxis: { ...axisOf(x, rows), ...ticks(columns) }, yaxis: { ...axisOf(y, rows), ...ticks(lines) } };
    Plotly.react(plot, [trace], { ...look(layout), margin: { ...look().margin, t: 36 } }, CONFIG);
    say("heat", `In each cell the ${reduce.options[reduce.selectedIndex].text} ${value.label}, over ${counted(rows.length, which.value === "finished" ? "finished point" : "feasible point")}.`, x === y && "Both axes are the same.");
  };
  const across = choose("heat", "across", byPlace(varying), draw);
  const up = choose("heat", "up", byPlace(varying), draw);
  const column = choose("heat", "value", byPlace(results), draw);
  const reduce = choose("heat", "other axes", [["best", "best"], ["mean", "mean"], ["min", "lowest"], ["max", "highest"]], draw);
  const which = choose("heat", "points", [["feasible", "feasible"], ["finished", "all finished"]], draw);
  const sameWork = chooseWorkload("heat", draw);
  [across.value, up.value] = designFirst(varying).map((axis) => axis.place);
  if (objectives.length) column.value = objectives[0].place;
  if (!rowsWhere(isFeasible).length) which.value = "finished";
  draw();
  plot.on?.("plotly_hover", ({ points: [point], event }) => {
    const found = point.data.cells[point.y][point.x];
    if (!found.length) return;
    const value = picked(column);
    const at = found.find(({ value: one }) => one === point.z);
    const head = document.createElement("b");
    head.textContent = `${reduce.options[reduce.selectedIndex].text}: ${withUnit(value, point.z)} (${counted(found.length, "point")})`;
    showTip(event, head, ...(at ? describe(at.row) : []));
  });
  plot.on?.("plotly_unhover", hideTip);
  return draw;
};
