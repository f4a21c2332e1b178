// The data of the page: an index read at once, and a block for each case and run that is parsed when needed.

const index = JSON.parse($("#kb-index").textContent);
const families = index.families.map(([key, label, colour, hatched]) => ({ key, label, colour, hatched }));
const runs = new Map(index.runs.map((run) => [run.run, run]));

const names = new Map();
function nameOf(number) {
  if (missing(number)) return null;
  if (!names.has(number)) names.set(number, visible(index.names[number]));
  return names.get(number);
}

const columns = (kind, row) => Object.fromEntries(index.columns[kind].map((column, place) => [column, row[place]]));

function activityOf(row, position) {
  const act = columns("activity", row);
  const label = index.kernels[act.name] ? columns("label", index.kernels[act.name]) : {};
  return {
    ...act,
    ...label,
    ...(missing(act.converts) ? {} : { what: `converts ${nameOf(act.converts)}`, precision: "" }),
    position,
    id: act.name,
    name: nameOf(act.name),
    family: families[act.family],
    op: nameOf(act.op),
    path: nameOf(act.path),
    built_for: nameOf(act.built_for),
  };
}

function callOf(row, position) {
  const call = columns("call", row);
  return { ...call, position, name: nameOf(call.name), shapes: nameOf(call.shapes) };
}

const parsed = new Map();

// One case on one run: the index's figures with its activities, calls, samples, forwards and trace.
function cellOf(number) {
  if (!parsed.has(number)) {
    const block = JSON.parse($(`#kb-cell-${number}`).textContent);
    const activities = block.activities.map(activityOf);
    const total = activities.reduce((sum, act) => sum + act.usual, 0);
    for (const act of activities) act.part = total ? act.usual / total : 0;
    const cell = { ...index.cells[number], ...block, number, activities, total, calls: block.calls.map(callOf) };
    parsed.set(number, { ...cell, shown_us: cell.device_us ?? total });
  }
  return parsed.get(number);
}

const byName = new Map(index.cells.map((cell, number) => [JSON.stringify([cell.run, cell.case]), number]));
const numberOf = (run, name) => byName.get(JSON.stringify([run, name]));
const titleOf = (cell) => `${visible(cell.case)} on ${visible(cell.run)}`;

// What stops two figures from being compared, as kernelbook/cases/comparability.py decided beforehand; empty if nothing does.
function differences(one, other) {
  const reason = index.refusals[one.setting][other.setting];
  return missing(reason) ? [] : [index.reasons[reason]];
}
