// The page: draws the images, selects them, and labels the selection.

import { Bar } from "./bar.js";
import { Classes, addClass } from "./classes.js";
import { hideDone, showDone } from "./done.js";
import { $, button, element, replaceAll } from "./elements.js";
import { Grid } from "./grid.js";
import { openMap, shownMap } from "./mapview.js";
import { act, begin, get, hideToast, toast } from "./saving.js";
import { drawStats } from "./stats.js";
import { CLEAR, OUTLIER, UNKNOWN, className, groups, isGiven, outliers, place, poolIds, proposal, state, suggestions, uncertain } from "./state.js";
import { makeTile, updateTile } from "./tiles.js";
import { look } from "./viewer.js";
import { hint, number, plural, touch } from "./words.js";

let typed = "", typing = null; // digits of a class with more than one

// ---- drawing

const grid = new Grid($("#scroller"), $("#rows"), { tile: makeTile, update: updateTile });
const classes = new Classes($("#classes"), { // a click only ever shows: labels are given by the bar, by keys or by dragging
  pick: (c) => go(c === OUTLIER ? { kind: "outliers" } : { kind: "class", class: c }),
  drop: (c) => label([...state.selection], c),
  hover: (c) => { poolMap.dim = c === null ? null : (id) => state.verdicts[id] === c; poolMap.draw(); },
});
const poolMap = shownMap((id, event) => (id === null ? unselect() : select(id, event)));
const bar = new Bar({ assign: (c) => label([...state.selection], c) });

// views where one image is judged after the other: the next one is selected then
const isJudging = () => ["suggestions", "uncertain", "outliers"].includes(state.view.kind);

function draw() {
  if (state.view.kind === "class" && !(state.view.class < state.snap.classes.length)) return go({ kind: "all" }); // its adding was undone
  const { view } = state, list = view.kind === "map" ? [] : groups();
  const visible = new Set(list.flatMap((group) => group.ids));
  if (view.kind !== "map") {
    state.selection = new Set([...state.selection].filter((id) => visible.has(id)));
    if (state.cursor !== null && !visible.has(state.cursor)) state.cursor = null;
    grid.show(list);
    if (state.cursor !== null && isJudging()) grid.reveal(state.cursor);
  }
  $("#scroller").hidden = view.kind === "map";
  $("#map").hidden = view.kind !== "map";
  drawTabs();
  classes.draw();
  drawStats();
  drawStopped();
  $("#hint").textContent = hint(visible.size);
  drawBar();
  if (view.kind === "map") { poolMap.ids = state.items.names.map((_, id) => id); poolMap.draw(); }
}

function drawTabs() {
  const { view } = state;
  const tabs = [["all", "All", poolIds().length], ["suggestions", "Suggestions", suggestions().length],
                ["uncertain", "Uncertain", uncertain().length], ["outliers", "Outliers", outliers().length], ["map", "Map"]];
  if (view.kind === "class") tabs.push(["class", className(view.class)]);
  replaceAll($("#tabs"), tabs.map(([kind, title, n]) => {
    const tab = button("tab", undefined, `view-${kind}`);
    tab.append(element("span", "", title));
    tab.dataset.view = kind;
    if (view.kind === kind) tab.setAttribute("aria-current", "true");
    if (n !== undefined) tab.append(" ", element("small", "", number(n)));
    tab.addEventListener("click", () => go(kind === "class" ? view : { kind }));
    return tab;
  }));
}

function drawBar() {
  bar.draw(typed);
  grid.below = bar.covers;
  if (bar.covers) $("#scroller").style.setProperty("--below", `${bar.covers}px`); // it stays, so that nothing jumps at the end
  $("#scroller").setAttribute("aria-activedescendant", state.cursor === null ? "" : `image${state.cursor}`);
}

function drawStopped() { // it stays until the page is left: no change is taken any more
  $("#stopped").hidden = state.stopped === null;
  $("#stopped span").textContent = state.stopped ?? "";
}

