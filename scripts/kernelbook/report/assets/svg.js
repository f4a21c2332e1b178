// Figures as SVG files of their own, with their colours written out and their data inside.

const FILE_STYLE = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
];

// A copy of a drawn SVG in which each node carries the style that the page's sheets give it.
function withStyles(svg) {
  const twin = svg.cloneNode(true);
  const [from, to] = [
    [svg, ...svg.querySelectorAll("*")],
    [twin, ...twin.querySelectorAll("*")],
  ];
  from.forEach((node, place) => {
    const style = getComputedStyle(node);
    for (const name of FILE_STYLE)
      if (!to[place].classList?.contains("hatch")) to[place].style.setProperty(name, style.getPropertyValue(name));
    to[place].removeAttribute("class");
  });
  for (const hatch of twin.querySelectorAll(".hatch")) hatch.remove();
  return twin;
}

function standalone(svg, width, title, lines, labels = []) {
  const paper = getComputedStyle(document.body).backgroundColor;
  const ink = getComputedStyle(document.body).color;
  const side = labels.length ? 260 : 0;
  const mount = h("div", { class: "offstage" }, svg);
  document.body.append(mount);
  const drawn = withStyles(svg);
  mount.remove();
  const height = Number(svg.getAttribute("height"));
  drawn.setAttribute("x", side + 12);
  drawn.setAttribute("y", 12);
  drawn.setAttribute("width", width);
  const text = labels.map((label, place) =>
    s(
      "text",
      {
        x: side,
        y: 12 + 18 + place * SPREAD_ROW + SPREAD_ROW / 2 + 4,
        "text-anchor": "end",
        "font-size": 11,
        "font-family": "sans-serif",
        fill: ink,
      },
      clip(label, 44),
    ),
  );
  const root = s(
    "svg",
    { xmlns: SVG, viewBox: `0 0 ${width + side + 24} ${height + 24}`, width: width + side + 24, height: height + 24 },
    s("title", {}, title),
    s("metadata", {}, toCsv(lines)),
    s("rect", { width: "100%", height: "100%", fill: paper }),
    text,
    drawn,
  );
  return new XMLSerializer().serializeToString(root);
}

function lanesSvg(lanes) {
  const { cell, svg } = lanes;
  const lines = [
    ["kind", "name", "start_us", "duration_us"],
    ...lanes.model.items.map((item) => [
      item.kind,
      item.act?.name ?? item.call.name,
      String(item.from),
      String(item.to - item.from),
    ]),
  ];
  const twin = withStyles(svg);
  const paper = getComputedStyle(document.body).backgroundColor;
  const [width, height] = [svg.clientWidth, lanesHeight(lanes.model)];
  twin.setAttribute("width", width);
  const root = s(
    "svg",
    { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height },
    s("title", {}, titleOf(cell)),
    s("metadata", {}, toCsv(lines)),
    s("rect", { width: "100%", height: "100%", fill: paper }),
    twin,
  );
  return new XMLSerializer().serializeToString(root);
}

// The strips of several cells, drawn afresh at a fixed width.
function stripsSvg(cells, title) {
  const [left, wide, row, room] = [270, 760, 30, 230];
  const scale = Math.max(...cells.map((cell) => cell.total)) || 1;
  const font = { "font-family": "Helvetica, Arial, sans-serif", "font-size": 12 };
  const drawn = cells.map((cell, place) => {
    const y = 16 + place * row;
    let at = left;
    const boxes = cell.activities.map((act) => {
      const width = (act.usual / scale) * wide;
      const made = s(
        "rect",
        {
          x: at.toFixed(2),
          y,
          width: Math.max(width, 0.2).toFixed(2),
          height: row - 8,
          fill: act.family.colour,
          stroke: "#ffffff",
          "stroke-width": width > 3 ? 0.8 : 0,
        },
        s("title", {}, `${act.name}: ${duration(act.usual)}`),
      );
      at += width;
      return made;
    });
    return [
      s("text", { ...font, x: left - 8, y: y + 15, "text-anchor": "end", fill: "#1c2027" }, clip(titleOf(cell), 40)),
      boxes,
      s("text", { ...font, x: at + 8, y: y + 15, fill: "#1c2027" }, `${duration(cell.shown_us)}, ${counts(cell)}`),
    ];
  });
  const used = families.filter((family) => cells.some((cell) => cell.activities.some((act) => act.family === family)));
  const below = 16 + cells.length * row + 14;
  const legend = used.map((family, place) => [
    s("rect", { x: left + place * 110, y: below, width: 18, height: 10, fill: family.colour }),
    s("text", { ...font, x: left + place * 110 + 24, y: below + 9.5, fill: "#565d68" }, family.label),
  ]);
  const [width, height] = [Math.max(left + wide + room, left + used.length * 110), below + 26];
  const root = s(
    "svg",
    { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height },
    s("title", {}, title),
    s("metadata", {}, toCsv(stripLines(cells))),
    s("rect", { width: "100%", height: "100%", fill: "#ffffff" }),
    drawn,
    legend,
  );
  return new XMLSerializer().serializeToString(root);
}
