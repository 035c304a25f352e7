// Main effect and total of every axis on an objective, as bars.
const startShares = () => {
  const found = sweep.sensitivities.filter(({ why }) => !why);
  if (!found.length) return null;
  const draw = () => {
    const entry = found[objective.value];
    const order = entry.axes.map((_, nth) => nth).sort((a, b) => entry.total[a] - entry.total[b]);
    const bars = (name, shares, ranges, fill) => ({
      type: "bar", orientation: "h", name, x: order.map((nth) => shares[nth]), y: order.map((_, nth) => nth), marker: { color: colour(fill) },
      error_x: ranges && {
        type: "data", symmetric: false, color: colour("ink"), thickness: 1.3, width: 3,
        array: order.map((nth) => ranges[nth][1] - shares[nth]), arrayminus: order.map((nth) => shares[nth] - ranges[nth][0]),
      },
      hovertemplate: "%{x:.3f}<extra></extra>",
    });
    const names = order.map((nth) => safe(short(entry.axes[nth], 30)));
    const layout = {
      height: 130 + 46 * order.length, barmode: "group",
      xaxis: { title: { text: "Share of the variance [-]" }, rangemode: "tozero", gridcolor: colour("grid"), zeroline: false },
      yaxis: { automargin: true, tickvals: order.map((_, nth) => nth), ticktext: names }, legend: { ...look().legend, traceorder: "reversed" },
    };
    Plotly.react("shares-plot", [bars("total", entry.total, entry.total_range, "s4"), bars("main effect", entry.main, entry.main_range, "s1")], look(layout), CONFIG);
    say("shares", entry.main_range ? "Estimated, with 95 % intervals." : "Exact.");
  };
  const objective = choose("shares", "objective", found.map((entry, nth) => [nth, entry.objective]), draw);
  draw();
  return draw;
};
