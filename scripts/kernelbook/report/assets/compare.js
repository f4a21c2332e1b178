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
  const row = (title, field, show) => ({ title, one: a[field], other: b[field], show });
  const rows = [
    row("device time", "device_us", duration),
    row("forward time, unprofiled", "forward_us", duration),
    row("CPU time, profiled", "cpu_us", duration),
    ...["kernels", "memcpys", "memsets"].map((field) => row(field, field, (count) => String(count ?? NA))),
  ];
  const quotient = ({ show, one, other }) =>
    show === duration && !refused && one && !missing(other) ? other / one : null;
  const columns = [
    column("", ({ title }) => title),
    column("A", ({ show, one }) => show(one), "r num"),
    column("B", ({ show, other }) => show(other), "r num"),
    figure("B to A", quotient, ratio, "", ({ show }) => (show === duration ? NA : "")),
  ];
  return makeTable("figures", "Figures", columns, rows);
}

// `words`: the small text behind the name.
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

const stateOf = ([one, other]) =>
  !one ? "only B" : !other ? "only A" : one.name === other.name ? "same" : "other kernel";
const stateClass = (pair) => stateOf(pair).replace(" kernel", "").replace(" ", "-");

function pairsTable(pairs, refused) {
  const quotient = ([one, other]) => (one?.usual && other && !refused ? other.usual / one.usual : null);
  return makeTable(
    "aligned-kernels",
    "Kernels, aligned",
    [
      column("", (pair) => h("span", { class: `state-${stateClass(pair)}` }, stateOf(pair))),
      column("A", ([one]) => kernelCell(one)),
      time("time", ([one]) => one?.usual, ""),
      column("B", ([, other]) => kernelCell(other)),
      time("time", ([, other]) => other?.usual, ""),
      figure("B to A", quotient, ratio, "", ""),
    ],
    pairs,
    (pair) => ({ class: `pair-${stateClass(pair)}` }),
  );
}

function opsTable(a, b) {
  const [left, right] = [opTotals(a), opTotals(b)];
  const rows = [...new Set([...left.keys(), ...right.keys()])].map((name) => ({
    name,
    one: left.get(name),
    other: right.get(name),
  }));
  // an op that one side lacks has a dash there; n/a is for what was not recorded
  const dash = (which) => (row) => (row[which] ? NA : "–");
  const count = (title, which, field) => figure(title, (row) => row[which]?.[field], String, "", dash(which));
  const columns = [
    column("op", opCell),
    count("calls A", "one", "count"),
    count("calls B", "other", "count"),
    time("self CPU A", ({ one }) => one?.self, dash("one")),
    time("self CPU B", ({ other }) => other?.self, dash("other")),
    count("kernels A", "one", "kernels"),
    count("kernels B", "other", "kernels"),
  ];
  const attributes = ({ one, other }) => ({ class: one && other ? null : "pair-only" });
  return makeTable("ops", "Ops of one forward", columns, rows, attributes);
}

const badge = (letter) => h("span", { class: `ab ${letter.toLowerCase()}` }, letter);

function verdictLine(pairs) {
  const count = (test) => pairs.filter(test).length;
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
      pairsTable(pairs, why.length),
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
