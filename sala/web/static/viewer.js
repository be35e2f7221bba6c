// One image, large, with all that is said of it and a button for each label. Keys and buttons mean this image alone.

import { labelButtons } from "./bar.js";
import { openDialog } from "./done.js";
import { $, element, replaceAll } from "./elements.js";
import { UNKNOWN, className, isGiven, state } from "./state.js";
import { caption, explanation, heading } from "./words.js";

let shown = null, label = () => {};

export const isLooking = () => $("#viewer").open;
export const lookedAt = () => (isLooking() ? shown : null);

export function beginViewer({ assign, accept, beside }) {
  label = assign;
  $("#viewer").addEventListener("click", (event) => {
    const arrow = event.target.closest("[data-arrow]");
    if (arrow) beside(arrow.dataset.arrow);
    else if (event.target.closest("#viewer-accept")) accept();
    else if (event.target === $("#viewer") || event.target.closest("img, .close")) $("#viewer").close();
  });
}

export function look(id) {
  shown = id;
  $("#viewer img").src = `image/${id}?run=${state.items.run}`;
  $("#viewer img").alt = $("#viewer h2").textContent = state.items.names[id];
  const wasOpen = isLooking();
  openDialog($("#viewer"));
  drawViewer();
  if (!wasOpen) $("#viewer").focus(); // not a button, which Enter would press
}

export function drawViewer() { // after any news
  if (!isLooking()) return;
  const [first, second] = $("#viewer").querySelectorAll(".about p"), verdict = state.verdicts[shown];
  first.textContent = [heading(shown), caption(shown)].filter(Boolean).join(" · ");
  second.textContent = explanation(shown);
  $("#viewer-accept").hidden = isGiven(shown) || verdict === UNKNOWN;
  $("#viewer-accept").textContent = verdict === UNKNOWN ? "" : `Confirm ${className(verdict)}`;
  replaceAll($("#viewer-labels"), [element("span", "", "Label as"), ...labelButtons("1 image", label)]);
}
