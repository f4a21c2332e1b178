// Forward times one by one: every unprofiled sample as a dot around its own median, with the 5 to 95 % interval.

const SPREAD_ROW = 26;
const SPREAD_TOP = 18; // the axis
const LABEL_ROOM = 17; // above each row of a narrow figure, whose labels do not fit beside it
const LETTER = 6.6; // px at most that a letter of 11 px takes on average

// A fixed scatter, so that the same data draws the same picture.
const scatter = (number) => (((number * 2654435761) >>> 0) / 2 ** 32 - 0.5) * 12;

function spreadOf(cell) {
  const values = cell.samples.flatMap(([, listed]) => listed);
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [0.05, 0.95].map((at) => quantile(sorted, at));
  const middle = (listed) =>
    quantile(
      [...listed].sort((a, b) => a - b),
      0.5,
    );
  // as in the tables: the median of the processes' medians, beside the interval of all samples together
  const median = middle(cell.samples.filter(([, listed]) => listed.length).map(([, listed]) => middle(listed)));
  const first = cell.samples.map(([, listed]) => listed[0]);
  return {
    cell,
    values,
    median,
    low,
    high,
    first,
    slowFirst: first.some((value) => value > high * 1.2 && value > median * 1.5),
  };
}

function spreadLimits(spreads) {
  // four times the usual interval: one restless case must not flatten all the others
  const reaches = spreads
    .map(({ low, high, median }) => Math.max(high / median - 1, 1 - low / median))
    .sort((a, b) => a - b);
  const reach = clamp(quantile(reaches, 0.5) * 4, 0.03, 1);
  return { from: Math.max(1 - reach, 0), to: 1 + reach };
}

function spreadDots(spread, x, y, width) {
  const { cell, median } = spread;
  let number = 0;
  return cell.samples.flatMap(([process, listed]) =>
    listed.map((value, place) => {
      const at = x(value / median);
      const out = at < 0 || at > width;
      const cy = y + SPREAD_ROW / 2 + scatter(++number);
      if (out) {
        const edge = at < 0 ? 4 : width - 4;
        const way = at < 0 ? -4 : 4;
        return s(
          "path",
          {
            class: place ? "d-out" : "d-out d-first",
            d: `M${edge - way} ${cy - 3.5}L${edge} ${cy}L${edge - way} ${cy + 3.5}`,
          },
          s("title", {}, `${duration(value)}, process ${process}, sample ${place + 1}: off the scale`),
        );
      }
      return s(
        "circle",
        { class: place ? "d-dot" : "d-dot d-first", cx: at.toFixed(1), cy: cy.toFixed(1), r: place ? 2 : 3.2 },
        s("title", {}, `${duration(value)}, process ${process}, sample ${place + 1}`),
      );
    }),
  );
}

function spreadRow(spread, limits, y, width) {
  const x = (part) => ((part - limits.from) / (limits.to - limits.from)) * width;
  const [low, high] = [clamp(x(spread.low / spread.median), 0, width), clamp(x(spread.high / spread.median), 0, width)];
  return [
    s("line", { class: "l-grid", x1: 0, x2: width, y1: y + SPREAD_ROW, y2: y + SPREAD_ROW }),
    s("rect", {
      class: "d-range",
      x: low.toFixed(1),
      y: y + 5,
      width: Math.max(high - low, 1).toFixed(1),
      height: SPREAD_ROW - 10,
    }),
    spreadDots(spread, x, y, width),
    s("line", { class: "d-median", x1: x(1), x2: x(1), y1: y + 3, y2: y + SPREAD_ROW - 3 }),
  ];
}

// A tick's words, never past an end of the axis.
function spreadTick(tick, at, width) {
  const words = tick === 0 ? "median" : `${tick > 0 ? "+" : ""}${tick} %`;
  const half = (words.length * LETTER) / 2;
  const anchor = at < half ? "start" : at > width - half ? "end" : "middle";
  const x = anchor === "middle" ? at : anchor === "start" ? 0 : width;
  return s("text", { class: "l-tick", x, y: 10, style: `text-anchor: ${anchor}` }, words);
}

