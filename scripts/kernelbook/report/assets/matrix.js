// The run matrix as a heat table: ratios to a chosen baseline where runs are comparable, and a mark for other kernels.

const HEAT_FULL = Math.log(4); // four times the baseline is as strong as the colour gets

function heat(td, value) {
  const strength = clamp(Math.abs(Math.log(value)) / HEAT_FULL, 0, 1);
  td.classList.toggle("heat", strength > 0.02);
  td.style.setProperty("--heat", value > 1 ? "var(--f-copy)" : "var(--f-attention)");
  td.style.setProperty("--heat-by", `${Math.round(8 + strength * 34)}%`);
}

function clearHeat(td, text, why) {
  td.classList.remove("heat");
  $(".m-ratio", td).textContent = text;
  $(".m-ratio", td).classList.add("quietly");
  td.title = why;
}

function otherKernels(td, base, cell, against) {
  if (td.dataset.same !== "" && base.dataset.same !== "") return td.dataset.same !== base.dataset.same;
  return !missing(cell.kernels) && !missing(against.kernels) && cell.kernels !== against.kernels;
}

// A CPU run has no device time: the cell shows the forward time instead, marked as such.
const timeIn = (cell, field) =>
  missing(cell[field]) && !missing(cell.forward_us) ? `forward ${duration(cell.forward_us)}` : duration(cell[field]);

function paintCell(td, base, metric) {
  if ("whole" in td.dataset) return; // figures of a whole file are compared with none
  const cell = index.cells[Number(td.dataset.cell)];
  const field = metric === "device" ? "device_us" : "forward_us";
  $(".m-time", td).textContent = timeIn(cell, field);
  td.dataset.v = cell[field] ?? "";
  td.classList.remove("differs");
  if (!base) return clearHeat(td, "", "The baseline has no such case");
  const against = index.cells[Number(base.dataset.cell)];
  td.classList.toggle("differs", otherKernels(td, base, cell, against));
  if (td === base) return clearHeat(td, $("#matrix-base").options.length > 1 ? "base" : "", "The baseline");
  if (missing(cell[field]) || !against[field]) return clearHeat(td, "", "No time on one side");
  const why = differences(cell, against);
  if (why.length) return clearHeat(td, "—", `No ratio: ${why.join("; ")}`);
  const value = cell[field] / against[field];
  heat(td, value);
  $(".m-ratio", td).classList.remove("quietly");
  $(".m-ratio", td).textContent = ratio(value);
  td.title = `${ratio(value)} the time of the baseline`;
}

function paintMatrix() {
  const table = $("#matrix-table");
  const run = $("#matrix-base").value;
  const metric = $("#matrix-metric").value;
  for (const row of rowsOf(table)) {
    const cells = $$("td[data-cell]", row);
    const base = cells.find((td) => index.cells[Number(td.dataset.cell)].run === run);
    for (const td of cells) paintCell(td, base, metric);
  }
}

function startMatrix() {
  if (!$("#matrix-base").options.length) return;
  const useful = [...$("#matrix-base").options].find((option) =>
    index.cells.some((cell) => cell.run === option.value && cell.drawn),
  );
  if (useful && !("chosen" in $("#matrix-base").dataset)) $("#matrix-base").value = useful.value;
  $("#matrix-tools").hidden = false;
  $("#matrix-metric").addEventListener("change", paintMatrix);
  $("#matrix-base").addEventListener("change", paintMatrix);
  paintMatrix();
}
