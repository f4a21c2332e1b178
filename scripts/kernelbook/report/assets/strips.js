// Kernel strips: details on hover and focus, arrow keys, and strips made here for cases and comparisons.

const tip = $("#tip");

const pair = (label, value) => (missing(value) || value === "" ? [] : [h("dt", {}, label), h("dd", {}, value)]);

function facts(act) {
  const known = act.facts ?? {};
  const list = (value) => (Array.isArray(value) ? value.join(" × ") : value);
  return [
    pair("launched by", act.path ?? act.op),
    pair("launch", known.launch_api),
    pair("delay", missing(act.launch) || missing(act.start) ? null : duration(act.start - act.launch)),
    pair("grid, block", known.grid && known.block ? `${list(known.grid)}; ${list(known.block)}` : null),
    pair("registers", known.registers_per_thread),
    pair("shared memory", known.shared_memory_bytes ? `${known.shared_memory_bytes.toLocaleString("en-US")} B` : null),
    // the profiler estimates 0 where a kernel opts in to more shared memory than it knows of: that is no figure
    pair("occupancy, estimated", known.occupancy_percent ? `${known.occupancy_percent} %` : null),
    pair("bytes", known.bytes?.toLocaleString("en-US")),
    pair("graph", known.graph ? "launched as part of a graph" : null),
  ];
}

// All that is known of one activity. `whole` also gives the full name and the decoded fields.
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
      facts(act),
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
  let told = null; // a finger has no hover: its first tap tells, its second goes there
  bar.addEventListener("pointerdown", (event) => {
    const segment = event.target.closest("rect[data-i]");
    told = event.pointerType === "touch" && !segment?.classList.contains("on") ? segment : null;
  });
  bar.addEventListener("click", (event) => {
    const segment = event.target.closest("rect[data-i]");
    if (segment && segment !== told) goToKernel(bar, segment);
    else if (segment) pointAt(bar, segment);
  });
}

// How many letters' room a label needs, as report/strips.py counts it.
const lettersOf = (label) => [...label].reduce((sum, letter) => sum + (/[A-Z]/.test(letter) ? 1.4 : 1), 0);

const percent = (part) => `${(part * 100).toFixed(3)}%`;

function segment(act, left, width, part) {
  const [x, w] = [percent(left), percent(width)];
  const { key, label, hatched } = act.family;
  const fits = !hatched && part >= 0.009 * lettersOf(label);
  return [
    s("rect", { class: `f-${key}${part < 0.004 ? " thin" : ""}`, x, width: w, height: "100%", "data-i": act.position }),
    hatched && s("rect", { class: "hatch", x, width: w, height: "100%" }),
    fits &&
      s(
        "text",
        {
          class: `t-${key} lab-${part >= 0.018 * lettersOf(label) ? "any" : "wide"}`,
          x: percent(left + width / 2),
          y: "50%",
        },
        label,
      ),
  ];
}

// One strip; its length is to `scale`.
function strip(cell, label, scale) {
  let left = 0;
  const parts = cell.activities.map((act) => {
    const width = act.part;
    const made = segment(act, left, width, act.usual / scale);
    left += width;
    return made;
  });
  const about = `${titleOf(cell)}: ${duration(cell.shown_us)}, ${counts(cell)}. Arrow keys walk through the kernels.`;
  const bar = s(
    "svg",
    { class: "strip-bar", tabindex: 0, role: "group", "aria-label": about, "data-cell": cell.number },
    parts,
  );
  bar.style.setProperty("--part", (cell.total / scale).toFixed(5));
  enhanceStrip(bar);
  return h(
    "div",
    { class: "strip" },
    h("span", { class: "strip-name" }, label),
    h(
      "div",
      { class: "strip-track" },
      bar,
      h("span", { class: "strip-total num" }, duration(cell.shown_us), h("span", { class: "muted" }, counts(cell))),
    ),
  );
}

function stripLines(cells) {
  const head = [
    "run",
    "case",
    "position",
    "category",
    "name",
    "family",
    "start_us",
    "median_duration_us",
    "launched by",
  ];
  const lines = cells.flatMap((cell) =>
    cell.activities.map((act) => [
      cell.run,
      cell.case,
      act.position,
      act.category,
      act.name,
      act.family.label,
      act.start ?? "",
      act.usual,
      act.path ?? "",
    ]),
  );
  return [head, ...lines].map((line) => line.map(String));
}

function enhanceFigure(figure) {
  const cells = () => $$(".strip-bar", figure).map((bar) => cellOf(Number(bar.dataset.cell)));
  const name = figure.dataset.workload;
  const own = button(
    "Each to its own width",
    () => {
      const on = figure.classList.toggle("own-scale");
      own.setAttribute("aria-pressed", String(on));
      own.textContent = on ? "Each to its own width ✓" : "Each to its own width";
    },
    { class: "quiet", "aria-pressed": "false" },
  );
  $(".fig-tools", figure).append(
    $$(".strip-bar", figure).length > 1 ? own : "",
    button(
      "SVG",
      () => offer(fileName("strips", name) + ".svg", "image/svg+xml", stripsSvg(cells(), `Kernel strips of ${name}`)),
      { class: "quiet", "aria-label": `Download the strips of ${name} as SVG` },
    ),
    button("CSV", () => offer(fileName("strips", name) + ".csv", "text/csv", toCsv(stripLines(cells()))), {
      class: "quiet",
      "aria-label": `Download the data of the strips of ${name} as CSV`,
    }),
  );
}
