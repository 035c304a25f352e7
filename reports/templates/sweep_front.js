// The trade-off of two objectives, or one objective over an axis.
const MOST_DOTS = 4000; // as SVG; beyond it WebGL draws them

const bestByValue = (x, y, rows) => {
  const best = new Map();
  for (const row of rows) {
    const [at, other] = [x.values[row], best.get(x.values[row])];
    const better = y.direction === "min" ? (a, b) => a < b : (a, b) => a > b;
    if (other === undefined || better(y.values[row], y.values[other])) best.set(at, row);
  }
  return [...best.values()];
};

const frontTraces = (x, y, all) => {
  const good = all.filter(isFeasible);
  const lined = objectives.length === 1 ? bestByValue(x, y, good) : good.filter(isFront);
  const sorted = lined.sort((a, b) => coordinates(x, [a])[0] - coordinates(x, [b])[0] || y.values[a] - y.values[b]);
  const gl = all.length > MOST_DOTS && webgl;
  const most = gl || all.length <= MOST_DOTS ? Infinity : MOST_DOTS;
  const dots = (rows, name, marker) => {
    const drawn = thinned(rows, most);
    const note = drawn.length < rows.length ? `, ${shown(drawn.length)} drawn` : "";
    return {
      name: `${name} (${shown(rows.length)}${note})`, type: gl ? "scattergl" : "scatter", mode: "markers", rows: drawn,
      x: coordinates(x, drawn), y: coordinates(y, drawn), marker, hoverinfo: "none",
    };
  };
  const step = x.direction === "max" ? "vh" : "hv";
  // Of dots that overlap, Plotly's hover takes the one of the smaller size: the front's is small with a wide rim.
  const pair = objectives.length === 2;
  const name = objectives.length > 1 ? "front" : "best at each value";
  return [
    dots(all.filter((row) => !isFeasible(row)), "not feasible", { color: colour("band"), size: 7, symbol: "x-thin", line: { width: 1.2, color: colour("muted") }, opacity: 0.55 }),
    dots(good.filter((row) => !isFront(row)), "feasible", { color: colour("s4"), size: 7, opacity: good.length > 2000 ? 0.45 : 0.7 }),
    {
      name: `${name} (${shown(sorted.length)})`, type: "scatter", rows: sorted, x: coordinates(x, sorted), y: coordinates(y, sorted),
      mode: pair || objectives.length === 1 ? "lines+markers" : "markers", line: { shape: pair ? step : "linear", color: colour("s1"), width: 2 },
      marker: { color: colour("s1"), size: 6, line: { width: 3, color: colour("s1") } }, hoverinfo: "none",
    },
  ].filter((trace) => trace.rows.length);
};

const startFront = () => {
  if (!objectives.length) return null;
  const plot = place("front-plot");
  let [across, up, sameWork] = [null, null, null];
  const tick = () => {
    const ticks = ticksInView(plot);
    if (Object.keys(ticks).length) Plotly.relayout(plot, ticks);
  };
  const draw = () => {
    const [x, y] = [picked(across), picked(up)];
    const same = sameWork(x, y);
    const rows = rowsWhere((row) => finished(row) && same(row) && has(x, row) && has(y, row));
    if (!rows.length) {
      say("front", "No finished point has values to show.");
      if (workload.length) Plotly.react(plot, [], look({ height: 470 }), CONFIG);
      return;
    }
    const missing = rowsWhere((row) => finished(row) && same(row)).length - rows.length;
    say("front", missing && `${counted(missing, "finished point")} without a value left out.`);
    const goal = (column) => (column.direction ? `, ${column.direction}` : "");
    const named = (column) => {
      const axis = axisOf(column, rows);
      return { ...axis, title: { ...axis.title, text: axis.title.text + goal(column) } };
    };
    Plotly.react(plot, frontTraces(x, y, rows), look({ height: 470, hovermode: "closest", xaxis: named(x), yaxis: named(y) }), CONFIG);
    tick();
  };
  const many = objectives.length > 1;
  if (!many && !axes.length) {
    say("front", "The sweep has no axes.");
    return null;
  }
  across = choose("front", "across", byPlace(many ? objectives : axes), draw);
  up = choose("front", "up", byPlace(objectives), draw);
  if (many) up.selectedIndex = 1;
  else across.value = designFirst(axes)[0].place;
  sameWork = chooseWorkload("front", draw);
  draw();
  plot.on?.("plotly_hover", ({ points: [point], event }) => showTip(event, ...describe(point.data.rows[point.pointIndex ?? point.pointNumber])));
  plot.on?.("plotly_unhover", hideTip);
  plot.on?.("plotly_relayout", (change) => Object.keys(change).some((key) => /range/.test(key)) && tick());
  return draw;
};
