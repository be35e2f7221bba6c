// The state of the page: the server's snapshot, changes that it does not know yet, and what follows from both.

export const UNKNOWN = -1, OUTLIER = -2, CLEAR = -3;

export const state = {
  items: null, // names, in_pool, ...: they stay
  snap: null, // the last answer of the server
  before: null, // counts and expected accuracy before it, to show what moved
  pending: [], // changes that the snapshot does not know yet
  given: [], // by image: a class, OUTLIER or UNKNOWN, with what is still on its way
  verdicts: [], // by image: its label, OUTLIER or UNKNOWN
  view: { kind: "all" },
  selection: new Set(),
  cursor: null,
  anchor: null, // where a range begins
  stopped: null, // why the server takes no more changes
};

export const isGiven = (id) => state.given[id] !== UNKNOWN;
export const isLikelyOutlier = (id) => !isGiven(id) && state.snap.likely_outlier[id] === 1; // more probable than its class
// not confident enough to be rejected: it stays with its class, but the outlier is what is shown and confirmed
export const isPossibleOutlier = (id) => isLikelyOutlier(id) && ![OUTLIER, UNKNOWN].includes(state.verdicts[id]);
export const proposal = (id) => (isPossibleOutlier(id) ? OUTLIER : state.verdicts[id]);
export const isUncertain = (id) => !isGiven(id) && state.snap.uncertain[id] === 1;
export const confidence = (id) => // in 1/10,000
  isGiven(id) ? 10000 : state.verdicts[id] === OUTLIER ? state.snap.outlier_probability[id] : state.snap.probability[id];
export const className = (c) => (c === OUTLIER ? "Outlier" : c === UNKNOWN ? "not known yet" : state.snap.classes[c]);
export const color = (c) => (c < 0 ? "var(--outlier)" : `oklch(${c % 2 ? "var(--odd)" : "var(--even)"} ${(c * 137.5 + 25) % 360})`);

export function place() { // where each image is, after any news
  const { snap, pending } = state;
  state.given = snap.given.slice();
  for (const { items: ids, to } of pending) for (const id of ids) state.given[id] = to === CLEAR ? UNKNOWN : to;
  state.verdicts = state.given.map((to, id) => (to !== UNKNOWN ? to : snap.rejected[id] ? OUTLIER : snap.label[id]));
}

export function takeSnapshot(next) {
  const { snap } = state;
  if (snap && next.version !== snap.version) state.before = { counts: counts(), accuracy: snap.expected_accuracy };
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

const mostConfident = (a, b) => confidence(b) - confidence(a) || a - b;
const leastConfident = (a, b) => confidence(a) - confidence(b) || a - b;
export const uncertain = () => poolIds(isUncertain).sort(leastConfident);
export const suggestions = () => state.snap.suggestions.filter((id) => !isGiven(id));
export const outliers = () => poolIds((id) => state.verdicts[id] === OUTLIER);

export function groups() { // what the view lists
  const { kind } = state.view;
  if (kind === "uncertain") return [{ ids: withSelected(uncertain()) }];
  if (kind === "suggestions") return [{ ids: withSelected(suggestions()) }];
  if (kind === "outliers") return outlierGroups();
  if (kind === "class") return classGroups(state.view.class);
  const { verdicts, snap } = state;
  const lists = snap.classes.map(() => []), rejected = [], unknown = [];
  for (const id of poolIds()) (verdicts[id] === OUTLIER ? rejected : verdicts[id] === UNKNOWN ? unknown : lists[verdicts[id]]).push(id);
  return [
    ...lists.map((ids, c) => ({ title: snap.classes[c], color: color(c), ids: ids.sort(mostConfident) })),
    { title: "Outliers", color: color(OUTLIER), ids: rejected.sort(mostConfident) },
    { title: "not known yet", color: color(UNKNOWN), ids: unknown },
  ].filter((group) => group.ids.length);
}

// new labels arrive while the user looks at an image: what is selected stays, or a key would label another one
function withSelected(ids) {
  const listed = new Set(ids);
  return [...[...state.selection].filter((id) => !listed.has(id) && !isGiven(id)), ...ids];
}

function outlierGroups() {
  const { snap, verdicts } = state;
  const possible = poolIds((id) => !isGiven(id) && verdicts[id] !== OUTLIER && (isLikelyOutlier(id) || state.selection.has(id)));
  const examples = state.given.flatMap((to, id) => (to === OUTLIER && !state.items.in_pool[id] ? [id] : []));
  const parts = [
    { title: "Outliers", ids: outliers().sort((a, b) => isGiven(a) - isGiven(b) || mostConfident(a, b)) },
    { title: "Possible outliers", ids: possible.sort((a, b) => snap.outlier_probability[b] - snap.outlier_probability[a] || a - b) },
    { title: "Examples that you labeled as outliers", ids: examples },
  ];
  return parts.filter((part) => part.ids.length).map((part) => ({ ...part, color: color(OUTLIER) }));
}

function classGroups(c) {
  const all = state.items.names.map((_, id) => id).filter((id) => state.verdicts[id] === c);
  const parts = [
    { title: "Examples", ids: all.filter(isGiven) },
    { title: "Uncertain", ids: all.filter(isUncertain).sort(leastConfident) },
    { title: "Confident", ids: all.filter((id) => !isGiven(id) && !isUncertain(id)).sort(leastConfident) },
  ];
  return parts.filter((part) => part.ids.length).map((part) => ({ ...part, color: color(c) }));
}
