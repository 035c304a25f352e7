"use strict";
// A click on a heading sorts its table: ascending, descending, as written. Empty cells stay at the end.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const written = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  const next = { none: "ascending", ascending: "descending", descending: "none" };

  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
  };

  const sortBy = (column, order) => {
    const value = (row) => row.cells[column].dataset.value;
    const sign = order === "descending" ? -1 : 1;
    const full = written.filter((row) => value(row) !== "");
    const empty = written.filter((row) => value(row) === "");
    if (order !== "none") full.sort((a, b) => sign * compare(value(a), value(b)));
    body.append(...(order === "none" ? written : [...full, ...empty]));
  };

  headings.forEach((heading, column) =>
    heading.querySelector("button").addEventListener("click", () => {
      const order = next[heading.ariaSort];
      for (const other of headings) other.ariaSort = "none";
      heading.ariaSort = order;
      sortBy(column, order);
    }),
  );
}
