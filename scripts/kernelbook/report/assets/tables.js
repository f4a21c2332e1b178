// Tables that readers sort, filter and copy. A row of class `below` stays below the row that it belongs to.

const rowsOf = (table) => [...table.tBodies[0].rows];

function groups(table) {
  const listed = [];
  for (const row of rowsOf(table)) {
    if (row.classList.contains("below") && listed.length) listed.at(-1).push(row);
    else listed.push([row]);
  }
  return listed;
}

function sortValue(row, column) {
  const cell = row.cells[column];
  if (!cell) return "";
  const text = cell.dataset.v ?? cell.textContent.trim();
  if (text === "" || text === NA) return null;
  const number = Number(text.replace(/,/g, ""));
  return Number.isNaN(number) ? text.toLowerCase() : number;
}

function order(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // missing values come last
  if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
  return typeof a === "number" ? -1 : 1;
}

// Missing values come last in either direction.
const byValue = (descending) => (a, b) =>
  (a.value === null || b.value === null || !descending ? 1 : -1) * order(a.value, b.value);

// Each click on a heading takes the next of: ascending, descending, the first order again.
const NEXT_SORT = { ascending: "descending", descending: null };

function markSorted(table, heading, direction) {
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  if (direction) heading.setAttribute("aria-sort", direction);
}

function sortTable(table, column, heading) {
  const before = heading.getAttribute("aria-sort");
  const direction = before ? NEXT_SORT[before] : "ascending";
  markSorted(table, heading, direction);
  const listed = groups(table).map((rows) => ({ rows, value: sortValue(rows[0], column) }));
  for (const [place, { rows }] of listed.entries()) rows[0].dataset.place ??= place;
  listed.sort((a, b) => a.rows[0].dataset.place - b.rows[0].dataset.place);
  if (direction) listed.sort(byValue(direction === "descending"));
  table.tBodies[0].append(...listed.flatMap(({ rows }) => rows));
}

function filterTable(table, text) {
  const part = text.trim().toLowerCase();
  const listed = groups(table);
  let left = 0;
  for (const rows of listed) {
    const hit = rows.some((row) => row.textContent.toLowerCase().includes(part));
    for (const row of rows) row.hidden = !hit;
    left += hit;
  }
  announce(`${left} rows`);
  return part ? `${left} of ${listed.length}` : "";
}

// The text of a cell as it is displayed.
function cellText(cell) {
  const parts = cell.children.length ? [...cell.querySelectorAll("[data-copy]")].map((part) => part.dataset.copy) : [];
  return (parts.length ? parts.join(" ") : cell.innerText || cell.textContent).replace(/\s+/g, " ").trim();
}

// What is copied: visible rows in their present order; raw values, with the unit in the heading, where a column has one.
function tableRows(table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = rowsOf(table).filter((row) => !row.hidden && !row.matches(".panel, .group"));
  const units = heads.map((head) => head.dataset.unit);
  const value = (cell, column) => (units[column] !== undefined && cell.dataset.v) || cellText(cell);
  const drawn = heads.findIndex((head) => head.matches(".c-strip"));
  const lines = [heads.map((head, column) => cellText(head) + (units[column] ? `, ${units[column]}` : ""))];
  for (const row of rows) lines.push([...row.cells].map(value));
  const width = lines[0].length;
  const whole = lines.map((line) => [...line, ...Array(Math.max(width - line.length, 0)).fill("")]);
  return whole.map((line) => line.filter((_, column) => column !== drawn));
}

const toCsv = (lines) => lines.map((line) => line.map(csvCell).join(",")).join("\n") + "\n";

function toMarkdown(lines) {
  const [head, ...body] = lines.map((line) => `| ${line.map(markdownCell).join(" | ")} |`);
  return [head, `|${" --- |".repeat(lines[0].length)}`, ...body].join("\n") + "\n";
}

function sortable(table, sort = sortTable) {
  for (const [column, heading] of [...table.tHead.rows[0].cells].entries()) {
    if (!heading.textContent.trim()) continue;
    const click = button([...heading.childNodes], () => sort(table, column, heading), { class: "sort" });
    heading.append(click);
  }
}

// A box that scrolls sideways fades at the edge behind which there is more.
function fadeWhereMore(box) {
  const mark = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  box.addEventListener("scroll", mark, { passive: true });
  const sizes = new ResizeObserver(mark);
  for (const each of [box, ...box.children]) sizes.observe(each);
}

// A table that is wider than its box can be scrolled by keys as well.
function reachable(box, name) {
  new ResizeObserver(() => {
    const wide = box.scrollWidth > box.clientWidth + 1;
    for (const [key, value] of [
      ["tabindex", "0"],
      ["role", "region"],
      ["aria-label", `Table ${name}, scrolls sideways`],
    ]) {
      if (wide) box.setAttribute(key, value);
      else box.removeAttribute(key);
    }
  }).observe(box);
}

const copyButtons = (table, name) =>
  [
    ["Markdown", toMarkdown],
    ["CSV", toCsv],
  ].map(([label, write]) =>
    button(label, (event) => copy(write(tableRows(table)), `Table as ${label}`, event.target), {
      "aria-label": `Copy ${name} as ${label}`,
    }),
  );

function enhanceTable(box) {
  const table = $("table", box);
  if (!table || box.dataset.ready) return;
  box.dataset.ready = "yes";
  const name = box.dataset.table ?? "table";
  const many = rowsOf(table).length > 9;
  const tools = h("div", { class: "table-tools" });
  const caption = $("caption:not(.sr)", table);
  if (caption) {
    tools.append(h("span", { class: "table-title", "aria-hidden": "true" }, caption.textContent));
    caption.classList.add("sr");
  }
  if (many) {
    const find = h("input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter rows of ${name}` });
    const count = h("span", { class: "note" });
    find.addEventListener("input", () => (count.textContent = filterTable(table, find.value)));
    tools.append(find, count);
  }
  tools.append(...copyButtons(table, name));
  if (rowsOf(table).length > 1) sortable(table);
  reachable(box, name);
  fadeWhereMore(box);
  box.before(tools);
}

// Columns of tables that are made here, as report/table.py has them: a title, what a cell shows, and for figures the raw
// value with its unit, which is what is sorted and copied. absent: what a missing value shows, or a function of the row.
const column = (title, of, css = "") => ({ title, css, cell: (row) => td(of(row), { class: css }) });
const figure = (title, of, show = String, unit = "", absent = NA) => ({
  title,
  unit,
  css: "r num",
  cell: (row) => {
    const value = of(row);
    const text = missing(value) ? (absent.call ? absent(row) : absent) : show(value);
    return td(text, { class: "r num", "data-v": value ?? "" });
  },
});
const time = (title, of, absent) => figure(title, of, duration, "µs", absent);
const td = (content, attributes) =>
  content instanceof HTMLTableCellElement ? content : h("td", attributes, content ?? "");

// `attributesOf`: of the row of a table; none for null.
function makeTable(name, caption, columns, rows, attributesOf = () => null) {
  const heads = columns.map(({ title, unit, css }) =>
    h("th", { scope: "col", class: css.includes("r") ? "r" : null, "data-unit": unit }, title),
  );
  const body = rows.map((row) =>
    h(
      "tr",
      attributesOf(row),
      columns.map((each) => each.cell(row)),
    ),
  );
  const table = h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body));
  const box = h("div", { class: "table", "data-table": name }, table);
  const wrap = h("div", {}, box);
  enhanceTable(box);
  return wrap;
}
