// Draw all, and again when the colours of the page change.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark", dark.matches);
dress();
const drawings = [startFront, startParallel, startHeat, startShares].map((start) => start()).filter(Boolean);
dark.addEventListener("change", () => {
  dress();
  for (const draw of drawings) draw();
});
await startTable();
document.documentElement.dataset.ready = "yes";
