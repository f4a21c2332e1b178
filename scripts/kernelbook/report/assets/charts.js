// What every chart offers: its picture as an SVG file, its data as CSV; and the sample under the pointer.

const FILE_STYLE = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "vector-effect",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
];

// A copy of a drawing in which each node carries the style that the page's sheets give it.
function withStyles(svg) {
  const twin = svg.cloneNode(true);
  const [from, to] = [
    [svg, ...svg.querySelectorAll("*")],
    [twin, ...twin.querySelectorAll("*")],
  ];
  from.forEach((node, place) => {
    const style = getComputedStyle(node);
    for (const name of FILE_STYLE) to[place].style.setProperty(name, style.getPropertyValue(name));
  });
  return twin;
}

// Everything that is drawn or written in a node, at its place on the screen, as an SVG file with its data inside.
function pictureOf(node, title, lines) {
  const frame = node.getBoundingClientRect();
  const [width, height] = [frame.width + 24, frame.height + 24].map(Math.ceil);
  const at = (box) => ({ x: (box.left - frame.left + 12).toFixed(1), y: (box.top - frame.top + 12).toFixed(1) });
  const drawings = [...(node.matches("svg") ? [node] : node.querySelectorAll("svg"))].map((svg) => {
    const box = svg.getBoundingClientRect();
    const size = { ...at(box), width: box.width.toFixed(1), height: box.height.toFixed(1) };
    return fill(withStyles(svg), size, []);
  });
  const words = [];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    if (!text.data.trim() || text.parentElement.closest("svg, button, .sr")) continue;
    const range = document.createRange();
    range.selectNode(text);
    const [box, style] = [range.getBoundingClientRect(), getComputedStyle(text.parentElement)];
    const font = { "font-size": style.fontSize, "font-family": "Helvetica, Arial, sans-serif", fill: style.color };
    const place = { ...at(box), "dominant-baseline": "hanging" };
    if (box.height < 40) words.push(s("text", { ...place, ...font }, text.data.replace(/\s+/g, " ").trim()));
  }
  const root = s(
    "svg",
    { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height },
    s("title", {}, title),
    s("metadata", {}, toCsv(lines)),
    s("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor }),
    withStyles($("#kb-hatch").closest("svg")),
    drawings,
    words,
  );
  return new XMLSerializer().serializeToString(root);
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
  const row = (cell, act) => [
    ...[cell.run, cell.case, act.position, act.category, act.name, act.family.label],
    ...[act.start ?? "", act.usual, act.path ?? ""],
  ];
  return [head, ...cells.flatMap((cell) => cell.activities.map((act) => row(cell, act).map(String)))];
}

function sampleLines(cells) {
  const rows = cells.flatMap((cell) =>
    cell.samples.flatMap(([process, values]) =>
      values.map((value, place) => [cell.run, cell.case, process, place + 1, value].map(String)),
    ),
  );
  return [["run", "case", "process", "sample", "forward_time_us"], ...rows];
}

function laneLines(lanes) {
  const row = ({ kind, act, call, from, to }) => [kind, act?.name ?? call.name, String(from), String(to - from)];
  return [["kind", "name", "start_us", "duration_us"], ...lanes.model.items.map(row)];
}

// The cells of a chart, and what its data are called in labels and file names.
const cellsIn = (figure) =>
  [...new Set($$("svg[data-cell]", figure).map((svg) => Number(svg.dataset.cell)))].map(cellOf);

function chartTools(figure) {
  const name = figure.dataset.name;
  const what = figure.matches(".strips") ? `the strips of ${name.replace(/^strips-/, "")}` : name;
  const lines = () => (figure.matches(".strips") ? stripLines : sampleLines)(cellsIn(figure));
  const picture = () =>
    offer(`${fileName(name)}.svg`, "image/svg+xml", pictureOf($(".strip-rows", figure), what, lines()));
  const save = (label, action) =>
    button(label, action, { class: "quiet", "aria-label": `Download ${what} as ${label}` });
  const tools = $(".fig-tools", figure);
  if (figure.matches(".strips:not(.versions)") && $$(".strip-bar", figure).length > 1) tools.append(ownScale(figure));
  if (figure.matches(".roofline")) tools.append(...zoomTools(figure));
  tools.append(save("SVG", picture));
  if (cellsIn(figure).length)
    tools.append(save("CSV", () => offer(`${fileName(name)}.csv`, "text/csv", toCsv(lines()))));
}

