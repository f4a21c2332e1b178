// The lanes in the page: zoom, pan, pick an item by pointer or keys. The page's own scrolling is left alone.

const PAPER_WIDTH = 700; // px of A4 within its margins
let paperWidth = null; // while the page is printed: no script runs once it has the size of the paper

function drawLanesAgain(width) {
  paperWidth = width;
  for (const svg of $$("svg.lanes")) svg.drawAgain?.();
}

function callDetails(item, cell) {
  const { call } = item;
  const kind = {
    op: "op",
    meta: "op that launches nothing",
    runtime: "runtime call",
    launch: "launch",
    note: call.category === "overhead" ? "overhead that CUPTI reports" : "annotation",
  }[item.kind];
  return [
    h("h4", {}, call.name),
    h("p", {}, call.thread ? `${kind}, on another thread while the range was open (inferred)` : kind),
    h(
      "dl",
      {},
      pair("CPU time", duration(call.duration)),
      pair("self", missing(call.self) ? null : duration(call.self)),
      pair("starts at", duration(call.start)),
      pair("kernels, self", call.kernels),
      pair(
        "device time, self",
        call.device_time
          ? `${duration(call.device_time)}, ${share(cell.total ? call.device_time / cell.total : null)}`
          : null,
      ),
      pair("input shapes", call.shapes),
    ),
  ];
}

class Lanes {
  constructor(cell) {
    this.cell = cell;
    this.model = lanesModel(cell);
    this.model.items.forEach((item, number) => (item.number = number));
    this.chosen = null;
    this.svg = s("svg", {
      class: "lanes",
      width: "100%",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "time line",
      "aria-label": `${titleOf(cell)}: CPU calls above GPU streams. Arrow keys pick, plus and minus zoom, shift and arrows pan, 0 fits.`,
    });
    this.panel = h(
      "div",
      { class: "lanes-panel" },
      h("p", { class: "note" }, "Pick a call or a kernel to see its details."),
    );
    this.view = { from: this.model.from, to: this.model.to };
    this.listen();
  }

  node() {
    const note = h("p", { class: "note" }, lanesCaption(this.model));
    const tools = h(
      "div",
      { class: "tools lanes-tools" },
      button("−", () => this.zoom(1.6), { "aria-label": "Zoom out" }),
      button("+", () => this.zoom(1 / 1.6), { "aria-label": "Zoom in" }),
      button("Fit", () => this.fit()),
      this.model.rows.length > this.model.cpuCount &&
        button("CPU part", () => this.focusOn((item) => item.call && item.kind !== "note"), {
          "aria-label": "CPU part: zoom to the CPU calls",
        }),
      button(
        "SVG",
        () =>
          offer(
            `${fileName("lanes", this.cell.run, this.cell.case)}.svg`,
            "image/svg+xml",
            pictureOf(this.svg, titleOf(this.cell), laneLines(this)),
          ),
        { "aria-label": "Download the lanes as SVG" },
      ),
      h("span", { class: "note drag-hint" }, "Drag to pan, ctrl and wheel to zoom."),
    );
    const figure = h("figure", { class: "lanes-figure" }, tools, this.svg, this.panel, h("figcaption", {}, note));
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.svg.drawAgain = () => this.draw();
    return figure;
  }

  draw() {
    const width = paperWidth ?? this.svg.clientWidth;
    if (!width) return;
    const { from, to } = this.view;
    drawLanes(
      this.svg,
      this.model,
      { from, to, width, x: (time) => ((time - from) / (to - from)) * width },
      this.chosen,
    );
  }

  timeAt(clientX) {
    const box = this.svg.getBoundingClientRect();
    return this.view.from + ((clientX - box.left) / box.width) * (this.view.to - this.view.from);
  }

  show(from, to) {
    const whole = this.model.to - this.model.from;
    const length = clamp(to - from, 0.05, whole * 1.04);
    const start = clamp(from, this.model.from - whole * 0.02, this.model.to + whole * 0.02 - length);
    this.view = { from: start, to: start + length };
    this.draw();
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    this.show(at - (at - this.view.from) * factor, at + (this.view.to - at) * factor);
  }

  pan(part) {
    const by = (this.view.to - this.view.from) * part;
    this.show(this.view.from + by, this.view.to + by);
  }

  fit() {
    this.show(this.model.from, this.model.to);
  }

  focusOn(test) {
    const items = this.model.items.filter(test);
    if (!items.length) return;
    const from = Math.min(...items.map((item) => item.from));
    const to = Math.max(...items.map((item) => item.to));
    this.show(from - (to - from) * 0.02, to + (to - from) * 0.02);
  }

  pick(item) {
    this.chosen = item;
    this.draw();
    if (!item) return;
    const content = item.act ? activityDetails(item.act, this.cell, true) : callDetails(item, this.cell);
    this.panel.replaceChildren(...content.flat());
    announce(`${item.label}, ${duration(item.to - item.from)}`);
  }

  step(key) {
    const now = this.chosen ?? this.model.items[0];
    if (!now) return;
    const row = this.model.rows[now.row].items;
    const along = row.indexOf(now);
    const middle = (now.from + now.to) / 2;
    const nearest = (items) =>
      items.reduce((best, item) =>
        Math.abs((item.from + item.to) / 2 - middle) < Math.abs((best.from + best.to) / 2 - middle) ? item : best,
      );
    const other = this.model.rows[now.row + (key === "ArrowDown" ? 1 : -1)]?.items;
    const next =
      key === "ArrowRight"
        ? row[along + 1]
        : key === "ArrowLeft"
          ? row[along - 1]
          : other?.length
            ? nearest(other)
            : null;
    const item = this.chosen ? next : now;
    if (!item) return;
    if (item.to < this.view.from || item.from > this.view.to)
      this.show(item.from - (this.view.to - this.view.from) / 2, item.from + (this.view.to - this.view.from) / 2);
    this.pick(item);
  }

  key(event) {
    const acts = {
      "+": () => this.zoom(1 / 1.6),
      "=": () => this.zoom(1 / 1.6),
      "-": () => this.zoom(1.6),
      0: () => this.fit(),
      Escape: () => this.pick(null),
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.shiftKey && event.key === "ArrowLeft") this.pan(-0.2);
    else if (event.shiftKey && event.key === "ArrowRight") this.pan(0.2);
    else if (event.key.startsWith("Arrow")) this.step(event.key);
    else if (acts[event.key]) acts[event.key]();
    else return;
    event.preventDefault();
  }

  listen() {
    let held = null;
    const { svg } = this;
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.004), this.timeAt(event.clientX));
      },
      { passive: false },
    );
    svg.addEventListener("pointerdown", (event) => {
      held = { x: event.clientX, view: this.view, moved: false };
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      const by = event.clientX - held.x;
      if (Math.abs(by) > 3) held.moved = true;
      if (!held.moved) return;
      const time = (by / svg.clientWidth) * (held.view.to - held.view.from);
      this.show(held.view.from - time, held.view.to - time);
    });
    svg.addEventListener("pointerup", (event) => {
      const clicked = held && !held.moved;
      held = null;
      if (!clicked) return;
      const under = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-item]");
      this.pick(under ? this.model.items[Number(under.dataset.item)] : null);
    });
    svg.addEventListener("pointercancel", () => (held = null));
    svg.addEventListener("dblclick", () => this.chosen && this.focusOn((item) => item === this.chosen));
  }
}
