// Kernel strips: details on hover and focus, arrow keys, and copies of them for cases and comparisons.

const tip = $("#tip");

const pair = (label, value) => (missing(value) || value === "" ? [] : [h("dt", {}, label), h("dd", {}, value)]);

function factsOf(act) {
  const { facts: values = {} } = act;
  const list = (value) => (Array.isArray(value) ? value.join(" × ") : value);
  return [
    pair("launched by", act.path ?? act.op),
    pair("launch", values.launch_api),
    pair("waited in the queue", missing(act.launch) || missing(act.start) ? null : duration(act.start - act.launch)),
    pair("grid, block", values.grid && values.block ? `${list(values.grid)}; ${list(values.block)}` : null),
    pair("registers", values.registers_per_thread),
    pair(
      "shared memory",
      values.shared_memory_bytes ? `${values.shared_memory_bytes.toLocaleString("en-US")} B` : null,
    ),
    // the profiler estimates 0 if a kernel opts in to more shared memory than it knows of: that is no figure
    pair("occupancy, estimated", values.occupancy_percent ? `${values.occupancy_percent} %` : null),
    pair("bytes", values.bytes?.toLocaleString("en-US")),
    pair("graph", values.graph ? "launched as part of a graph" : null),
  ];
}

// The details of one activity. `whole` adds the full name and the decoded fields.
function activityDetails(act, cell, whole = false) {
  return [
    h("h4", {}, whole ? act.name : act.short),
    h("p", {}, act.sentence ?? ""),
    h(
      "dl",
      {},
      pair("time", `${duration(act.usual)}, ${share(cell.total ? act.part : null)} of the forward`),
      whole && pair("in this forward", duration(act.duration)),
      pair("family", act.family.label),
      pair("rate", missing(act.rate) ? null : `${significant(act.rate)} GB/s`),
      pair("of its roof", missing(act.of_roof) ? null : `${share(act.of_roof)} of ${act.roof}`),
      pair("built for", act.built_for),
      factsOf(act),
      whole ? (act.details ?? []).map(([label, value]) => pair(label, value)) : [],
    ),
  ];
}

function showTip(at, content) {
  tip.replaceChildren(...content.flat());
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = clamp(at.left + at.width / 2 - box.width / 2, 8, Math.max(8, innerWidth - box.width - 8));
  const above = at.top - box.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : Math.min(at.bottom + 8, innerHeight - box.height - 4)}px`;
}

function hideTip() {
  tip.hidden = true;
}

function segmentsOf(bar) {
  return $$("rect[data-i]", bar);
}

function pointAt(bar, segment) {
  for (const other of segmentsOf(bar)) other.classList.toggle("on", other === segment);
  if (!segment) return hideTip();
  const cell = cellOf(Number(bar.dataset.cell));
  const act = cell.activities[Number(segment.dataset.i)];
  showTip(segment.getBoundingClientRect(), activityDetails(act, cell));
  return act;
}

function walk(bar, event) {
  const all = segmentsOf(bar);
  const now = all.findIndex((segment) => segment.classList.contains("on"));
  const next = { ArrowRight: now + 1, ArrowLeft: now < 0 ? all.length - 1 : now - 1, Home: 0, End: all.length - 1 }[
    event.key
  ];
  if (event.key === "Escape") return pointAt(bar, null);
  if (event.key === "Enter" && now >= 0) return goToKernel(bar, all[now]);
  if (next === undefined) return;
  event.preventDefault();
  const act = pointAt(bar, all[clamp(next, 0, all.length - 1)]);
  if (act)
    announce(
      `${act.position + 1} of ${all.length}: ${act.short}, ${duration(act.usual)}, ${act.family.label}, launched by ${act.op ?? "unknown"}`,
    );
}

function goToKernel(bar, segment) {
  hideTip();
  location.hash = `${index.cells[Number(bar.dataset.cell)].anchor}~k${segment.dataset.i}`;
}

function enhanceStrip(bar) {
  bar.addEventListener("pointermove", (event) => pointAt(bar, event.target.closest("rect[data-i]")));
  bar.addEventListener("pointerleave", () => pointAt(bar, null));
  bar.addEventListener("focus", () => bar.matches(":focus-visible") && pointAt(bar, segmentsOf(bar)[0]));
  bar.addEventListener("blur", () => pointAt(bar, null));
  bar.addEventListener("keydown", (event) => walk(bar, event));
  let touched = null; // without hover the first tap shows the details and the second follows the link
  bar.addEventListener("pointerdown", (event) => {
    const segment = event.target.closest("rect[data-i]");
    touched = event.pointerType === "touch" && !segment?.classList.contains("on") ? segment : null;
  });
  bar.addEventListener("click", (event) => {
    const segment = event.target.closest("rect[data-i]");
    if (segment && segment !== touched) goToKernel(bar, segment);
    else if (segment) pointAt(bar, segment);
  });
}

// The page's own drawing of a cell's strip, or of its forward times, to stand in another place; null if it has none.
function drawingOf(kind, cell) {
  const drawn = $(`.${kind} svg[data-cell="${cell.number}"]`);
  const twin = drawn?.cloneNode(true);
  if (twin?.matches(".strip-bar")) enhanceStrip(twin);
  return twin;
}

// A row of a chart. part: of the whole width; end: the words behind the drawing.
function chartRow(name, drawing, height, part, end) {
  const box = h("div", { class: "drawing", style: `--part:${part.toFixed(5)};height:${height}px` }, drawing);
  const words = h("span", { class: "strip-total num" }, end);
  return h(
    "div",
    { class: "strip" },
    h("span", { class: "strip-name" }, name),
    h("div", { class: "strip-track" }, box, words),
  );
}

function stripRow(cell, name, scale) {
  const end = [duration(cell.shown_us), h("span", { class: "muted" }, cell.counts)];
  return chartRow(name, drawingOf("c-strip", cell), 22, cell.total / scale, end);
}
