// What each key does.

import { $ } from "./elements.js";
import { classOf } from "./keys.js";
import { toast } from "./saving.js";
import { state } from "./state.js";
import { isLooking } from "./viewer.js";

export function listenToKeys(page) { // page: what can be done, by name
  document.addEventListener("keydown", (event) => {
    if (!state.snap || event.target.closest("input, select, textarea")) return;
    const isCtrl = (event.ctrlKey || event.metaKey) && !event.altKey;
    if ($("dialog[open]:not(#viewer)") && !(isCtrl && /^[zy]$/i.test(event.key))) return; // undo and redo work anywhere
    const { key } = event, done = isCtrl ? withCtrl(page, event) : withoutCtrl(page, event);
    if (done) event.preventDefault();
    else if (/^[1-9]$/.test(key) && !event.ctrlKey && !event.metaKey && !event.altKey) toast(`There is no class ${key}.`);
  });
}

function withCtrl(page, { key, shiftKey }) { // whether the key did something
  const letter = key.toLowerCase();
  if (letter === "z") shiftKey ? page.redo() : page.undo();
  else if (letter === "y") page.redo();
  else if (letter === "a" && !isLooking()) page.selectAll();
  else return false;
  return true;
}

function withoutCtrl(page, event) {
  const { key, target } = event;
  if (event.altKey || event.ctrlKey || event.metaKey) return false;
  const isButtons = target.closest("button, summary, a") && (key === "Enter" || key === " ");
  if (isButtons) return false;
  if (key.startsWith("Arrow")) return isLooking() ? page.lookBeside(key) : !target.closest("nav, aside, header") && page.move(event);
  const action = ACTIONS[key] ?? (/^u$/i.test(key) ? (undoing) => undoing.undo() : null);
  if (action) return action(page, event) !== false;
  const c = classOf(key);
  return c === undefined ? false : page.give(c);
}

const ACTIONS = { // false where the browser is to do what it does with the key
  Enter: (page, { shiftKey }) => (shiftKey ? page.acceptGroup() : page.accept()),
  " ": (page) => (isLooking() ? page.stopLooking() : page.look()),
  Backspace: (page) => page.clear(),
  Escape: (page) => (isLooking() ? false : page.unselect()),
  "/": (page) => (isLooking() ? false : page.find()),
  "?": (page) => (isLooking() ? false : page.help()),
};
