// After each change: what happened, and a button that takes it back.

import { $, button, element } from "./elements.js";
import { CLEAR, className } from "./state.js";
import { plural } from "./words.js";

const SHOWN = 8000; // milliseconds
let timer = null;

export const told = (parts) => parts.map(([to, ids]) => {
  const counted = plural(ids.length, "image", "images");
  return to === CLEAR ? `${counted}: label taken back` : `${counted} → ${className(to)}`;
}).join(", ");

export function showDone(text, does, action) { // the next one replaces it
  const note = element("div", "note"), again = button("undo-this", does, "undo-this");
  again.addEventListener("click", action);
  note.append(element("span", "", text), again);
  note.addEventListener("pointerenter", () => clearTimeout(timer)); // who reaches for it has time
  note.addEventListener("pointerleave", wait);
  $("#done").replaceChildren(note);
  settle();
  wait();
}

export function openDialog(dialog) {
  if (!dialog.open) dialog.showModal();
  settle();
}

function settle() { // an open dialog makes everything else inert, so what is said moves into the one on top
  const host = [...document.querySelectorAll("dialog[open]")].at(-1) ?? $("main");
  if ($("#done").parentElement === host) return;
  host.append($("#done"));
  host.prepend($("#moved"));
}
document.addEventListener("close", settle, true); // of any dialog; the event does not bubble

function wait() {
  clearTimeout(timer);
  timer = setTimeout(hideDone, SHOWN);
}

export function hideDone() {
  clearTimeout(timer);
  $("#done").replaceChildren();
}