function ownScale(figure) {
  const toggle = button(
    "Each to its own width",
    () => {
      const on = figure.classList.toggle("own-scale");
      toggle.setAttribute("aria-pressed", String(on));
      toggle.textContent = on ? "Each to its own width ✓" : "Each to its own width";
    },
    { class: "quiet", "aria-pressed": "false" },
  );
  return toggle;
}

// A chart from closer by: a part of it is dragged over, or its middle taken by a button. All parts are 0 to 1.
const WHOLE = { left: 0, right: 1, top: 0, bottom: 1 };

function zoomTools(figure) {
  const plot = $(".plot", figure);
  const words = $$(".y-tick, .over, .axis-line span", figure).map((node) => ({
    node,
    left: node.style.left && parseFloat(node.style.left) / 100,
    top: node.style.top && parseFloat(node.style.top) / 100,
  }));
  let view = WHOLE;
  const look = (next) => {
    view = next;
    const [width, height] = [view.right - view.left, view.bottom - view.top];
    plot.setAttribute("viewBox", [1000 * view.left, 100 * view.top, 1000 * width, 100 * height].join(" "));
    for (const { node, left, top } of words) {
      const end = node.matches(".end"); // stays at the right edge
      const [x, y] = [end || left === "" ? 1 : (left - view.left) / width, top === "" ? 1 : (top - view.top) / height];
      if (left !== "") node.style.left = `${100 * x}%`;
      if (top !== "") node.style.top = `${100 * y}%`;
      node.hidden = x < 0 || x > 1 || y < 0 || y > 1.1;
    }
  };
  const within = (from, to) => {
    const at = (part, low, high) => low + part * (high - low);
    const [xs, ys] = [[from.x, to.x].sort(order), [from.y, to.y].sort(order)];
    const [left, right] = xs.map((part) => at(part, view.left, view.right));
    const [top, bottom] = ys.map((part) => at(part, view.top, view.bottom));
    look({ left, right, top, bottom });
  };
  dragOver(plot, within);
  const middle = () => within({ x: 0.25, y: 0.25 }, { x: 0.75, y: 0.75 });
  return [button("Zoom in", middle, { class: "quiet" }), button("Whole", () => look(WHOLE), { class: "quiet" })];
}

// done(from, to): the corners of a rectangle that the pointer drew over a plot, as parts of it.
function dragOver(plot, done) {
  let from = null;
  const at = ({ clientX, clientY }) => {
    const box = plot.getBoundingClientRect();
    return { x: clamp((clientX - box.left) / box.width, 0, 1), y: clamp((clientY - box.top) / box.height, 0, 1) };
  };
  const frame = h("div", { class: "zoom-frame", hidden: true });
  plot.after(frame);
  plot.addEventListener("dragstart", (event) => event.preventDefault());
  plot.addEventListener("pointerdown", (event) => (from = event.pointerType === "touch" ? null : at(event)));
  addEventListener("pointermove", (event) => {
    if (!from) return;
    const to = at(event);
    frame.hidden = false;
    frame.style.inset = [
      Math.min(from.y, to.y),
      1 - Math.max(from.x, to.x),
      1 - Math.max(from.y, to.y),
      Math.min(from.x, to.x),
    ]
      .map((part) => `${100 * part}%`)
      .join(" ");
  });
  addEventListener("pointerup", (event) => {
    const [start, end] = [from, at(event)];
    from = null;
    frame.hidden = true;
    if (start && Math.abs(start.x - end.x) > 0.02 && Math.abs(start.y - end.y) > 0.02) done(start, end);
  });
}

// The sample nearest to the pointer.
function sampleAt(plot, event) {
  const box = plot.getBoundingClientRect();
  const [median, reach] = [Number(plot.dataset.median), Number(plot.dataset.reach)];
  const value = median * (1 + reach * ((2 * (event.clientX - box.left)) / box.width - 1));
  const samples = cellOf(Number(plot.dataset.cell)).samples.flatMap(([process, values]) =>
    values.map((time, place) => ({ time, process, place })),
  );
  return samples.reduce((best, each) => (Math.abs(each.time - value) < Math.abs(best.time - value) ? each : best));
}

function enhanceSamples(plot) {
  plot.addEventListener("pointermove", (event) => {
    const { time, process, place } = sampleAt(plot, event);
    const spot = { left: event.clientX, top: plot.getBoundingClientRect().top, width: 0, bottom: event.clientY };
    showTip(spot, [h("h4", {}, duration(time)), h("p", {}, `process ${process}, sample ${place + 1}`)]);
  });
  plot.addEventListener("pointerleave", hideTip);
}
