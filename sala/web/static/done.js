// After each label: what happened, and a button that undoes exactly that.

import { $, button, element } from "./elements.js";
import { act } from "./saving.js";
import { CLEAR, className } from "./state.js";
import { plural } from "./words.js";

const SHOWN = 8000; // milliseconds
let timer = null;

const told = ({ items, to }) => {
  const counted = plural(items.length, "image", "images");
  return to === CLEAR ? `${counted}: label taken back` : `${counted} → ${className(to)}`;
};

export function showDone(changes) { // the next one replaces it
  const note = element("div", "note"), again = button("undo-this", "Undo", "undo-this");
  again.addEventListener("click", () => { for (const of of [...changes].reverse()) act({ do: "undo", of }); });
  note.append(element("span", "", changes.map(told).join(", ")), again);
  note.addEventListener("pointerenter", () => clearTimeout(timer)); // who reaches for it has time
  note.addEventListener("pointerleave", wait);
  $("#done").replaceChildren(note);
  wait();
}

function wait() {
  clearTimeout(timer);
  timer = setTimeout(hideDone, SHOWN);
}

export function hideDone() {
  clearTimeout(timer);
  $("#done").replaceChildren();
}
