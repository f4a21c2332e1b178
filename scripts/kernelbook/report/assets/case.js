// The content of an opened case: for a chosen run its strip, lanes, trace, kernels, ops and forward times.

// A grid or a block without the sides of 1 behind its last longer one: 16384, 8×8×128.
const sides = (list) => list.slice(0, Math.max(list.findLastIndex((side) => side !== 1) + 1, 1)).join("×");

const kernelLink = ({ anchor, position }) =>
  h("a", { href: `#${anchor}`, "aria-label": `Link to kernel ${position}` }, String(position));
// A kernel that Inductor generated links to the output code of its case, a file beside the page.
function withCode(td, { code, name }) {
  if (code && name.startsWith("triton_"))
    td.append(" ", h("a", { href: code, title: "Inductor's output code" }, "code"));
  return td;
}
const roof = (act) =>
  h(
    "td",
    { class: "r num", "data-v": act.of_roof ?? "", title: act.roof && `of the ${act.roof} roof` },
    missing(act.of_roof) ? "" : [`${share(act.of_roof)} `, h("span", { class: "muted" }, act.roof)],
  );
const grid = ({ facts = {} }) =>
  h(
    "td",
    { class: "num", "data-v": facts.grid?.reduce((product, side) => product * side, 1) ?? "" },
    facts.grid && `${sides(facts.grid)}, ${sides(facts.block ?? [])}`,
  );

const KERNEL_COLUMNS = [
  column("#", kernelLink, "r num"),
  column("kernel", (act) =>
    withCode(
      kernelCell(act, (one) => [one.what]),
      act,
    ),
  ),
  time("time", (act) => act.usual),
  figure("share", (act) => act.part, share),
  column("family", (act) => act.family.label),
  column("precision", (act) => act.precision),
  figure("GB/s", (act) => act.rate, significant, "", ""),
  { ...column("of roof", roof, "r num"), unit: "" },
  column("launched by", (act) => h("td", { class: "mono", title: act.path ?? "" }, clip(act.op ?? NA, 60))),
  column("grid, block", grid),
];

// What Nsight Compute measured of a kernel: its limiter, which unfolds to the shares of the peaks.
const PEAKS = ["SM", "tensor", "L2", "DRAM"];
const peak = (name, share) =>
  missing(share)
    ? []
    : h(
        "div",
        {},
        h("span", { class: "muted" }, name),
        h("meter", { min: 0, max: 100, value: share, "aria-label": name }),
        `${Math.round(share)} %`,
      );
function counted(act) {
  if (!act.counted) return h("td", { "data-v": "" });
  const [limiter, sentence, shares, facts] = act.counted;
  const bars = PEAKS.map((name, place) => peak(name, shares[place]));
  const words = [h("p", {}, visible(sentence ?? "")), h("p", { class: "muted" }, visible(facts.join("; ")))];
  const body = h("div", { class: "peaks" }, bars, words);
  return h("td", { "data-v": limiter }, h("details", {}, h("summary", {}, limiter), body));
}
const COUNTED = column("by counters", counted);

function kernelTable(cell) {
  const rows = cell.activities.map((act) => ({ ...act, code: cell.code, anchor: `${cell.anchor}~k${act.position}` }));
  const name = `kernels-${cell.run}-${cell.case}`;
  const columns = cell.activities.some((act) => act.counted) ? [...KERNEL_COLUMNS, COUNTED] : KERNEL_COLUMNS;
  return makeTable(name, "Kernels of one forward", columns, rows, ({ anchor }) => ({ id: anchor }));
}

const opCell = ({ name }) => h("td", { class: "mono", title: name }, h("span", { "data-copy": name }, clip(name, 90)));

const OP_COLUMNS = [
  column("op", opCell),
  figure("calls", (op) => op.count),
  time("CPU time", (op) => op.cpu),
  time("self CPU", (op) => op.self),
  figure("kernels, self", (op) => op.kernels),
  time("device time, self", (op) => op.device),
];

function opTable(cell) {
  const launchesNothing = (op) => !missing(op.kernels) && !op.kernels && !op.device;
  const attributes = (op) => ({ class: launchesNothing(op) ? "metadata" : null });
  const ops = [...opTotals(cell).values()];
  return makeTable(`ops-${cell.run}-${cell.case}`, "Ops of one forward", OP_COLUMNS, ops, attributes);
}

