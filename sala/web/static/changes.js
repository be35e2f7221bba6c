// Changes as the user makes them: each is told in a sentence, with a button that takes it back.

import { showDone, told } from "./done.js";
import { act } from "./saving.js";
import { state } from "./state.js";

export function change(what, text) { // a promise: whether it was saved
  const saved = act(what);
  if (state.stopped === null) showDone(text, "Undo", () => undo(what));
  return saved;
}

export function giveLabels(parts) { // [[to, ids], ...]: one change
  const what = parts.length > 1 ? { do: "labels", parts } : { do: "label", parts, items: parts[0][1], to: parts[0][0] };
  return change(what, told(parts));
}

export function undo(of) { // the last change, or that one and no other
  if (!state.steps.undo) return Promise.resolve(false);
  const saved = act({ do: "undo", of });
  if (state.stopped === null) showDone("Undone", "Redo", redo);
  return saved;
}

export function redo() {
  if (!state.steps.redo) return;
  act({ do: "redo" });
  if (state.stopped === null) showDone("Done again", "Undo", () => undo());
}
