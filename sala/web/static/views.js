// What each view lists, in which order.

import { OUTLIER, UNKNOWN, color, confidence, isGiven, isPossibleOutlier, isUncertain, poolIds, state } from "./state.js";

const mostConfident = (a, b) => confidence(b) - confidence(a) || a - b;
const leastConfident = (a, b) => confidence(a) - confidence(b) || a - b;
export const uncertain = () => poolIds(isUncertain).sort(leastConfident);
export const suggestions = () => state.snap.suggestions.filter((id) => !isGiven(id));
export const outliers = () => poolIds((id) => state.verdicts[id] === OUTLIER);

export function listed() { // [{ title, color, ids }]; without a title there is no heading
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
  const there = new Set(ids);
  return [...[...state.selection].filter((id) => !there.has(id) && !isGiven(id)), ...ids];
}

function outlierGroups() { // the borderline first
  const all = outliers(), there = new Set(all);
  const kept = [...state.selection].filter((id) => !there.has(id) && !isGiven(id));
  const possible = [...kept, ...all.filter(isPossibleOutlier).sort(leastConfident)];
  const examples = state.given.flatMap((to, id) => (to === OUTLIER && !state.items.in_pool[id] ? [id] : []));
  const parts = [
    { title: "Possible outliers", note: `${possible.length.toLocaleString("en")} · downloads have them as uncertain until you confirm`, ids: possible },
    { title: "Rejected", ids: all.filter((id) => !isGiven(id) && !isPossibleOutlier(id)).sort(leastConfident) },
    { title: "Labeled by you", ids: all.filter(isGiven) },
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
