// What the page says: of an image, of a view, of how a thing is done with a mouse and keys, or by touch.

import { NONE, UNKNOWN, className, isDoubtful, isGiven, isPerhapsNone, state, sureness } from "./state.js";

export const touch = matchMedia("(hover: none)");
export const number = (n) => n.toLocaleString("en");
export const percent = (share) => `${(100 * share).toFixed(1)} %`;
export const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

// A prediction is never 100 % sure, and a doubtful one is below what counts as sure, however it rounds.
function wholePercent(id) {
  const most = isDoubtful(id) ? Math.ceil(100 * state.snap.sure_from) - 1 : 99;
  return Math.min(most, Math.round(sureness(id) / 100));
}

function alternative(id) { // what it is most probably, if not what it is put as
  const { snap, verdicts } = state;
  if (verdicts[id] === NONE) return snap.label[id];
  return snap.none[id] >= snap.second[id] || snap.runner_up[id] === UNKNOWN ? NONE : snap.runner_up[id];
}

export const heading = (id) => (isPerhapsNone(id) ? "none of these?" : className(state.verdicts[id])); // what it is put as

export function caption(id) { // below the class: one number, so that nobody adds two up
  if (isPerhapsNone(id)) return `${Math.min(99, Math.round(state.snap.none[id] / 100))} % sure, else ${className(state.snap.label[id])}`;
  if (isGiven(id)) return state.items.in_pool[id] ? "your label" : "example";
  if (state.verdicts[id] === UNKNOWN) return "";
  const sure = `${wholePercent(id)} % sure`;
  if (!isDoubtful(id) && state.verdicts[id] !== NONE) return sure;
  const other = alternative(id);
  return `${sure}, else ${other === NONE ? "none" : className(other)}`;
}

export function explanation(id) { // all that is said of it; the shares add up to 100 %
  const { snap, verdicts } = state;
  if (isGiven(id)) return state.items.in_pool[id] ? "You, or a labelled copy of this image, said so." : "An example in your labelled folder.";
  if (verdicts[id] === UNKNOWN) return "No class has an example yet.";
  const shares = [[className(snap.label[id]), snap.sure[id]], [className(NONE), snap.none[id]]];
  if (snap.runner_up[id] !== UNKNOWN) shares.push([className(snap.runner_up[id]), snap.second[id]]);
  const rest = 10000 - shares.reduce((sum, [, share]) => sum + share, 0);
  if (rest >= 50) shares.push(["any other class", rest]);
  const told = shares.sort((a, b) => b[1] - a[1]).map(([name, share]) => `${name} ${share < 50 ? "under 1" : Math.min(99, Math.round(share / 100))} %`);
  return `How probable each is: ${told.join(", ")}.`;
}

export function hint(n) { // of a view that lists n images
  const { snap, view, given } = state;
  if (!snap.classes.length) return "Add a class, then give it an example.";
  if (!given.some((to) => to >= 0)) return `No class has an example yet: ${touch.matches ? "tap" : "click"} an image, then its class in the bar below.`;
  if (!n && view.kind !== "map") return EMPTY[view.kind];
  return (touch.matches ? { ...HINTS, ...BY_TOUCH } : HINTS)[view.kind].replace("SURE", `${Math.round(100 * snap.sure_from)} %`);
}

const HINTS = {
  all: "Click an image, then its class in the bar below; or press the class’s number, or drag the image onto the class.",
  next: "The images whose labels would help most, in order. Press a class’s number, Enter if the prediction is right, 0 for none of these.",
  doubtful: "Less than SURE sure, the least sure first.",
  junk: "Of none of the classes, it seems, the surest first. Press Enter if that is right, else its class’s number: others like it follow.",
  class: "Your examples, then what is predicted, the least sure first.",
  map: "Alike images lie together, ringed points are labelled. Wheel to zoom, drag to move, click to select.",
};
const BY_TOUCH = {
  all: "Tap an image, then its label.",
  next: "The images whose labels would help most, in order. Tap the label, or Confirm if the prediction is right.",
  junk: "Of none of the classes, it seems, the surest first. Tap Confirm if that is right, else its class: others like it follow.",
  map: "Alike images lie together, ringed points are labelled. Pinch to zoom, drag to move, tap to select.",
};
const EMPTY = {
  all: "The pool is empty.", next: "Nothing is left to ask: every image has a label.", doubtful: "No image is in doubt.",
  junk: "Nothing was set aside, and nothing is rather junk than of a class.", class: "No image is in this class yet. Select one in another view and give it this label.",
};
