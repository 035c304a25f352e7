// All points, with DataTables: a page at a time, sorted and filtered by any column, and as CSV.
let showOnly = () => {};

const loadTables = async () => {
  const source = JSON.parse(place("table-script").textContent);
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const module = await import(address);
  URL.revokeObjectURL(address);
  return module.default;
};

// DataTables takes what it shows and what it searches for HTML; what it sorts and exports it leaves alone.
const cell = (column) => {
  const texts = column.numeric ? [] : [...column.levels.map(safe), ""]; // once per text, not once per row
  return (row, type) => {
    const value = column.values[row];
    if (type === "display") return safe(shown(value));
    if (type === "filter" && !column.numeric) return texts[Math.min(column.codes[row], texts.length - 1)];
    return Number.isNaN(value) ? "" : value;
  };
};

// A cell of CSV: numbers with every digit; text that a spreadsheet would run as a formula gets an apostrophe.
const csvCell = (value) => {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  const text = /^[=+\-@\t\r]./s.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const saveCsv = (rows) => {
  const lines = [sweep.columns.map(({ name }) => csvCell(name)), ...rows.map((row) => sweep.columns.map(({ values }) => csvCell(values[row])))];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.map((cells) => `${cells.join(",")}\n`).join("")], { type: "text/csv" }));
  link.download = "sweep-points.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};

const startTable = async () => {
  const DataTable = await loadTables();
  const titles = sweep.columns.map(({ label, unit }) => label + (unit && unit !== "-" ? ` [${unit}]` : ""));
  const headings = place("points-table").createTHead().insertRow();
  for (const title of ["#", ...titles]) headings.append(Object.assign(document.createElement("th"), { textContent: title, scope: "col" }));
  const number = { data: (row) => row + 1, type: "num", className: "dt-right" };
  const columns = sweep.columns.map((column) => ({
    name: column.name,
    data: cell(column),
    type: column.numeric ? "num" : "string",
    className: column.numeric ? "dt-right" : "dt-left",
    orderSequence: ["asc", "desc", ""],
  }));
  const csv = { text: "Download CSV", action: (event, table) => saveCsv(table.rows({ search: "applied", order: "applied" }).data().toArray()) };
  const table = new DataTable("#points-table", {
    data: Array.from({ length: sweep.rows }, (_, row) => row),
    columns: [number, ...columns],
    order: [],
    pageLength: 25,
    lengthMenu: [10, 25, 100, 500],
    autoWidth: false,
    deferRender: true,
    searchDelay: 250,
    columnControl: [{ target: 0, content: ["order"] }, { target: 1, content: ["search"] }],
    ordering: { indicators: false, handler: true },
    layout: { topStart: { buttons: [csv, { extend: "colvis", text: "Columns" }] }, topEnd: "search", bottomStart: ["info", "pageLength"], bottomEnd: "paging" },
    createdRow: (line, row) => line.classList.toggle("on-front", isFront(row)),
  });
  showOnly = (rows) => {
    const only = new Set(rows ?? []);
    table.search.fixed("brushes", rows && ((_, row) => only.has(row))).draw();
    const back = Object.assign(document.createElement("button"), { className: "choice", textContent: "Show all" });
    back.addEventListener("click", () => showOnly(null));
    place("points-remark").replaceChildren(...(rows ? [`${counted(rows.length, "point")} within the brushes of the parallel coordinates. `, back] : []));
    if (rows) place("points").scrollIntoView();
  };
  return table;
};
