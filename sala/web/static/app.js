// The page: draws the images, selects them, and labels the selection.

import { Bar } from "./bar.js";
import { change, giveLabels, redo, undo } from "./changes.js";
import { drawCheck } from "./check.js";
import { Classes, addClass } from "./classes.js";
import { beginClassMenu } from "./classmenu.js";
import { beginCompare } from "./compare.js";
import { hideDone } from "./done.js";
import { $ } from "./elements.js";
import { beginFinding, canFind, fetchNeeded, refined } from "./find.js";
import { Grid } from "./grid.js";
import { findGroups, groupOf, listedGroups } from "./groups.js";
import { listenToKeys } from "./keyboard.js";
import { follow } from "./live.js";
import { openMap, shownMap } from "./mapview.js";
import { begin, get, hideToast, toast } from "./saving.js";
import { beginSkipped } from "./skipped.js";
import { drawStats } from "./stats.js";
import { CLEAR, OUTLIER, UNKNOWN, isGiven, place, poolIds, state } from "./state.js";
import { drawTabs } from "./tabs.js";
import { makeTile, updateTile } from "./tiles.js";
import { beginUpload } from "./upload.js";
import { beginViewer, drawViewer, isLooking, look, lookedAt } from "./viewer.js";
import { listed, suggestions } from "./views.js";
import { hint, touch } from "./words.js";

// ---- drawing

const grid = new Grid($("#scroller"), $("#rows"), { tile: makeTile, update: updateTile });
const classes = new Classes($("#classes"), { // a click only ever shows: labels are given by the bar, by keys or by dragging
  pick: (c) => go(c === OUTLIER ? { kind: "outliers" } : { kind: "class", class: c }),
  drop: (c) => label([...state.selection], c),
  change,
  hover: (c) => { poolMap.dim = c === null ? null : (id) => state.verdicts[id] === c; poolMap.draw(); },
});
const poolMap = shownMap(
  (id, event) => (id === null ? unselect() : select(id, event)),
  (ids, { ctrlKey, metaKey }) => selectThese(ctrlKey || metaKey || bar.adding ? [...state.selection, ...ids] : ids),
);
const bar = new Bar({ assign: (c) => label([...state.selection], c) });

// views where one image is judged after the other: the next one is selected then
const isJudging = () => ["suggestions", "uncertain", "outliers"].includes(state.view.kind);

function draw() {
  if (isClassGone()) return go({ kind: "all" });
  const { view } = state, list = lists();
  const visible = new Set(list.flatMap((group) => group.ids));
  if (view.kind !== "map") {
    state.selection = new Set([...state.selection].filter((id) => visible.has(id)));
    if (state.cursor !== null && !visible.has(state.cursor)) state.cursor = null;
    grid.show(list);
    if (state.cursor !== null && isJudging()) grid.reveal(state.cursor);
  }
  $("#scroller").hidden = view.kind === "map";
  $("#finder").hidden = !canFind();
  $("#map").hidden = view.kind !== "map";
  drawTabs(go);
  classes.draw();
  drawStats();
  drawStopped();
  drawViewer();
  drawCheck();
  $("#hint").textContent = hint(visible.size);
  view.kind === "groups" ? findGroups(false, draw) : fetchNeeded(draw);
  drawBar();
  if (view.kind === "map") { poolMap.ids = state.items.names.map((_, id) => id); poolMap.draw(); }
}

function isClassGone() { // the one in view; it may have another place or name now
  const { view, snap } = state, at = snap.classes.indexOf(view.name);
  if (view.kind !== "class" || snap.classes[view.class] === view.name) return false;
  if (at < 0 && snap.classes.length !== view.n) return true; // merged, deleted, or its adding was undone
  if (at >= 0) view.class = at;
  Object.assign(view, { name: snap.classes[view.class], n: snap.classes.length });
  return false;
}

function lists() {
  if (state.view.kind === "map") return [];
  return state.view.kind === "groups" ? listedGroups({ confirm: confirmGroup, select: selectThese, draw }) : refined(listed());
}

