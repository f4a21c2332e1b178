// Draws the lanes of one forward for a window of time as SVG.

const ROW = 19;
const GAP = 30; // between CPU and GPU, where the arrows run
const LABEL = 14; // above the rows of another thread, where their label stands
const TOP = 22;
const CHAR = 5.9; // px, the width that one character of a label needs

function rowTop(model, place) {
  const threads = model.rows.slice(1, Math.min(place + 1, model.cpuCount)).filter((row) => row.label);
  return TOP + place * ROW + threads.length * LABEL + (place >= model.cpuCount ? GAP : 0);
}

const lanesHeight = (model) => rowTop(model, model.rows.length - 1) + ROW + 8;

function ruler(view, width, height) {
  const { ticks, step } = niceTicks(view.from, view.to, Math.max(2, width / 110));
  const scale = Math.max(step, Math.abs(view.to), Math.abs(view.from));
  return ticks.map((tick) => {
    const x = view.x(tick).toFixed(1);
    return [
      s("line", { class: "l-grid", x1: x, x2: x, y1: TOP - 5, y2: height }),
      s("text", { class: "l-tick", x: clamp(view.x(tick), 14, width - 22), y: 11 }, axisLabel(tick, scale)),
    ];
  });
}

function box(item, model, view, chosen) {
  const left = Math.max(view.x(item.from), -2);
  const right = Math.min(view.x(item.to), view.width + 2);
  if (right < 0 || left > view.width) return null;
  const width = Math.max(right - left, 0.6);
  const y = rowTop(model, item.row);
  const family = item.act?.family;
  const shape = family ? `l-box f-${family.key}` : `l-box l-${item.kind}`;
  const place = { x: left.toFixed(2), y, width: width.toFixed(2), height: ROW - 3 };
  const room = Math.floor((width - 7) / CHAR);
  return s(
    "g",
    { class: item === chosen ? "l-item on" : "l-item", "data-item": item.number },
    s("rect", { class: shape, rx: 1.5, ...place }),
    family?.hatched && s("rect", { class: "hatch", ...place }),
    room >= 3 &&
      s(
        "text",
        {
          class: family ? `l-text t-${family.key}` : `l-text l-${item.kind}-text`,
          x: (left + 4).toFixed(1),
          y: y + ROW / 2 - 1,
        },
        item.label.length > room ? `${item.label.slice(0, room - 1)}…` : item.label,
      ),
  );
}

function arrow({ launch, item }, model, view, chosen) {
  const x1 = view.x(launch.to);
  const x2 = view.x(item.from);
  if (Math.max(x1, x2) < -50 || Math.min(x1, x2) > view.width + 50) return null;
  const y1 = rowTop(model, launch.row) + ROW - 3;
  const y2 = rowTop(model, item.row) - 1;
  const on = chosen && (chosen === launch || chosen === item);
  const bend = Math.min(Math.max((y2 - y1) * 0.6, 12), 60);
  const d = `M${x1.toFixed(1)} ${y1}C${x1.toFixed(1)} ${y1 + bend} ${x2.toFixed(1)} ${y2 - bend} ${x2.toFixed(1)} ${y2}`;
  const head = `M${(x2 - 2.6).toFixed(1)} ${y2 - 4.5}L${x2.toFixed(1)} ${y2}L${(x2 + 2.6).toFixed(1)} ${y2 - 4.5}`;
  return s("g", { class: on ? "l-arrow on" : "l-arrow" }, s("path", { d }), s("path", { d: head }));
}

// A span of the device's rows: filled by a class, with a label where there is room for it.
function band(span, model, view, css, text) {
  const left = Math.max(view.x(span.from), 0);
  const width = Math.min(view.x(span.to), view.width) - left;
  if (width < 1.5) return null;
  const y = rowTop(model, model.cpuCount) - 2;
  const height = (model.rows.length - model.cpuCount) * ROW + 1;
  const place = { class: "l-tick", x: (left + width / 2).toFixed(1), y: y + height / 2 + 4 };
  return [
    css && s("rect", { class: css, x: left.toFixed(1), y, width: width.toFixed(1), height }),
    width > 6 * text.length + 8 && s("text", place, text),
  ];
}

function bands(model, view) {
  if (model.rows.length === model.cpuCount) return [];
  const idle = model.idle.map((gap) => band(gap, model, view, "l-idle", `idle ${duration(gap.to - gap.from)}`));
  const earlier = model.earlier.map((span) => band(span, model, view, "l-earlier", ""));
  const whole = { from: model.earlier[0]?.from ?? 0, to: model.earlier.at(-1)?.to ?? 0 };
  return [
    ...idle,
    ...earlier,
    band(whole, model, view, null, `earlier forwards, ${duration(lengthOf(model.earlier))}`),
  ];
}

function rowLabels(model) {
  return model.rows.map(
    (row, place) =>
      row.label &&
      (place || !model.cpuCount) &&
      s("text", { class: "l-row", x: 0, y: rowTop(model, place) - 5 }, row.label),
  );
}

function drawLanes(svg, model, view, chosen) {
  const height = lanesHeight(model);
  const on = chosen && model.arrows.filter((each) => each.launch === chosen || each.item === chosen);
  svg.setAttribute("height", height);
  svg.replaceChildren(
    s("g", {}, ruler(view, view.width, height)),
    s("g", {}, bands(model, view)),
    s(
      "g",
      {},
      model.arrows.map((each) => arrow(each, model, view, null) ?? []),
    ),
    s(
      "g",
      {},
      model.items.map((item) => box(item, model, view, chosen) ?? []),
    ),
    s("g", {}, on ? on.map((each) => arrow(each, model, view, chosen) ?? []) : []),
    s("g", {}, rowLabels(model)),
  );
}
