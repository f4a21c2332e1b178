// Aligns two sequences of kernels just as kernelbook/judge/alignment.py does (Needleman and Wunsch): equal names cost next to
// nothing, one of the same family less than a removal and an addition, unless their tensors' sizes are far apart; another
// family stands for it only where both are pointwise and take several tensors of the same sizes. Costs in hundredths.

const GAP_COST = 75;
const FULL_CELLS = 1e6; // beyond, only a band around the diagonal is looked at
const BAND = 200;
const ALIKE = new Set(["gemm", "attention", "softmax"]); // families whose kernels do one thing, whatever their names

const POINTWISE = new Set(["elementwise", "fill"]);

// What decides whether two activities may stand for each other; sizes: elements of the op's tensors, largest first.
function alignKey(act) {
  const path = (act.path ?? "").split(" > ").filter((op) => /^\w+::\w/.test(op));
  return { ...act, kind: act.family.key, ops: act.ops ?? "", path: path.join(" > "), sizes: act.sizes ?? [] };
}

function costOf(a, b) {
  if (a.category !== b.category) return Infinity;
  const sized = a.sizes.length > 0 && b.sizes.length > 0;
  const equal = sized && String(a.sizes) === String(b.sizes);
  if (a.name === b.name) return 5 * (a.path !== b.path) + 10 * (sized && !equal);
  const masks = POINTWISE.has(a.kind) && POINTWISE.has(b.kind) && equal && a.sizes.length > 1;
  if (a.kind !== b.kind && !masks) return Infinity;
  let cost = a.kind === b.kind && (ALIKE.has(a.kind) || a.ops === b.ops) ? 80 : 100;
  if (a.path && a.path === b.path) cost -= 10;
  if (equal) return cost - (a.sizes.length > 1 ? 30 : 10);
  const far = sized && Math.max(a.sizes[0], b.sizes[0]) >= 4 * Math.min(a.sizes[0], b.sizes[0]);
  return far ? cost + 60 : cost;
}

// at(i, j): the least cost of aligning the first i of left with the first j of right; Infinity outside of the band.
function leastCosts(left, right) {
  const full = left.length * right.length <= FULL_CELLS;
  const band = full ? Math.max(left.length, right.length) : Math.abs(left.length - right.length) + BAND;
  const width = 2 * band + 1;
  const best = new Float64Array((left.length + 1) * width).fill(Infinity);
  const at = (i, j) => (i < 0 || j < 0 || Math.abs(j - i) > band ? Infinity : best[i * width + j - i + band]);
  for (let i = 0; i <= left.length; i++) {
    for (let j = Math.max(0, i - band); j <= Math.min(right.length, i + band); j++) {
      const gap = i || j ? Math.min(at(i - 1, j), at(i, j - 1)) + GAP_COST : 0;
      const match = i && j ? at(i - 1, j - 1) + costOf(left[i - 1], right[j - 1]) : Infinity;
      best[i * width + j - i + band] = Math.min(gap, match);
    }
  }
  return at;
}

function align(left, right) {
  const keys = [left.map(alignKey), right.map(alignKey)];
  const at = leastCosts(...keys);
  const pairs = [];
  let [i, j] = [left.length, right.length];
  while (i || j) {
    if (i && j && at(i, j) === at(i - 1, j - 1) + costOf(keys[0][i - 1], keys[1][j - 1]))
      pairs.push([left[--i], right[--j]]);
    else if (i && at(i, j) === at(i - 1, j) + GAP_COST) pairs.push([left[--i], null]);
    else pairs.push([null, right[--j]]);
  }
  return pairs.reverse();
}

// The ops of one forward, by name: how often, CPU time with and without children, what they launched themselves.
function opTotals(cell) {
  const totals = new Map();
  for (const call of cell.calls) {
    if (call.category !== "op") continue;
    // without any device activity the launches of an op are unknown, not 0
    const none = missing(cell.kernels) ? null : 0;
    const sum = totals.get(call.name) ?? { name: call.name, count: 0, cpu: 0, self: 0, kernels: none, device: none };
    sum.count += 1;
    sum.cpu += nestedInSame(call, cell.calls) ? 0 : call.duration;
    sum.self += call.self ?? 0;
    if (!missing(sum.kernels)) {
      sum.kernels += call.kernels ?? 0;
      sum.device += call.device_time ?? 0;
    }
    totals.set(call.name, sum);
  }
  return totals;
}

function nestedInSame(call, calls) {
  for (let at = call.parent; !missing(at); at = calls[at].parent) if (calls[at].name === call.name) return true;
  return false;
}
