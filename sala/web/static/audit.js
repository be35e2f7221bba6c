// The random audit: one image after the other, large, and without what is predicted, so that nobody is led by it.

import { $, button, element, replaceAll } from "./elements.js";
import { classOf, keyOf } from "./keys.js";
import { act } from "./saving.js";
import { CLEAR, OUTLIER, className, color, state } from "./state.js";
import { number } from "./words.js";

let audit = null, shown = null, whenDone = () => {}; // what is known, the image that is asked for, and what follows the last
let waiting = false;
const given = new Set(); // answers that the server does not know yet, or just learned

export function openAudit(next, done) {
  whenDone = done;
  given.clear();
  drawAudit(next);
  if (shown !== null && !$("#audit").open) $("#audit").showModal();
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
  waiting = true;
  given.add(shown);
  $("#audit").classList.add("waiting");
  const isSaved = await act({ do: "answer", items: [shown], to });
  waiting = false;
  $("#audit").classList.remove("waiting");
  if (!isSaved) { given.clear(); $("#audit").close(); }
}

window.addEventListener("keydown", (event) => { // before the page's own keys: these are for the image that is asked for
  if (!$("#audit").open && !$("#progress").open) return;
  event.stopPropagation();
  if (!$("#audit").open || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = classOf(event.key);
  if (to !== undefined) answer(to);
}, true);
$("#audit-open").addEventListener("click", () => answer(CLEAR));