function drawBar() {
  bar.draw();
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
  state.view = { ...next, name: state.snap.classes[next.class], n: state.snap.classes.length };
  const hash = `#${next.kind === "class" ? `class-${next.class}` : next.kind}`;
  if (view.kind) location.hash = hash; else history.replaceState(null, "", hash); // no step back to before the first view
  draw();
  $("#tabs [aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  if (next.kind === "map") openMap(poolMap);
  if (next.kind === "groups") findGroups(true, draw);
  if (next.kind === "suggestions" && grid.flat.length) select(grid.flat[0]);
}

function goToHash() { // what the address says, also after the browser's back
  const { view, snap } = state;
  const first = suggestions().length ? "suggestions" : "all"; // where the page opens
  const [, kind, c] = /^#(all|suggestions|uncertain|outliers|groups|map|class)(?:-(\d+))?$/.exec(location.hash) ?? [, first];
  const isGone = kind === "class" && !(Number(c) < snap.classes.length);
  const next = isGone ? { kind: first } : kind === "class" ? { kind, class: Number(c) } : { kind };
  if (next.kind !== view.kind || next.class !== view.class) go(next);
}
window.addEventListener("hashchange", () => { if (state.snap) goToHash(); });

// ---- selecting

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

function selectAll() { // of the view
  state.selection = new Set(state.view.kind === "map" ? poolIds() : grid.flat);
  reselect();
}

function selectThese(ids) {
  state.selection = new Set(ids);
  state.cursor = state.anchor = ids[0] ?? null;
  draw();
}

function forget() { state.selection = new Set(); state.cursor = null; bar.adding = false; }
function unselect() { forget(); reselect(); }

function reselect() {
  grid.refresh();
  drawBar();
  poolMap.draw();
}

function move({ key, shiftKey }) { // by an arrow
  if (state.view.kind === "map") return false;
  const id = grid.neighbor(state.cursor, key);
  if (id !== undefined) { select(id, { shiftKey }); grid.reveal(id); }
  return true;
}

function lookBeside(key) { // at the image before or after, which is then selected
  const id = grid.neighbor(state.cursor, key);
  if (id === undefined || state.view.kind === "map") return;
  select(id);
  grid.reveal(id);
  look(id);
}

// ---- labeling: what is looked at, else what is selected

const chosen = () => (isLooking() ? [lookedAt()] : [...state.selection]);
const label = (ids, to, goOn) => give([[to, ids]], goOn);

function give(parts, goOn = isJudging() || isLooking()) { // [[to, ids], ...]: one change, told in one sentence
  const ids = new Set(parts.flatMap(([, some]) => some));
  if (!ids.size) return;
  const last = grid.flat.findLastIndex((id) => ids.has(id));
  const isLeft = (id) => !ids.has(id) && !isGiven(id);
  const after = grid.flat.slice(last + 1).find(isLeft) ?? grid.flat.find(isLeft);
  forget();
  giveLabels(parts);
  if (goOn && state.view.kind !== "map" && after !== undefined && grid.place.has(after)) {
    select(after);
    grid.reveal(after);
    if (isLooking()) look(after);
  } else if (isLooking()) $("#viewer").close();
}

function accept(goOn) { // what is most probable, of each image that has no label yet
  const byClass = new Map();
  for (const id of chosen()) {
    const to = state.verdicts[id];
    if (isGiven(id) || to === UNKNOWN) continue;
    if (!byClass.has(to)) byClass.set(to, []);
    byClass.get(to).push(id);
  }
  give([...byClass], goOn);
}

const confirmGroup = (to, ids) => label(ids, to, false);
const clear = () => label(chosen().filter(isGiven), CLEAR);

// ---- events

const on = (selector, what, action) => $(selector).addEventListener(what, action);
const tileOf = (event) => { const tile = event.target.closest(".tile"); return tile ? Number(tile.dataset.id) : null; };
on("#rows", "click", (event) => { const id = tileOf(event); if (event.target.closest("button")) return; id === null ? unselect() : select(id, event); });
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
on("#add-class", "submit", (event) => addClass(event, change));
on("#undo", "click", () => undo()); on("#redo", "click", redo);
on("#accept", "click", () => accept());
on("#clear", "click", clear);
on("#look", "click", () => look(state.cursor ?? [...state.selection][0]));
on("#select-all", "click", selectAll);
on("#more", "click", () => { bar.adding = !bar.adding; drawBar(); });
on("#unselect", "click", unselect);
on("#toast", "click", hideToast);
on("#help-button", "click", () => $("#help").showModal());
document.addEventListener("click", (event) => { if (!event.target.closest("#download summary")) $("#download").open = false; });

// after a mouse's click on a button, keys are for the images again: Enter would press the button once more
document.addEventListener("click", (event) => {
  const tags = event.composedPath().map((at) => at.tagName); // the button itself may be drawn anew by now
  if (!event.detail || !tags.includes("BUTTON") || $("dialog[open]:not(#viewer)") || document.activeElement?.tagName === "INPUT") return;
  const where = isLooking() ? "#viewer" : state.view.kind === "map" ? "#points" : "#scroller";
  $(where).focus({ preventScroll: true });
});

beginClassMenu(change);
beginUpload();
beginCompare((id, to) => label([id], to, true));
beginViewer({ assign: (c) => label(chosen(), c), accept: () => accept(), beside: lookBeside });
listenToKeys({
  accept: () => { const any = chosen().length > 0; accept(true); return any; },
  acceptGroup: () => {
    const group = state.view.kind === "groups" && !isLooking() ? groupOf(state.cursor) : null;
    if (group) confirmGroup(...group);
    return group !== null;
  },
  give: (c) => (chosen().length ? label(chosen(), c, true) : toast("Select an image first: click it, or use the arrows.")) ?? true,
  undo: () => undo(),
  clear, redo, selectAll, move,
  lookBeside: (key) => { lookBeside(key); return true; },
  look: () => { if (state.cursor === null) return false; look(state.cursor); return true; },
  stopLooking: () => $("#viewer").close(),
  unselect: () => { $("#download").open = false; unselect(); },
  help: () => $("#help").showModal(),
  find: () => { if ($("#finder").hidden) return false; $("#find").focus(); return true; },
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
  beginSkipped();
  place();
  beginFinding(draw);
  state.view = { kind: "" }; // so that the first one is gone to
  goToHash();
  document.body.dataset.ready = "yes";
  follow();
}

start();
