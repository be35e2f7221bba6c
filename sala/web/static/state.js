// The state of the page: the server's snapshot, changes that it does not know yet, and what follows from both.

export const UNKNOWN = -1, OUTLIER = -2, CLEAR = -3;

export const state = {
  items: null, // names, in_pool, ...: they stay
  snap: null, // the last answer of the server
  before: null, // counts before it, to show what moved
  pending: [], // labels that the snapshot does not know yet: { parts: [[to, ids], ...], version }
  steps: { undo: 0, redo: 0 }, // how many changes can be undone and redone, with what is still on its way
  given: [], // by image: a class, OUTLIER or UNKNOWN, with what is still on its way
  verdicts: [], // by image: what it most probably is: its label, OUTLIER or UNKNOWN
  view: { kind: "suggestions" },
  selection: new Set(),
  cursor: null,
  anchor: null, // where a range begins
  stopped: null, // why the server takes no more changes
};

export const isGiven = (id) => state.given[id] !== UNKNOWN;
// more probable than any class, but not confident enough to be rejected: it is shown and confirmed as an outlier
export const isPossibleOutlier = (id) => !isGiven(id) && state.snap.likely_outlier[id] === 1 && !isRejected(id);
export const isRejected = (id) => !isGiven(id) && state.snap.rejected[id] === 1;
export const isUncertain = (id) => !isGiven(id) && state.snap.uncertain[id] === 1;
export const confidence = (id) => // in what is shown, in 1/10,000
  isGiven(id) ? 10000 : state.verdicts[id] === OUTLIER ? state.snap.outlier_probability[id] : state.snap.probability[id];
export const className = (c) => (c === OUTLIER ? "Outlier" : c === UNKNOWN ? "not known yet" : state.snap.classes[c]);
export const color = (c) => (c < 0 ? "var(--outlier)" : `oklch(${c % 2 ? "var(--odd)" : "var(--even)"} ${(c * 137.5 + 25) % 360})`);

export function place() { // where each image is, after any news
  const { snap, pending } = state;
  state.given = snap.given.slice();
  for (const { parts } of pending) for (const [to, ids] of parts) for (const id of ids) state.given[id] = to === CLEAR ? UNKNOWN : to;
  state.verdicts = state.given.map((to, id) => (to !== UNKNOWN ? to : snap.likely_outlier[id] ? OUTLIER : snap.label[id]));
}

export function takeSnapshot(next) {
  const { snap } = state;
  if (snap && next.version !== snap.version) state.before = { counts: counts() };
  state.snap = next;
  state.stopped ??= next.stopped;
  state.pending = state.pending.filter((change) => change.version === undefined || change.version > next.version);
  place();
}

export function poolIds(keep = () => true) {
  const ids = [], { in_pool } = state.items;
  for (let id = 0; id < in_pool.length; id++) if (in_pool[id] && keep(id)) ids.push(id);
  return ids;
}

export function counts() { // of the pool, by class; outliers last
  const n = state.snap.classes.length, result = new Array(n + 1).fill(0);
  state.verdicts.forEach((v, id) => { if (state.items.in_pool[id] && v !== UNKNOWN) result[v === OUTLIER ? n : v]++; });
  return result;
}

export function examples() { // by class: the images that have its label
  const lists = state.snap.classes.map(() => []);
  state.given.forEach((to, id) => { if (to >= 0) lists[to].push(id); });
  return lists;
}