// labels: one a row, drawn above it; none where they stand beside the figure.
function spreadSvg(spreads, width, labels = []) {
  const limits = spreadLimits(spreads);
  const room = labels.length ? LABEL_ROOM : 0;
  const height = SPREAD_TOP + spreads.length * (SPREAD_ROW + room) + 2;
  const rowAt = (place) => SPREAD_TOP + place * (SPREAD_ROW + room);
  const { ticks } = niceTicks((limits.from - 1) * 100, (limits.to - 1) * 100, Math.max(3, width / 120));
  const x = (percentage) => ((1 + percentage / 100 - limits.from) / (limits.to - limits.from)) * width;
  return s(
    "svg",
    {
      class: "spread",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Forward times around their medians; the table below gives the figures",
    },
    ticks.map((tick) => [
      s("line", { class: "l-grid", x1: x(tick), x2: x(tick), y1: 14, y2: height }),
      spreadTick(tick, x(tick), width),
    ]),
    labels.map((label, place) =>
      s("text", { class: "l-row", x: 0, y: rowAt(place) + 13 }, clip(label, Math.floor(width / LETTER))),
    ),
    spreads.map((spread, place) => spreadRow(spread, limits, rowAt(place) + room, width)),
  );
}

function spreadFigure(cells, name, labelOf) {
  const spreads = cells.map(spreadOf).filter(Boolean);
  if (!spreads.length) return h("p", { class: "note" }, "No unprofiled samples were kept.");
  const labels = h(
    "ul",
    { class: "spread-labels" },
    spreads.map(({ cell }) => h("li", {}, labelOf(cell))),
  );
  const space = h("div", { class: "spread-plot" });
  const draw = () => {
    if (!space.clientWidth) return;
    const beside = getComputedStyle(labels).display !== "none";
    const above = beside ? [] : [...labels.children].map((label) => label.textContent);
    space.replaceChildren(spreadSvg(spreads, Math.floor(space.clientWidth), above));
  };
  new ResizeObserver(draw).observe(space);
  const rows = spreads.map((each) => ({
    cells: [
      labelOf(each.cell),
      String(each.values.length),
      timeCell(each.median),
      timeCell(each.low),
      timeCell(each.high),
      timeCell(Math.min(...each.values)),
      timeCell(Math.max(...each.values)),
      timeCell(each.first[0], duration(each.first[0]) + (each.slowFirst ? ", slow" : "")),
    ],
  }));
  const heads = [
    ["case", ""],
    ["samples", "r num"],
    ["median", "r"],
    ["5 %", "r"],
    ["95 %", "r"],
    ["least", "r"],
    ["most", "r"],
    ["first", "r"],
  ];
  const lines = [
    ["run", "case", "process", "sample", "forward_time_us"],
    ...cells.flatMap((cell) =>
      cell.samples.flatMap(([process, listed]) =>
        listed.map((value, place) => [cell.run, cell.case, process, place + 1, value].map(String)),
      ),
    ),
  ];
  return h(
    "figure",
    { class: "spread-figure" },
    h("div", { class: "spread-grid" }, labels, space),
    h(
      "figcaption",
      { class: "note" },
      "Each dot is one forward, timed without a profiler, as its distance from the median. Band: 5 to 95 %. Ring: the first sample. Chevron: off the scale. ",
      button(
        "SVG",
        () =>
          offer(
            fileName("forward-times", name) + ".svg",
            "image/svg+xml",
            standalone(
              spreadSvg(spreads, 900),
              900,
              "Forward times",
              lines,
              spreads.map(({ cell }) => visible(labelText(cell))),
            ),
          ),
        { class: "quiet" },
      ),
      " ",
      button("CSV", () => offer(fileName("forward-times", name) + ".csv", "text/csv", toCsv(lines)), {
        class: "quiet",
      }),
    ),
    makeTable(`forward-times-${name}`, "Forward times", heads, rows),
  );
}

const labelText = (cell) => `${cell.case} on ${cell.run}`;
