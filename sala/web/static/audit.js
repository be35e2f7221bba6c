// The random audit: one image after the other, large, and without what is predicted, so that nobody is led by it.

import { undo } from "./changes.js";
import { openDialog, showDone, told } from "./done.js";
import { $, button, element, replaceAll } from "./elements.js";
import { classOf, keyOf } from "./keys.js";
import { act } from "./saving.js";
import { CLEAR, OUTLIER, className, color, state } from "./state.js";
import { number } from "./words.js";

let audit = null, shown = null; // what is known, the image that is asked for
let whenDone = () => {}, refresh = () => {}; // what follows the last; fetches what is known
let waiting = false;
const given = new Map(); // answers that the server does not know yet, or just learned: the change of each image

export function openAudit(next, functions) {
  ({ whenDone, refresh } = functions);
  given.clear();
  drawAudit(next);
  if (shown !== null) openDialog($("#audit"));
}

export function drawAudit(next) {
  audit = next;
  shown = audit.upcoming.find((id) => !given.has(id)) ?? null;
  if (!$("#audit").open && shown === null) return;
  if (shown === null) {
    if (!waiting && $("#audit").open) { $("#audit").close(); whenDone(); }
    return;
  }
  const image = $("#audit img"), address = `image/${shown}?run=${state.items.run}`;
  if (image.getAttribute("src") !== address) image.src = address;
  $("#audit .asked p").textContent = image.alt = state.items.names[shown];
  $("#audit-count").textContent = `${number(audit.n_drawn + 1)} of ${number(audit.n)}`;
  replaceAll($("#audit-classes"), [...state.snap.classes.keys(), OUTLIER].map((c) => {
    const made = button("assign", undefined, `audit${c}`);
    made.dataset.class = c;
    made.style.setProperty("--class", color(c));
    made.append(element("kbd", "", keyOf(c)), element("i", "swatch"), element("span", "name", className(c)));
    made.addEventListener("click", () => answer(c));
    return made;
  }));
}

async function answer(to) { // one at a time: the next image is drawn, and judged, once this one is saved
  if (waiting || shown === null) return;
  const change = { do: "answer", items: [shown], to }, said = to === CLEAR ? "Left open" : told([[to, [shown]]]);
  given.set(shown, change);
  if (!(await saved(() => act(change)))) { given.clear(); $("#audit").close(); }
  else showDone(said, "Undo", () => takeBack(change));
}

async function takeBack(change = [...given.values()].at(-1)) { // an answer; its image is asked for again
  if (waiting || !change) return;
  given.delete(change.items[0]);
  await saved(async () => { await undo(change); await refresh(); });
}

async function saved(action) { // no answer is taken meanwhile
  waiting = true;
  $("#audit").classList.add("waiting");
  const result = await action();
  waiting = false;
  $("#audit").classList.remove("waiting");
  return result;
}

window.addEventListener("keydown", (event) => { // before the page's own keys: these are for the image that is asked for
  if (!$("#audit").open && !$("#progress").open) return;
  event.stopPropagation();
  if (!$("#audit").open || event.altKey) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() === "z" && !event.shiftKey) { event.preventDefault(); takeBack(); }
    return;
  }
  const to = classOf(event.key);
  if (to !== undefined) answer(to);
}, true);
$("#audit-open").addEventListener("click", () => answer(CLEAR));
