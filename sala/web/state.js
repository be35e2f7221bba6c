// What the page knows: what the server says of the images, what the user has just said, and what follows from both.

export const UNKNOWN = -1, NONE = -2, CLEAR = -3;

export const state = {
  items: null, // names, in_pool, ...: they stay
  snap: null, // the last answer of the server
  before: null, // counts and estimate before it, to show what moved
  pending: [], // changes that the snapshot does not know yet
  given: [], // by image: a class, NONE or UNKNOWN, with what is still on its way
  verdicts: [], // by image: where it is put
  view: { kind: "all" },
  selection: new Set(),
  cursor: null,
  anchor: null, // where a range begins
  stopped: null, // why the server takes no more changes
};

export const isGiven = (id) => state.given[id] !== UNKNOWN;
export const isLikelyOutlier = (id) => !isGiven(id) && state.snap.outlier[id] === 1; // more probably than of its class
// it stays with its class, since that is not sure enough to reject it; but what it most probably is, is shown and confirmed
export const isPerhapsNone = (id) => isLikelyOutlier(id) && ![NONE, UNKNOWN].includes(state.verdicts[id]);
export const proposal = (id) => (isPerhapsNone(id) ? NONE : state.verdicts[id]);
export const isDoubtful = (id) => !isGiven(id) && state.snap.doubtful[id] === 1;
export const sureness = (id) => (isGiven(id) ? 10000 : state.verdicts[id] === NONE ? state.snap.none[id] : state.snap.sure[id]); // 1/10,000
export const className = (c) => (c === NONE ? "none of these" : c === UNKNOWN ? "not known yet" : state.snap.classes[c]);
export const colour = (c) => (c < 0 ? "var(--none)" : `oklch(${c % 2 ? "var(--odd)" : "var(--even)"} ${(c * 137.5 + 25) % 360})`);

export function place() { // where each image is, after any news
  const { snap, pending } = state;
  state.given = snap.given.slice();
  for (const { items: ids, to } of pending) for (const id of ids) state.given[id] = to === CLEAR ? UNKNOWN : to;
  state.verdicts = state.given.map((to, id) => (to !== UNKNOWN ? to : snap.junk[id] ? NONE : snap.label[id]));
}

export function takeSnapshot(next) {
  const { snap } = state;
  if (snap && next.version !== snap.version) state.before = { counts: counts(), estimate: snap.estimate };
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

export function counts() { // of the pool, by class; the last is none of these
  const n = state.snap.classes.length, result = new Array(n + 1).fill(0);
  state.verdicts.forEach((v, id) => { if (state.items.in_pool[id] && v !== UNKNOWN) result[v === NONE ? n : v]++; });
  return result;
}

export function examples() { // by class: the images that have its label
  const lists = state.snap.classes.map(() => []);
  state.given.forEach((to, id) => { if (to >= 0) lists[to].push(id); });
  return lists;
}

const bySure = (a, b) => sureness(b) - sureness(a) || a - b;
const byDoubt = (a, b) => sureness(a) - sureness(b) || a - b;
export const doubtful = () => poolIds(isDoubtful).sort(byDoubt);
export const nextIds = () => state.snap.next.filter((id) => !isGiven(id));
export const junk = () => poolIds((id) => state.verdicts[id] === NONE);

export function groups() { // what the view lists
  const { kind } = state.view;
  if (kind === "doubtful") return [{ ids: withSelected(doubtful()) }];
  if (kind === "next") return [{ ids: withSelected(nextIds()) }];
  if (kind === "junk") return junkGroups();
  if (kind === "class") return classGroups(state.view.class);
  const { verdicts, snap } = state;
  const lists = snap.classes.map(() => []), aside = [], unknown = [];
  for (const id of poolIds()) (verdicts[id] === NONE ? aside : verdicts[id] === UNKNOWN ? unknown : lists[verdicts[id]]).push(id);
  return [
    ...lists.map((ids, c) => ({ title: snap.classes[c], colour: colour(c), ids: ids.sort(bySure) })),
    { title: "none of these", colour: colour(NONE), ids: aside.sort(bySure) },
    { title: "not known yet", colour: colour(UNKNOWN), ids: unknown },
  ].filter((group) => group.ids.length);
}

// new labels arrive while the user looks at an image: what is selected stays, or a key would label another one
function withSelected(ids) {
  const listed = new Set(ids);
  return [...[...state.selection].filter((id) => !listed.has(id) && !isGiven(id)), ...ids];
}

function junkGroups() {
  const { snap, verdicts } = state;
  const perhaps = poolIds((id) => !isGiven(id) && verdicts[id] !== NONE && (isLikelyOutlier(id) || state.selection.has(id)));
  const examples = state.given.flatMap((to, id) => (to === NONE && !state.items.in_pool[id] ? [id] : []));
  const parts = [
    { title: "Set aside", ids: junk().sort((a, b) => isGiven(a) - isGiven(b) || bySure(a, b)) },
    { title: "Perhaps none of these, not surely enough", ids: perhaps.sort((a, b) => snap.none[b] - snap.none[a] || a - b) },
    { title: "Your examples that are said to be none of these", ids: examples },
  ];
  return parts.filter((part) => part.ids.length).map((part) => ({ ...part, colour: colour(NONE) }));
}

function classGroups(c) {
  const all = state.items.names.map((_, id) => id).filter((id) => state.verdicts[id] === c);
  const parts = [
    { title: "Examples", ids: all.filter(isGiven) },
    { title: "Doubtful", ids: all.filter(isDoubtful).sort(byDoubt) },
    { title: "Sure", ids: all.filter((id) => !isGiven(id) && !isDoubtful(id)).sort(byDoubt) },
  ];
  return parts.filter((part) => part.ids.length).map((part) => ({ ...part, colour: colour(c) }));
}
