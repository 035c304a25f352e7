// The box beside the pointer: a point's design and its results.
const tip = document.getElementById("tip");

const line = (list, name, value) => {
  const [term, text] = [document.createElement("dt"), document.createElement("dd")];
  term.textContent = short(name);
  text.textContent = short(value);
  list.append(term, text);
};

const describe = (row) => {
  const title = document.createElement("b");
  const state = isFront(row) ? "on the front" : isFeasible(row) ? "feasible" : "not feasible";
  title.textContent = `Point ${shown(row + 1)}, ${state}`;
  const list = document.createElement("dl");
  for (const axis of axes) line(list, axis.label, withUnit(axis, axis.values[row]));
  const rule = document.createElement("dt");
  rule.className = "rule";
  list.append(rule);
  for (const column of results.slice(0, Math.max(8, objectives.length))) line(list, column.label, withUnit(column, column.values[row]));
  return [title, list];
};

const showTip = (event, ...content) => {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = event.clientX + 18 + width > innerWidth ? event.clientX - 18 - width : event.clientX + 18;
  tip.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  tip.style.top = `${Math.max(8, Math.min(event.clientY - height / 2, innerHeight - height - 8))}px`;
};
const hideTip = () => {
  tip.hidden = true;
};
addEventListener("scroll", hideTip, { passive: true });
