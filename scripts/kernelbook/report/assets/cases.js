// The table of cases: search, columns, order, groups and ratios to a baseline. What a reader chose stands in the address,
// behind a question mark: #cases?q=softmax&sort=-device&group=run&base=run:h200&columns=busy&own=1

const cases = { table: $("[data-table=cases] table"), shown: new URLSearchParams(), homes: new Map() };
const GROUPS = { workload: "by workload", run: "by run", none: "not grouped" };

const chosen = (name, usual = "") => cases.shown.get(name) ?? usual;

function choose(name, value, usual = "") {
  if (value === usual) cases.shown.delete(name);
  else cases.shown.set(name, value);
  remember(location.hash.slice(1).split("?")[0] || "cases");
  drawCases();
}

// The address: what it leads to, and what was chosen in the table.
function remember(target) {
  history.replaceState(null, "", `#${target}${cases.shown.size ? `?${cases.shown}` : ""}`);
}

const headsOf = () => [...cases.table.tHead.rows[0].cells];
const cellIn = (row) => index.cells[Number(row.dataset.cell)];
const columnAt = (css) => headsOf().findIndex((head) => head.matches(css));

// --- ratios ---

function baseOf(cell) {
  const [kind, name] = chosen("base", cases.base).split(/:(.*)/s);
  if (kind === "run") return index.cells[numberOf(name, cell.case)];
  if (kind === "case") return index.cells[numberOf(cell.run, name)];
  return index.cells.find((other) => other.run === cell.run && other.workload === cell.workload && usable(other));
}

const HEAT_FULL = Math.log(4); // four times the baseline is as strong as the colour gets

function heat(td, value) {
  const strength = value ? clamp(Math.abs(Math.log(value)) / HEAT_FULL, 0, 1) : 0;
  td.classList.toggle("heat", strength > 0.02);
  td.style.setProperty("--heat", value > 1 ? "var(--f-copy)" : "var(--f-attention)");
  td.style.setProperty("--heat-by", `${Math.round(8 + strength * 34)}%`);
}

// [text, explanation, ratio] of a row; the ratio is of device times, or of forward times where one side lacks the former.
function ratioTo(base, cell) {
  if (!base) return ["", "The baseline has no such case"];
  if (base === cell) return ["base", "The baseline"];
  const field = missing(cell.device_us) || missing(base.device_us) ? "forward_us" : "device_us";
  if (missing(cell[field]) || !base[field]) return ["", "No time on one side"];
  const why = differences(cell, base);
  if (why.length) return [`no ratio: ${why[0].replace(/^the /, "").split(":")[0]}`, `No ratio: ${why.join("; ")}`];
  const value = cell[field] / base[field];
  return [
    ratio(value),
    `${ratio(value)} the ${field === "device_us" ? "device" : "forward"} time of the baseline`,
    value,
  ];
}

function paintRatio(row) {
  const [kernels, at] = [columnAt(".c-kernels"), columnAt(".c-ratio")];
  const [cell, td] = [cellIn(row), row.cells[at]];
  if (!cell || !td || row.classList.contains("state")) return;
  const base = baseOf(cell);
  const [text, why, value] = ratioTo(base, cell);
  td.replaceChildren(missing(value) ? h("small", {}, text) : text);
  td.title = why;
  td.dataset.v = value ?? "";
  heat(td, value);
  // that another case runs other kernels goes without saying
  const other = base?.case === cell.case && cases.rows.find((each) => cellIn(each) === base)?.dataset.same;
  row.cells[kernels].classList.toggle("differs", Boolean(other && row.dataset.same && other !== row.dataset.same));
}

// --- search: cases, runs, findings and everything else in a row or its panel, kernels and ops ---

function searchText(row) {
  if (!row.dataset.text) {
    const cell = cellIn(row)?.drawn || cellIn(row)?.called ? cellOf(Number(row.dataset.cell)) : null;
    const names = cell ? [...cell.activities, ...cell.calls].map((each) => `${each.name} ${each.what ?? ""}`) : [];
    const panel = cases.panels.get(row.dataset.case);
    const written = panel ? $$(".case-body > :not(.case-look, .case-rest)", panel).map((each) => each.textContent) : [];
    row.dataset.text = [row.textContent, ...written, ...new Set(names)].join(" ").toLowerCase();
  }
  return row.dataset.text;
}

// --- drawing ---

function sorted(rows) {
  const [, minus, name] = chosen("sort").match(/^(-?)(.*)$/);
  const column = headsOf().findIndex((head) => head.textContent === name);
  markSorted(cases.table, headsOf()[column], column < 0 ? null : minus ? "descending" : "ascending");
  if (column < 0) return rows;
  const listed = rows.map((row) => ({
    row,
    value: row.matches(".state") && column > 1 ? null : sortValue(row, column),
  }));
  return listed.sort(byValue(minus)).map(({ row }) => row);
}

function groupOf(row) {
  const by = chosen("group", "workload");
  return by === "none" ? "" : by === "run" ? visible(cellIn(row)?.run ?? NA) : row.dataset.workload;
}