function go(next) {
  const { view } = state;
  if (view.kind !== next.kind || view.class !== next.class) { forget(); $("#scroller").scrollTop = 0; }
  state.view = next;
  location.hash = next.kind === "class" ? `class-${next.class}` : next.kind;
  draw();
  $("#tabs [aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  if (next.kind === "map") openMap(poolMap);
  if (next.kind === "suggestions" && grid.flat.length) select(grid.flat[0]);
}

function goToHash() { // what the address says, also after the browser's back
  const { view, snap } = state;
  const [, kind, c] = /^#(all|suggestions|uncertain|outliers|map|class)(?:-(\d+))?$/.exec(location.hash) ?? [, "all"];
  const next = kind === "class" ? { kind, class: Number(c) } : { kind };
  if (kind === "class" && !(next.class < snap.classes.length)) return;
  if (next.kind !== view.kind || next.class !== view.class) go(next);
}
window.addEventListener("hashchange", () => { if (state.snap) goToHash(); });

// ---- selecting and labeling

function select(id, event = {}) {
  const { selection, anchor } = state;
  if (event.shiftKey && anchor !== null && state.view.kind !== "map") {
    const a = grid.flat.indexOf(anchor), b = grid.flat.indexOf(id);
    state.selection = new Set(grid.flat.slice(Math.min(a, b), Math.max(a, b) + 1));
  } else {
    if (!(event.ctrlKey || event.metaKey || bar.adding)) state.selection = new Set([id]);
    else if (!selection.delete(id)) selection.add(id);
    state.anchor = id;
  }
  state.cursor = id;
  reselect();
}

function forget() { state.selection = new Set(); state.cursor = null; bar.adding = false; }
function unselect() { forget(); reselect(); }

function reselect() {
  clearTyped();
  grid.refresh();
  drawBar();
  poolMap.draw();
}

const label = (ids, to, goOn) => give([[to, ids]], goOn);

function give(labels, goOn = isJudging()) { // [[to, ids], ...]: told in one sentence, and undone by one button
  const chosen = new Set(labels.flatMap(([, ids]) => ids));
  if (!chosen.size) return;
  const last = grid.flat.findLastIndex((id) => chosen.has(id));
  const isLeft = (id) => !state.selection.has(id) && !isGiven(id);
  const after = grid.flat.slice(last + 1).find(isLeft) ?? grid.flat.find(isLeft);
  forget();
  const changes = labels.map(([to, items]) => ({ do: "label", items, to }));
  changes.forEach(act);
  if (state.stopped === null) showDone(changes);
  if (goOn && state.view.kind !== "map" && after !== undefined && grid.place.has(after)) { select(after); grid.reveal(after); }
}

function accept(goOn) { // what is most probable, of each image that has no label yet
  const byClass = new Map();
  for (const id of state.selection) {
    const to = proposal(id);
    if (!isGiven(id) && to !== UNKNOWN) byClass.set(to, [...(byClass.get(to) ?? []), id]);
  }
  give([...byClass], goOn);
}

const clear = () => label([...state.selection].filter(isGiven), CLEAR);
const undo = () => { if (!$("#undo").disabled) act({ do: "undo" }); };

function clearTyped() { clearTimeout(typing); typed = ""; }

function digit(key) {
  if (!state.selection.size) return toast("Select an image first: click it, or use the arrows.");
  clearTimeout(typing);
  typed += key;
  const n = state.snap.classes.length, said = Number(typed);
  const finish = () => {
    const to = typed === "0" ? OUTLIER : Number(typed) - 1;
    clearTyped();
    if (to === OUTLIER || (to >= 0 && to < n)) label([...state.selection], to, true);
    else { toast(`There is no class ${to + 1}.`); drawBar(); }
  };
  if (typed === "0" || said * 10 > n) return finish();
  typing = setTimeout(finish, 700); // it may become the 1 of 12
  return drawBar();
}

function lookBeside(key) { // at the image before or after, which is then selected
  const id = grid.neighbor(state.cursor, key);
  if (id === undefined || state.view.kind === "map") return;
  select(id);
  grid.reveal(id);
  look(id);
}

function listSkipped() {
  const { skipped: sentences } = state.items;
  $("#skipped h2").textContent = `${plural(sentences.length, "file", "files")} skipped`;
  $("#skipped ul").replaceChildren(...sentences.map((sentence) => element("li", "", sentence)));
  $("#skipped").showModal();
}

// ---- events

const on = (selector, what, action) => $(selector).addEventListener(what, action);
const tileOf = (event) => { const tile = event.target.closest(".tile"); return tile ? Number(tile.dataset.id) : null; };
on("#rows", "click", (event) => { const id = tileOf(event); id === null ? unselect() : select(id, event); });
on("#rows", "dblclick", (event) => { const id = tileOf(event); if (id !== null) look(id); });
on("#rows", "dragstart", (event) => {
  const id = tileOf(event);
  if (id === null) return;
  if (!state.selection.has(id)) select(id);
  event.dataTransfer.setData("text/plain", state.items.names[id]);
  event.dataTransfer.effectAllowed = "move";
  const image = event.target.querySelector("img");
  if (image) event.dataTransfer.setDragImage(image, 40, 40);
  document.body.classList.add("dragging"); // the classes show that they take it
});
document.addEventListener("dragend", () => document.body.classList.remove("dragging"));
on("#add-class", "submit", addClass);
on("#undo", "click", undo);
on("#accept", "click", () => accept());
on("#clear", "click", clear);
on("#look", "click", () => look(state.cursor ?? [...state.selection][0]));
on("#more", "click", () => { bar.adding = !bar.adding; drawBar(); });
on("#unselect", "click", unselect);
on("#toast", "click", hideToast);
on("#help-button", "click", () => $("#help").showModal());
on("#skipped-button", "click", listSkipped);
on("#viewer", "click", (event) => {
  const beside = event.target.closest("[data-arrow]");
  beside ? lookBeside(beside.dataset.arrow) : $("#viewer").close();
});
document.addEventListener("click", (event) => { if (!event.target.closest("#download summary")) $("#download").open = false; });

// after a mouse's click on a button, keys are for the images again: Enter would press the button once more
document.addEventListener("click", (event) => {
  const tags = event.composedPath().map((at) => at.tagName); // the button itself may be drawn anew by now
  if (!event.detail || !tags.includes("BUTTON") || $("dialog[open]") || document.activeElement?.tagName === "INPUT") return;
  $(state.view.kind === "map" ? "#points" : "#scroller").focus({ preventScroll: true });
});

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input") || !state.snap) return;
  const { key } = event;
  if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "z") { event.preventDefault(); return undo(); }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if ($("#help").open || $("#skipped").open) return;
  const isButtons = event.target.closest("button, summary, a") && (key === "Enter" || key === " ");
  if ($("#viewer").open) {
    if (key === " " && !isButtons) { event.preventDefault(); return $("#viewer").close(); }
    if (key.startsWith("Arrow")) { event.preventDefault(); return lookBeside(key); }
    if (!/^\d$/.test(key)) return;
    $("#viewer").close();
  }
  if (/^\d$/.test(key)) return digit(key);
  if (key.startsWith("Arrow") && state.view.kind !== "map" && !event.target.closest("nav, aside, header")) {
    event.preventDefault();
    const id = grid.neighbor(state.cursor, key);
    if (id === undefined) return;
    select(id, { shiftKey: event.shiftKey });
    return grid.reveal(id);
  }
  if (isButtons) return;
  if (key === "Enter" && state.selection.size) { event.preventDefault(); accept(true); }
  if (key === " " && state.cursor !== null) { event.preventDefault(); look(state.cursor); }
  if (key === "Backspace") clear();
  if (key === "Escape") { $("#download").open = false; unselect(); }
  if (key === "u" || key === "U") undo();
  if (key === "?") $("#help").showModal();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (state.snap) draw(); });
touch.addEventListener("change", () => { if (state.snap) draw(); });
window.addEventListener("beforeunload", (event) => { if (state.pending.some((change) => change.version === undefined)) event.preventDefault(); });

async function start() {
  try {
    [state.items, state.snap] = await Promise.all([get("api/items"), get("api/state")]);
  } catch (error) {
    return toast(`The page cannot begin: ${error.message}`);
  }
  begin(draw, hideDone);
  document.title = `${state.items.title} · sala`;
  $("#title").textContent = $("#title").title = state.items.title;
  const nSkipped = state.items.skipped.length;
  $("#skipped-button").hidden = !nSkipped;
  $("#skipped-button").textContent = `${plural(nSkipped, "file", "files")} skipped`;
  place();
  draw();
  goToHash();
  document.body.dataset.ready = "yes";
}

start();