function lookAt(number) {
  const cell = cellOf(number);
  const parts = [];
  if (cell.activities.length)
    parts.push(h("div", { class: "strip-rows" }, stripRow(cell, clip(visible(cell.run), 24), cell.total || 1)));
  if (cell.calls.length || cell.activities.some((act) => !missing(act.start)))
    parts.push(h("h3", {}, "One forward on the clock"), new Lanes(cell).node());
  parts.push(traceTools(cell));
  if (cell.activities.length) parts.push(kernelTable(cell));
  return parts;
}

// The ops and the forward times of a case, below its tables.
function restOf(number) {
  const cell = cellOf(number);
  const parts = [];
  if (cell.calls.length) parts.push(opTable(cell));
  const samples = drawingOf("spread", cell);
  if (samples) {
    enhanceSamples(samples);
    const row = chartRow(visible(cell.run), samples, 26, 1, duration(cell.forward_us));
    const note = "As its row in the chart of the workload, on the same scale.";
    parts.push(h("h3", {}, "Forward times"), h("div", { class: "strip-rows" }, row), h("p", { class: "note" }, note));
  }
  return parts;
}

function chooseRun(look, number) {
  for (const choice of $$("[role=tab]", look)) {
    const on = Number(choice.dataset.number) === number;
    choice.setAttribute("aria-selected", String(on));
    choice.tabIndex = on ? 0 : -1;
  }
  look.dataset.shown = number;
  $(".here", look).href = `#${index.cells[number].anchor}`;
  const body = $(".look-body", look);
  const label = `Details on ${visible(index.cells[number].run)}`;
  body.setAttribute("aria-label", label);
  body.replaceChildren(...lookAt(number));
  $(".case-rest", look.parentElement).replaceChildren(...restOf(number));
}

function tabKey(look, event) {
  const tabs = $$("[role=tab]", look);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  chooseRun(look, Number(next.dataset.number));
  next.focus();
}

function buildLook(details) {
  const look = $(".case-look", details);
  const numbers = (look.dataset.cells.match(/\d+/g) ?? []).map(Number);
  if (!numbers.length) return;
  const best = numbers.find((number) => index.cells[number].drawn) ?? numbers[0];
  const tab = (number) =>
    button(visible(index.cells[number].run), () => chooseRun(look, number), { role: "tab", "data-number": number });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Run" }, numbers.map(tab));
  tabs.addEventListener("keydown", (event) => tabKey(look, event));
  const link = button(
    "Compare with…",
    () => compareWith(Number(look.dataset.shown), partner(Number(look.dataset.shown))),
    { class: "quiet" },
  );
  const here = h("a", { class: "here", href: "#" }, "Link to this");
  look.append(h("div", { class: "look-head" }, tabs, link, here), h("div", { class: "look-body", role: "tabpanel" }));
  const rest = numbers.filter((number) => number !== best);
  look.append(...rest.flatMap((number) => findable(look, number, new Set(namesIn(best)))));
  chooseRun(look, best);
}

const namesIn = (number) => {
  const { activities, calls } = cellOf(number);
  return [...activities, ...calls.filter((call) => call.category === "op")].map((each) => each.short ?? each.name);
};

// The names that only another run has, for the browser's own search: where it finds one, that run is chosen.
function findable(look, number, present) {
  const names = [...new Set(namesIn(number))].filter((name) => !present.has(name));
  const choose = (event) => {
    chooseRun(look, number);
    setTimeout(() => event.target.setAttribute("hidden", "until-found"));
  };
  return names.length ? [h("p", { hidden: "until-found", on: { beforematch: choose } }, names.join(" "))] : [];
}

// What a case is best compared with: the same case on another run, else the next case on the same run.
function partner(number) {
  const cell = index.cells[number];
  const fits = (other, place) => place !== number && usable(other);
  const same = index.cells.findIndex((other, place) => fits(other, place) && other.case === cell.case);
  return same >= 0
    ? same
    : Math.max(
        index.cells.findIndex((other, place) => fits(other, place) && other.run === cell.run),
        0,
      );
}