function drawCases() {
  const width = headsOf().filter((head) => !head.hidden).length;
  for (const row of cases.rows) paintRatio(row);
  const words = chosen("q").toLowerCase().split(/\s+/).filter(Boolean);
  const hits = new Set(cases.rows.filter((row) => words.every((word) => searchText(row).includes(word))));
  const rows = sorted(cases.rows);
  const listed = [];
  for (const name of new Set(cases.rows.map(groupOf))) {
    const members = rows.filter((row) => groupOf(row) === name && hits.has(row));
    if (name && members.length)
      listed.push(h("tr", { class: "group" }, h("th", { colspan: width, scope: "rowgroup" }, name)));
    listed.push(...members);
  }
  const home = (panel) => {
    const wanted = cases.homes.get(panel.dataset.case);
    return hits.has(wanted) ? wanted : listed.findLast((row) => row.dataset.case === panel.dataset.case);
  };
  for (const panel of cases.panels.values()) {
    const after = home(panel);
    panel.hidden = !after;
    panel.cells[0].colSpan = width;
    if (after) listed.splice(listed.indexOf(after) + 1, 0, panel);
  }
  for (const row of cases.rows) row.hidden = !hits.has(row);
  for (const row of $$("tr.group", cases.table)) row.remove();
  cases.table.tBodies[0].append(...listed, ...cases.rows.filter((row) => row.hidden));
  $("#cases-count").textContent = words.length ? `${hits.size} of ${cases.rows.length}` : "";
  cases.table.classList.toggle("own-scale", chosen("own") === "1");
}

// A panel is displayed below the row that it was opened from.
function openBelow(details, row) {
  cases.homes.set(details.id, row);
  drawCases();
}

// --- controls ---

const option = (value, text) => h("option", { value }, text);

function select(label, name, usual, options) {
  const node = h("select", { id: `cases-${name}`, on: { change: () => choose(name, node.value, usual) } }, options);
  node.value = chosen(name, usual);
  return h("label", {}, `${label} `, node);
}

function baselines() {
  const optionsOf = (kind, values) => values.map((value) => option(`${kind}:${value}`, clip(visible(value), 60)));
  const ran = [...new Set(index.cells.filter(usable).map((cell) => cell.run))];
  const of = [...new Set(index.cells.filter(usable).map((cell) => cell.case))];
  return [
    option("first", "first case of each workload"),
    ran.length > 1 && h("optgroup", { label: "run" }, optionsOf("run", ran)),
    h("optgroup", { label: "case" }, optionsOf("case", of)),
  ];
}

function showColumns() {
  const changed = new Set(chosen("columns").split(",").filter(Boolean));
  for (const [column, head] of headsOf().entries()) {
    const hidden = cases.optional.has(head) !== changed.has(head.textContent);
    for (const row of [head.parentElement, ...cases.rows]) {
      if (!row.matches(".state") && row.cells[column]) row.cells[column].hidden = hidden;
    }
  }
  const width = headsOf().filter((head) => !head.hidden).length;
  for (const row of cases.rows.filter((row) => row.matches(".state")))
    [...row.cells].at(-1).colSpan = width - row.cells.length + 1;
}

function columnMenu() {
  const box = (head) => {
    const name = head.textContent;
    const input = h("input", { type: "checkbox", checked: !head.hidden });
    input.addEventListener("change", () => {
      const changed = new Set(chosen("columns").split(",").filter(Boolean));
      if (input.checked === !cases.optional.has(head)) changed.delete(name);
      else changed.add(name);
      cases.shown.set("columns", [...changed].join(","));
      if (!changed.size) cases.shown.delete("columns");
      showColumns();
      choose("group", chosen("group", "workload"), "workload");
    });
    return h("label", {}, input, ` ${name}`);
  };
  return h("details", { class: "menu" }, h("summary", {}, "Columns"), h("div", {}, headsOf().slice(1).map(box)));
}

function sortCases(table, column, heading) {
  const now = heading.getAttribute("aria-sort");
  const name = heading.textContent;
  choose("sort", now === "ascending" ? `-${name}` : now ? "" : name);
}

function startCases() {
  if (!cases.table) return;
  const { table } = cases;
  cases.rows = rowsOf(table).filter((row) => !row.matches(".panel"));
  cases.panels = new Map(rowsOf(table).flatMap((row) => (row.matches(".panel") ? [[$(".case", row).id, row]] : [])));
  for (const [id, panel] of cases.panels) panel.dataset.case = id;
  cases.optional = new Set(headsOf().filter((head) => head.hidden));
  const several = new Set(index.cells.filter(usable).map((cell) => cell.run)).size > 1;
  const drawn = index.cells.find((cell) => usable(cell) && cell.drawn);
  cases.base = several && (index.baseline || drawn) ? `run:${index.baseline || drawn.run}` : "first";
  if (location.hash.includes("?")) cases.shown = new URLSearchParams(location.hash.replace(/^[^?]*\?/, ""));
  const find = h("input", {
    type: "search",
    placeholder: "Search cases, kernels, ops",
    title: "Searches the names of cases, kernels and ops, and the text of findings",
    "aria-label": "Search",
  });
  find.value = chosen("q");
  find.addEventListener("input", () => choose("q", find.value));
  const own = h("input", { type: "checkbox", checked: chosen("own") === "1" });
  own.addEventListener("change", () => choose("own", own.checked ? "1" : ""));
  $("#cases-tools").append(
    find,
    h("span", { id: "cases-count", class: "note" }),
    select("baseline", "base", cases.base, baselines()),
    select(
      "group",
      "group",
      "workload",
      Object.entries(GROUPS).map(([value, text]) => option(value, text)),
    ),
    h("label", {}, own, " strips to full width"),
    columnMenu(),
    button("Copy link", (event) => copy(location.href, "Link", event.target)),
    ...copyButtons(table, "cases"),
  );
  $("#cases-tools").hidden = false;
  for (const row of cases.rows) {
    // on a narrow screen each figure stands behind its name
    for (const [column, td] of [...row.cells].entries())
      if (column && !row.matches(".state") && td.textContent && !td.matches(".c-strip"))
        td.dataset.label = headsOf()[column].textContent;
  }
  sortable(table, sortCases);
  showColumns();
  drawCases();
}
