// An image beside examples of the classes that it may be of. Zoom and place are one for all pictures.

import { openDialog } from "./done.js";
import { $, button, element } from "./elements.js";
import { classOf, keyOf } from "./keys.js";
import { OUTLIER, className, color, examples, state } from "./state.js";
import { lookedAt } from "./viewer.js";

const MAX_CLASSES = 3, MAX_EXAMPLES = 3, MAX_ZOOM = 8;
const view = { zoom: 1, x: 0, y: 0 };
let dialog = null, assign = () => {}; // assign(c): what a label does with the image that is compared

export function candidates(id, more = []) { // the classes that an image may be of, the given one first
  const { snap, given } = state;
  const all = [given[id], ...more, snap.label[id], snap.runner_up[id]].filter((c) => c >= 0);
  return [...new Set(all)].slice(0, MAX_CLASSES);
}

export function compare(id, label, more = []) { // label(id, c): the user gives this label
  dialog ??= makeDialog();
  assign = (c) => { dialog.close(); label(id, c); };
  const byClass = examples();
  const columns = candidates(id, more).map((c) => {
    const made = column(className(c), c, byClass[c].filter((other) => other !== id).slice(-MAX_EXAMPLES));
    made.querySelector("h2").after(labelButton(c));
    return made;
  });
  dialog.querySelector(".columns").replaceChildren(column(state.items.names[id], state.verdicts[id], [id]), ...columns);
  dialog.querySelector(".outlier").replaceChildren(labelButton(OUTLIER));
  if (!dialog.open) document.body.append(dialog); // behind others, which it is opened from
  openDialog(dialog);
  dialog.focus(); // not a button, which Enter would press
  zoomTo(1);
}

function labelButton(c) {
  const made = button("assign");
  made.dataset.class = c;
  made.style.setProperty("--class", color(c));
  if (keyOf(c)) made.append(element("kbd", "", keyOf(c)));
  made.append(element("span", "name", c === OUTLIER ? "Outlier" : `Label as ${className(c)}`));
  made.setAttribute("aria-label", `Label as ${className(c)}`);
  made.title = `Label as ${className(c)}`;
  made.addEventListener("click", () => assign(c));
  return made;
}

function column(title, c, ids) {
  const made = element("section", "column");
  made.style.setProperty("--class", color(c));
  made.append(element("h2", "", title));
  if (!ids.length) made.append(element("p", "", "no example"));
  for (const id of ids) {
    const frame = element("div", "zoomed"), image = element("img");
    image.src = `image/${id}?run=${state.items.run}`;
    image.alt = state.items.names[id];
    image.draggable = false;
    frame.append(image);
    made.append(frame);
  }
  return made;
}

function zoomTo(zoom) {
  view.zoom = Math.min(MAX_ZOOM, Math.max(1, zoom));
  const most = 50 * (view.zoom - 1); // percent of a picture: its edge stays outside of the frame
  view.x = Math.min(most, Math.max(-most, view.x));
  view.y = Math.min(most, Math.max(-most, view.y));
  dialog.style.setProperty("--zoom", `translate(${view.x}%, ${view.y}%) scale(${view.zoom})`);
  dialog.querySelector(".zoom").textContent = `${Math.round(100 * view.zoom)} %`;
}

function move(x, y) { // by a share of a frame
  view.x += 100 * x;
  view.y += 100 * y;
  zoomTo(view.zoom);
}

function makeDialog() {
  const made = element("dialog"), tools = element("div", "tools"), zoom = element("span", "zoom");
  const tool = (text, name, action) => {
    const one = button("", text);
    one.setAttribute("aria-label", name);
    one.title = name;
    one.addEventListener("click", action);
    return one;
  };
  made.id = "compare";
  made.tabIndex = -1;
  made.setAttribute("aria-label", "The image beside examples");
  zoom.setAttribute("role", "status");
  tools.append(tool("−", "Zoom out (-)", () => zoomTo(view.zoom / 1.5)), zoom, tool("+", "Zoom in (+)", () => zoomTo(view.zoom * 1.5)),
               element("span", "outlier"), tool("Close", "Close (Esc)", () => made.close()));
  made.append(element("div", "columns"), tools);
  made.addEventListener("wheel", (event) => { event.preventDefault(); zoomTo(view.zoom * (event.deltaY < 0 ? 1.2 : 1 / 1.2)); }, { passive: false });
  made.addEventListener("pointermove", (event) => {
    const frame = event.target.closest(".zoomed");
    if (frame && event.buttons) move(event.movementX / frame.clientWidth, event.movementY / frame.clientHeight);
  });
  made.addEventListener("keydown", keys);
  document.body.append(made);
  return made;
}

function keys(event) { // none of them reaches the page below, but undo and redo
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  event.stopPropagation();
  const steps = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
  if (event.key === "+" || event.key === "=") zoomTo(view.zoom * 1.5);
  else if (event.key === "-") zoomTo(view.zoom / 1.5);
  else if (steps[event.key]) move(...steps[event.key]);
  else if (classOf(event.key) !== undefined) assign(classOf(event.key));
  else return;
  event.preventDefault();
}

export function beginCompare(label) { // label(id, c)
  const chosen = () => lookedAt() ?? state.cursor ?? [...state.selection][0];
  const open = () => compare(chosen(), label);
  $("#compare-button").addEventListener("click", open);
  $("#viewer-compare").addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "c" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, dialog[open]:not(#viewer)") || !state.snap || chosen() === undefined) return;
    open();
  });
}
