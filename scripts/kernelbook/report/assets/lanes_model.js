// What the lanes show of one forward, without a pixel: rows of items on one clock, arrows, and the device's idle gaps.

// Ops that lead to no launch are "metadata only": views, transposes, shape arithmetic. Launches mark their ancestors.
function markLaunching(calls, launched) {
  const leads = new Set();
  for (const call of calls) {
    if (missing(call.correlation) || !launched.has(call.correlation)) continue;
    for (let at = call; at && !leads.has(at.position); at = missing(at.parent) ? null : calls[at.parent])
      leads.add(at.position);
  }
  return leads;
}

function callItem(call, leads, launched) {
  const launch = call.category === "runtime" && launched.has(call.correlation);
  const kind =
    call.category === "runtime"
      ? launch
        ? "launch"
        : "runtime"
      : call.category === "annotation" || call.category === "overhead"
        ? "note"
        : leads.has(call.position)
          ? "op"
          : "meta";
  return { kind, call, from: call.start, to: call.start + call.duration, label: call.name };
}

const threadLabel = (thread) => (thread ? `CPU, other thread ${thread} (inferred)` : "CPU");

// A row per thread and depth; the forward's own thread is number 0 and comes first.
function cpuRows(calls, launched) {
  // without a device nothing launches, and nothing stands out for it
  const leads = launched.size ? markLaunching(calls, launched) : new Set(calls.map((call) => call.position));
  const threads = [];
  for (const call of calls) {
    const rows = (threads[call.thread] ??= []);
    for (let depth = rows.length; depth <= call.depth; depth++)
      rows.push({ label: depth ? "" : threadLabel(call.thread), kind: "cpu", items: [] });
    rows[call.depth].items.push(callItem(call, leads, launched));
  }
  return threads.flat();
}

function deviceRows(activities) {
  const rows = new Map();
  for (const act of activities) {
    if (missing(act.start)) continue;
    const key = `${act.device ?? 0}/${act.stream ?? 0}`;
    if (!rows.has(key))
      rows.set(key, {
        label: `GPU ${act.device ?? 0} · stream ${act.stream ?? 0}`,
        kind: "gpu",
        items: [],
        device: act.device ?? 0,
      });
    rows
      .get(key)
      .items.push({ kind: "kernel", act, from: act.start, to: act.start + act.duration, label: act.what || act.short });
  }
  return [...rows.values()];
}

// The device's idle gaps between its first and its last activity: complements of the union over its streams.
function gapsOf(activities) {
  const spans = activities.filter((act) => !missing(act.start)).map((act) => [act.start, act.start + act.duration]);
  spans.sort((a, b) => a[0] - b[0]);
  const gaps = [];
  let end = null;
  for (const [from, to] of spans) {
    if (end !== null && from > end) gaps.push({ from: end, to: from });
    end = Math.max(end ?? to, to);
  }
  return gaps;
}

const FAN = 6; // arrows of one launch; a graph that launches more shows its first and its last

function arrowsOf(gpu, launches) {
  const fans = new Map([...launches.values()].map((launch) => [launch, []]));
  for (const row of gpu)
    for (const item of row.items)
      if (launches.has(item.act.correlation)) fans.get(launches.get(item.act.correlation)).push(item);
  return [...fans].flatMap(([launch, items]) =>
    (items.length > FAN ? [items[0], items.at(-1)] : items).map((item) => ({ launch, item })),
  );
}

function lanesModel(cell) {
  const launched = new Set(cell.activities.map((act) => act.correlation).filter((number) => !missing(number)));
  const cpu = cpuRows(cell.calls, launched);
  const gpu = deviceRows(cell.activities);
  const items = [...cpu, ...gpu].flatMap((row) => row.items);
  const launches = new Map();
  for (const row of cpu)
    for (const item of row.items) if (item.kind === "launch") launches.set(item.call.correlation, item);
  const arrows = arrowsOf(gpu, launches);
  const from = Math.min(0, ...items.map((item) => item.from));
  const to = Math.max(1, ...items.map((item) => item.to));
  const idle = gapsOf(cell.activities);
  [...cpu, ...gpu].forEach((row, place) => row.items.forEach((item) => (item.row = place)));
  const earlier = (cell.earlier ?? []).map(([start, end]) => ({ from: start, to: end }));
  return { rows: [...cpu, ...gpu], cpuCount: cpu.length, arrows, idle, earlier, from, to, items };
}

const lengthOf = (spans) => spans.reduce((sum, span) => sum + span.to - span.from, 0);

function lanesCaption(model) {
  const meta = model.items.filter((item) => item.kind === "meta").length;
  const idle = lengthOf(model.idle);
  const longest = model.idle.reduce((most, gap) => Math.max(most, gap.to - gap.from), 0);
  const earlier = lengthOf(model.earlier);
  const parts = [];
  if (earlier)
    parts.push(
      `Before this forward the GPU still runs earlier ones for ${duration(earlier)} (grey): its kernels wait in the queue.`,
    );
  if (model.rows.length > model.cpuCount) {
    parts.push(
      idle
        ? `The median forward of the first process. Under the profiler, the GPU idles between its first and last kernel for ${duration(idle)} in ${plural(model.idle.length, "gap")}, the longest ${duration(longest)}.`
        : "The median forward of the first process. Under the profiler, the GPU never idles between its first and last kernel.",
    );
  }
  if (meta) parts.push(`${plural(meta, "op")} launch nothing (dashed).`);
  return parts.join(" ");
}
