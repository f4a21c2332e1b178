// Side by side: any two cases or runs, with a hash that others can open.

const usable = (cell) => cell.status === "ok" && runs.get(cell.run)?.kind !== "published";

const compareHash = (a, b) =>
  `#compare:${[a, b].map((cell) => `${encodeURIComponent(cell.run)}/${encodeURIComponent(cell.case)}`).join(":")}`;

function fromHash(hash) {
  const parts = hash
    .replace(/^#compare:/, "")
    .split(":")
    .map((part) => part.split("/").map(decodeURIComponent));
  return parts.length === 2 ? parts.map(([run, name]) => numberOf(run, name)) : [];
}

function figuresTable(a, b, refused) {
  const line = (label, one, other, show = duration) => ({
    cells: [
      label,
      h("td", { class: "r num" }, show(one)),
      h("td", { class: "r num" }, show(other)),
      h("td", { class: "r num" }, refused || missing(one) || missing(other) || !one ? NA : ratio(other / one)),
    ],
  });
  const plain = (value) => (missing(value) ? NA : String(value));
  const rows = [
    line("device time", a.device_us, b.device_us),
    line("forward time, unprofiled", a.forward_us, b.forward_us),
    line("CPU time, profiled", a.cpu_us, b.cpu_us),
  ];
  for (const [label, field] of [
    ["kernels", "kernels"],
    ["memcpys", "memcpys"],
    ["memsets", "memsets"],
  ]) {
    rows.push({
      cells: [
        label,
        h("td", { class: "r num" }, plain(a[field])),
        h("td", { class: "r num" }, plain(b[field])),
        h("td", {}, ""),
      ],
    });
  }
  return makeTable(
    "figures",
    "Figures",
    [
      ["", ""],
      ["A", "r"],
      ["B", "r"],
      ["B to A", "r"],
    ],
    rows,
  );
}

// `words`: what stands small behind the name.
function kernelCell(act, words = (one) => [one.what, one.precision]) {
  if (!act) return h("td", { class: "absent" }, "–");
  return h(
    "td",
    {},
    h("span", { class: `dot b-${act.family.key}` }),
    h("span", { class: "mono", "data-copy": act.name, title: act.name }, act.short),
    act.built_for && [
      " ",
      h("span", { class: "flag", title: `built for ${act.built_for}` }, act.built_for.split(" ")[0]),
    ],
    " ",
    h("small", {}, words(act).filter(Boolean).join(", ")),
  );
}

function pairRow([one, other], refused) {
  const state = !one ? "only B" : !other ? "only A" : one.name === other.name ? "same" : "other";
  const cells = [
    h(
      "td",
      {},
      h("span", { class: `state-${state.replace(" ", "-")}` }, { same: "same", other: "other kernel" }[state] ?? state),
    ),
    kernelCell(one),
    timeCell(one?.usual, one ? undefined : ""),
    kernelCell(other),
    timeCell(other?.usual, other ? undefined : ""),
    h("td", { class: "r num" }, one && other && !refused && one.usual ? ratio(other.usual / one.usual) : ""),
  ];
  return { class: `pair-${state.replace(" ", "-")}`, cells };
}

function opsTable(a, b) {
  const [left, right] = [opTotals(a), opTotals(b)];
  const rows = [...new Set([...left.keys(), ...right.keys()])].map((name) => {
    const [one, other] = [left.get(name), right.get(name)];
    const count = (each) => h("td", { class: "r num" }, each ? String(each.count ?? NA) : "–");
    return {
      class: !one || !other ? "pair-only" : null,
      cells: [
        opCell(name),
        count(one),
        count(other),
        timeCell(one?.self, one ? undefined : "–"),
        timeCell(other?.self, other ? undefined : "–"),
        count(one && { count: one.kernels }),
        count(other && { count: other.kernels }),
      ],
    };
  });
  return makeTable(
    "ops",
    "Ops of one forward",
    [
      ["op", ""],
      ["calls A", "r"],
      ["calls B", "r"],
      ["self CPU A", "r"],
      ["self CPU B", "r"],
      ["kernels A", "r"],
      ["kernels B", "r"],
    ],
    rows,
  );
}

const badge = (letter) => h("span", { class: `ab ${letter.toLowerCase()}` }, letter);

function verdictLine(pairs) {
  const count = (wanted) => pairs.filter(wanted).length;
  const same = count(([one, other]) => one && other && one.name === other.name);
  const otherNames = count(([one, other]) => one && other && one.name !== other.name);
  const [onlyA, onlyB] = [count(([, other]) => !other), count(([one]) => !one)];
  if (!otherNames && !onlyA && !onlyB) return `The same ${plural(same, "activity", "activities")}, in the same order.`;
  return `${same} the same, ${otherNames} paired with another kernel, ${onlyA} only in A, ${onlyB} only in B.`;
}

// The text of the comparison of the two that was made beforehand, in either direction.
function textOf(a, b) {
  const is = (cell, run, name) => cell.run === run && cell.case === name;
  const match = index.compared.find(
    ([runA, caseA, runB, caseB]) =>
      (is(a, runA, caseA) && is(b, runB, caseB)) || (is(b, runA, caseA) && is(a, runB, caseB)),
  );
  return match ? h("p", { class: "compared" }, visible(match[4])) : null;
}

function comparison(a, b) {
  const why = differences(a, b);
  const parts = [
    h("p", { class: "compare-title sr" }, `A is ${titleOf(a)}, B is ${titleOf(b)}.`),
    why.length ? h("p", { class: "refusal" }, `No ratio is given: ${why.join("; ")}.`) : null,
  ];
  if (a.activities.length && b.activities.length) {
    const scale = Math.max(a.total, b.total) || 1;
    const pairs = align(a.activities, b.activities);
    parts.push(
      h(
        "div",
        { class: "strip-rows" },
        stripRow(a, [badge("A"), ` ${visible(a.case)}`], scale),
        stripRow(b, [badge("B"), ` ${visible(b.case)}`], scale),
      ),
      h("p", { class: "words" }, verdictLine(pairs)),
      textOf(a, b),
      makeTable(
        "aligned-kernels",
        "Kernels, aligned",
        [
          ["", ""],
          ["A", ""],
          ["time", "r"],
          ["B", ""],
          ["time", "r"],
          ["B to A", "r"],
        ],
        pairs.map((each) => pairRow(each, why.length)),
      ),
    );
  } else {
    parts.push(
      h("p", { class: "note" }, "At least one side has no device activity, so there are no kernels to align."),
    );
  }
  parts.push(
    h(
      "div",
      { class: "two" },
      figuresTable(a, b, why.length),
      a.calls.length && b.calls.length ? opsTable(a, b) : null,
    ),
  );
  return parts.filter(Boolean);
}

function showComparison(remember = true) {
  const [a, b] = ["#compare-a", "#compare-b"].map((id) => cellOf(Number($(id).value)));
  $("#compare-body").replaceChildren(...comparison(a, b));
  if (remember) history.replaceState(null, "", compareHash(a, b));
}

function compareWith(numberA, numberB) {
  $("#compare-a").value = numberA;
  $("#compare-b").value = numberB;
  showComparison();
  $("#compare").scrollIntoView({ behavior: "instant" });
}

function firstPair(cells) {
  const drawn = cells.filter(([cell]) => cell.drawn);
  const find = (name) => drawn.find(([cell]) => cell.case === name)?.[1];
  const listed = drawn.length > 1 ? drawn : cells;
  const [slow, fast] = index.headline.map(find);
  const a = fast ?? listed.find(([, number]) => number !== slow)[1];
  return [a, slow ?? listed.find(([, number]) => number !== a)[1]];
}

// The first comparison, made where a reader comes near it; what is below it and in sight stays where it is.
function firstComparison() {
  const section = $("#compare");
  const kept = section.getBoundingClientRect().top < 0 ? section.nextElementSibling : null;
  const before = kept?.getBoundingClientRect().top;
  showComparison(false);
  if (kept) scrollBy({ top: kept.getBoundingClientRect().top - before, behavior: "instant" });
}

// A link to what stands below the comparison would miss it if that grew on the way.
function jumpBelow(build) {
  const aim = document.getElementById(location.hash.slice(1));
  const section = $("#compare");
  if (!aim || section.contains(aim)) return;
  const below = section.compareDocumentPosition(aim) & Node.DOCUMENT_POSITION_FOLLOWING;
  if (below && build()) aim.scrollIntoView();
}

function startCompare() {
  const cells = index.cells.map((cell, number) => [cell, number]).filter(([cell]) => usable(cell));
  if (cells.length < 2) return;
  const byRun = Map.groupBy
    ? Map.groupBy(cells, ([cell]) => cell.run)
    : new Map([...runs.keys()].map((run) => [run, cells.filter(([cell]) => cell.run === run)]));
  for (const id of ["#compare-a", "#compare-b"]) {
    for (const [run, listed] of byRun) {
      if (listed.length)
        $(id).append(
          h(
            "optgroup",
            { label: visible(run) },
            listed.map(([cell, number]) =>
              h("option", { value: number }, `${clip(visible(cell.case), 60)}  (${clip(visible(run), 30)})`),
            ),
          ),
        );
    }
    $(id).addEventListener("change", () => showComparison());
  }
  const [a, b] = firstPair(cells);
  $("#compare-a").value = a;
  $("#compare-b").value = b;
  $("#compare-swap").addEventListener("click", () => compareWith($("#compare-b").value, $("#compare-a").value));
  $("#compare-link").addEventListener("click", (event) => {
    const [a, b] = ["#compare-a", "#compare-b"].map((id) => index.cells[Number($(id).value)]);
    copy(location.href.split("#")[0] + compareHash(a, b), "Link", event.target);
  });
  $("#compare-tools").hidden = false;
  const build = () => {
    lazy.disconnect();
    if ($(".compare-title")) return false;
    firstComparison();
    return true;
  };
  const lazy = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && build(), {
    rootMargin: "400px",
  });
  lazy.observe($("#compare"));
  addEventListener("hashchange", () => jumpBelow(build));
  jumpBelow(build);
}

function openComparison(hash) {
  const [a, b] = fromHash(hash);
  if (missing(a) || missing(b)) return announce("This link names a case or a run that this edition does not have.");
  compareWith(a, b);
}
