// The texts of the page: of an image, of a view, for mouse and keys or for touch.

import { isFiltering } from "./find.js";
import { isFinding } from "./groups.js";
import { OUTLIER, UNKNOWN, className, confidence, isGiven, isPossibleOutlier, isRejected, isUncertain, state } from "./state.js";

export const touch = matchMedia("(hover: none)");
export const number = (n) => n.toLocaleString("en");
export const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

// A prediction never shows 100 %, and an uncertain one stays below the confidence threshold, however it rounds.
function wholePercent(id) {
  const most = isUncertain(id) && state.verdicts[id] !== OUTLIER ? Math.ceil(100 * state.snap.confidence_threshold) - 1 : 99;
  return Math.min(most, Math.round(confidence(id) / 100));
}

function alternative(id) { // the most probable class but its label
  const { snap, verdicts } = state;
  if (verdicts[id] === OUTLIER) return snap.label[id];
  return snap.outlier_probability[id] >= snap.runner_up_probability[id] || snap.runner_up[id] === UNKNOWN ? OUTLIER : snap.runner_up[id];
}

export const heading = (id) => (isPossibleOutlier(id) ? "Outlier?" : className(state.verdicts[id])); // its label

export function caption(id) { // below the class: one number, so that nobody adds two up
  if (isGiven(id)) return state.items.in_pool[id] ? "your label" : "example";
  if (state.verdicts[id] === UNKNOWN) return "";
  if (isRejected(id)) return `rejected, else ${className(alternative(id))}`; // by all such images, not by its own probability
  const told = `${wholePercent(id)} % confident`;
  return isUncertain(id) || state.verdicts[id] === OUTLIER ? `${told}, else ${className(alternative(id))}` : told;
}

export function explanation(id) { // all that is said of it; the shares add up to 100 %
  const { snap, verdicts } = state;
  if (isGiven(id)) return state.items.in_pool[id] ? "You, or a labeled copy of this image, said so." : "An example in your labeled folder.";
  if (verdicts[id] === UNKNOWN) return "No class has an example yet.";
  const shares = [[className(snap.label[id]), snap.probability[id]], [className(OUTLIER), snap.outlier_probability[id]]];
  if (snap.runner_up[id] !== UNKNOWN) shares.push([className(snap.runner_up[id]), snap.runner_up_probability[id]]);
  const rest = 10000 - shares.reduce((sum, [, share]) => sum + share, 0);
  if (rest >= 50) shares.push(["any other class", rest]);
  const told = shares.sort((a, b) => b[1] - a[1]).map(([name, share]) => `${name} ${share < 50 ? "under 1" : Math.min(99, Math.round(share / 100))} %`);
  const precision = Math.round(100 * snap.confidence_threshold);
  return `${isRejected(id) ? `Of all rejected images about ${precision} % are expected to be outliers. ` : ""}How probable each is: ${told.join(", ")}.`;
}

export function hint(n) { // of a view that lists n images
  const { snap, view, given } = state;
  if (!snap.classes.length) return "Add a class, then give it an example.";
  if (!given.some((to) => to >= 0)) return `No class has an example yet: ${touch.matches ? "tap" : "click"} an image, then its class in the bar below.`;
  if (view.kind === "groups" && isFinding()) return "Finding groups …";
  if (!n && isFiltering()) return "No image of this view matches the search and the filter.";
  const why = view.kind === "outliers" && snap.rejection_obstacle ? ` ${snap.rejection_obstacle}` : ""; // nothing is rejected
  if (!n && view.kind !== "map") return EMPTY[view.kind] + why;
  return (touch.matches ? { ...HINTS, ...BY_TOUCH } : HINTS)[view.kind].replace("THRESHOLD", `${Math.round(100 * snap.confidence_threshold)} %`) + why;
}

const HINTS = {
  all: "Click an image, then its class in the bar below; or press the class’s key, or drag the image onto the class.",
  suggestions: "Start here, these labels help most: press Enter or Confirm if the prediction is right, else the key or button of its class.",
  uncertain: "Below THRESHOLD confidence, the least confident first.",
  outliers: "Most probably of none of the classes, the borderline first. Press Enter if that is right, else its class’s key: similar images follow.",
  groups: "Similar images of one prediction, borderline outliers first. “Yes” labels the whole group, one Undo takes it back.",
  class: "Your examples, then what is predicted, the least confident first.",
  map: "Similar images lie together, ringed points are labeled. Wheel to zoom, drag to move, click or lasso to select; by keys: + and −, arrows.",
};
const BY_TOUCH = {
  all: "Tap an image, then its label.",
  suggestions: "Start here: tap Confirm if the prediction of the selected image is right, else its class; these labels help most.",
  outliers: "Most probably of none of the classes, the borderline first. Tap Confirm if that is right, else its class: similar images follow.",
  map: "Similar images lie together, ringed points are labeled. Pinch to zoom, drag to move, tap or lasso to select.",
};
const EMPTY = {
  all: "The pool is empty.", suggestions: "Nothing is left to suggest: every image has a label.", uncertain: "No image is uncertain.",
  outliers: "No image is an outlier.", groups: "No similar images are left without a label.", class: "No image is in this class yet. Select one in another view and give it this label.",
};
