// Aligns two sequences of kernels (Needleman-Wunsch, gaps cost nothing): equal names count most, then one family, and
// the more the greater the part of their forwards that both take, so that a long GEMM is not paired with a tiny one.

const ALIGN_LIMIT = 4e6; // cells of the table; beyond, sequences are paired by position

function likeness(a, b) {
  const weight = 1 + 4 * Math.min(a.part, b.part);
  if (a.name === b.name) return 3 * weight;
  return a.family === b.family && a.category === b.category ? weight : 0;
}

function align(left, right) {
  const [rows, cols] = [left.length + 1, right.length + 1];
  if (rows * cols > ALIGN_LIMIT) {
    return Array.from({ length: Math.max(left.length, right.length) }, (_, place) => [
      left[place] ?? null,
      right[place] ?? null,
    ]);
  }
  const best = new Float64Array(rows * cols);
  for (let i = rows - 2; i >= 0; i--) {
    for (let j = cols - 2; j >= 0; j--) {
      const like = likeness(left[i], right[j]);
      const both = like ? like + best[(i + 1) * cols + j + 1] : -1;
      best[i * cols + j] = Math.max(both, best[(i + 1) * cols + j], best[i * cols + j + 1]);
    }
  }
  const pairs = [];
  let [i, j] = [0, 0];
  while (i < left.length && j < right.length) {
    const like = likeness(left[i], right[j]);
    if (like && best[i * cols + j] === like + best[(i + 1) * cols + j + 1]) pairs.push([left[i++], right[j++]]);
    else if (best[i * cols + j] === best[(i + 1) * cols + j]) pairs.push([left[i++], null]);
    else pairs.push([null, right[j++]]);
  }
  while (i < left.length) pairs.push([left[i++], null]);
  while (j < right.length) pairs.push([null, right[j++]]);
  return pairs;
}

// The ops of one forward, by name: how often, CPU time with and without children, what they launched themselves.
function opTotals(cell) {
  const totals = new Map();
  for (const call of cell.calls) {
    if (call.category !== "op") continue;
    const sum = totals.get(call.name) ?? { name: call.name, count: 0, cpu: 0, self: 0, kernels: 0, device: 0 };
    sum.count += 1;
    sum.cpu += nestedInSame(call, cell.calls) ? 0 : call.duration;
    sum.self += call.self ?? 0;
    sum.kernels += call.kernels ?? 0;
    sum.device += call.device_time ?? 0;
    totals.set(call.name, sum);
  }
  return totals;
}

function nestedInSame(call, calls) {
  for (let at = call.parent; !missing(at); at = calls[at].parent) if (calls[at].name === call.name) return true;
  return false;
}
