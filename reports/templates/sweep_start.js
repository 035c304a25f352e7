// Draw all, and again when the colours of the page change.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark", dark.matches);
dress();
const drawings = [startFront, startHeat, startShares].map((start) => start()).filter(Boolean);
dark.addEventListener("change", () => {
  dress();
  for (const draw of drawings) draw();
});
await startTable();
document.documentElement.dataset.ready = "yes";

// Parallel coordinates cost most, so they wait until the reader comes near.
const near = new IntersectionObserver(
  (seen) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    const draw = startParallel();
    if (draw) drawings.push(draw);
  },
  { rootMargin: "300px" },
);
near.observe(place("parallel"));
