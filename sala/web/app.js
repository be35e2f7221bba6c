// The page: what the server says of the images, and what the user says. Names are only ever set as text.

import { Grid } from "./grid.js";
import { PoolMap } from "./map.js";

const UNKNOWN = -1, NONE = -2, CLEAR = -3;
const $ = (selector) => document.querySelector(selector);
const number = (n) => n.toLocaleString("en");
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

let items = null; // names, in_pool, ...: they stay
let snap = null; // the last answer of the server
let before = null; // counts and estimate before it, to show what moved
let verdicts = []; // where each image is put, with what is still on its way
let pending = []; // changes that the snapshot does not know yet
let view = { kind: "all" };
let selection = new Set();
let cursor = null, anchor = null;
let typed = "", typing = null; // digits of a class with more than one

// ---- talking to the server

async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

let queue = Promise.resolve();
let refreshing = null;

function act(change) {
  if (change.do === "label") pending.push(change);
  status("saving");
  queue = queue.then(() => save(change));
  settle();
  return queue;
}

async function save(change) {
  try {
    const answer = await fetch("api/act", {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ do: change.do, items: change.items, to: change.to, class: change.class, name: change.name }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(answer.headers.get("Content-Type") === "application/json" ? JSON.parse(text).error : text);
    change.version = JSON.parse(text).saved;
    wanted = change.version;
    status("saved");
    refreshing ??= refresh();
  } catch (error) {
    pending = pending.filter((other) => other !== change);
    status("failed");
    toast(error instanceof TypeError ? "The server does not answer: this was not saved. Is sala serve still running?" : error.message);
    settle();
  }
}

let wanted = 0; // the newest version that was saved

async function refresh() {
  try {
    do {
      $("#saved").dataset.fitting = "yes";
      take(await get("api/state"));
    } while (snap.version < wanted);
  } catch (error) {
    toast(`Saved, but the new labels did not arrive: ${error.message}`);
  } finally {
    refreshing = null;
    delete $("#saved").dataset.fitting;
  }
}

function take(next) {
  before = snap && next.version !== snap.version ? { counts: counts(), estimate: snap.estimate } : before;
  snap = next;
  pending = pending.filter((change) => change.version === undefined || change.version > snap.version);
  settle();
}

function status(state) {
  const element = $("#saved");
  element.dataset.state = state;
  element.textContent = { saving: "saving …", saved: "saved", failed: "not saved" }[state];
}

function toast(text) {
  const element = $("#toast");
  element.textContent = text;
  element.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { element.hidden = true; }, 7000);
}

// ---- what is where

function settle() { // after any news
  const given = snap.given.slice();
  for (const { items: ids, to } of pending) for (const id of ids) given[id] = to === CLEAR ? UNKNOWN : to;
  snap.now = given;
  verdicts = given.map((to, id) => (to !== UNKNOWN ? to : snap.junk[id] ? NONE : snap.label[id]));
  draw();
}

const isGiven = (id) => snap.now[id] !== UNKNOWN;
const colour = (c) => (c < 0 ? "var(--none)" : `oklch(${c % 2 ? "var(--odd)" : "var(--even)"} ${(c * 137.5 + 25) % 360})`);
const sureness = (id) => (isGiven(id) ? 1000 : (snap.probability[id] * (1000 - snap.none[id])) / 1000);
const className = (c) => (c === NONE ? "none of these" : c === UNKNOWN ? "not known yet" : snap.classes[c]);

function poolIds(keep) {
  const ids = [];
  for (let id = 0; id < items.names.length; id++) if (items.in_pool[id] && keep(id)) ids.push(id);
  return ids;
}

function counts() { // of the pool, by class; the last is none of these
  const result = new Array(snap.classes.length + 1).fill(0);
  verdicts.forEach((v, id) => { if (items.in_pool[id] && v !== UNKNOWN) result[v === NONE ? snap.classes.length : v]++; });
  return result;
}

const bySure = (a, b) => sureness(b) - sureness(a) || a - b;
const byDoubt = (a, b) => sureness(a) - sureness(b) || a - b;
const doubtful = () => poolIds((id) => !isGiven(id) && !snap.junk[id] && sureness(id) < snap.sure).sort(byDoubt);
const nextIds = () => snap.next.filter((id) => !isGiven(id));
const junk = () => poolIds((id) => verdicts[id] === NONE);

function groups() {
  const { kind } = view;
  if (kind === "doubtful") return [{ ids: withSelected(doubtful()) }];
  if (kind === "next") return [{ ids: withSelected(nextIds()) }];
  if (kind === "junk") return [{ ids: junk().sort((a, b) => isGiven(a) - isGiven(b) || snap.none[b] - snap.none[a] || a - b) }];
  if (kind === "class") return classGroups(view.class);
  const lists = snap.classes.map(() => []);
  const aside = [], unknown = [];
  for (const id of poolIds(() => true)) (verdicts[id] === NONE ? aside : verdicts[id] === UNKNOWN ? unknown : lists[verdicts[id]]).push(id);
  return [
    ...lists.map((ids, c) => ({ title: snap.classes[c], colour: colour(c), ids: ids.sort(bySure) })),
    { title: "none of these", colour: colour(NONE), ids: aside },
    { title: "not known yet", ids: unknown },
  ].filter((group) => group.ids.length);
}

// new labels arrive while the user looks at an image: what is selected stays, or a key would label another one
function withSelected(ids) {
  const listed = new Set(ids);
  return [...[...selection].filter((id) => !listed.has(id) && !isGiven(id)), ...ids];
}

function classGroups(c) {
  const all = items.names.map((_, id) => id).filter((id) => verdicts[id] === c);
  const parts = [
    { title: "Examples", ids: all.filter(isGiven) },
    { title: "Doubtful", ids: all.filter((id) => !isGiven(id) && sureness(id) < snap.sure).sort(byDoubt) },
    { title: "Predicted", ids: all.filter((id) => !isGiven(id) && sureness(id) >= snap.sure).sort(byDoubt) },
  ];
  return parts.filter((part) => part.ids.length).map((part) => ({ ...part, colour: colour(c) }));
}

// ---- drawing

const picture = (id) => `thumb/${id}?run=${items.run}`;

const grid = new Grid($("#scroller"), $("#rows"), { tile: makeTile, update: updateTile });

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function makeTile(id) {
  const tile = element("div", "tile");
  tile.dataset.id = id;
  tile.setAttribute("role", "option");
  tile.draggable = true;
  const frame = element("div", "frame");
  const image = element("img");
  image.alt = items.names[id];
  image.decoding = "async";
  image.draggable = false;
  image.src = picture(id);
  image.addEventListener("error", () => frame.classList.add("broken"));
  const sure = element("i", "sure");
  frame.append(image, element("span", "mark"), sure);
  const caption = element("div", "caption");
  caption.append(element("b"), element("span"));
  tile.append(frame, caption);
  tile.title = items.names[id];
  return tile;
}

function updateTile(tile, id) {
  const v = verdicts[id], given = isGiven(id), [frame, caption] = tile.children;
  tile.classList.toggle("selected", selection.has(id));
  tile.classList.toggle("cursor", cursor === id);
  tile.setAttribute("aria-selected", selection.has(id));
  tile.classList.toggle("given", given);
  tile.dataset.verdict = v;
  tile.style.setProperty("--class", colour(v));
  const [, mark, sure] = frame.children;
  mark.textContent = given ? "✓" : "";
  sure.style.width = `${(v === NONE && !given ? snap.none[id] : sureness(id)) / 10}%`;
  caption.children[0].textContent = className(v);
  caption.children[1].textContent = told(id, v, given);
}

function told(id, v, given) {
  if (given) return items.in_pool[id] ? "you said so" : "example";
  if (v === UNKNOWN) return "";
  if (v === NONE) return `${(snap.none[id] / 10).toFixed(0)} % · else ${className(snap.label[id])}`;
  const first = `${(snap.probability[id] / 10).toFixed(0)} %`;
  if (snap.probability[id] >= 900 || snap.runner_up[id] === v) return snap.none[id] > 300 ? `${first} · none ${(snap.none[id] / 10).toFixed(0)} %` : first;
  return `${first} · ${className(snap.runner_up[id])} ${(snap.second[id] / 10).toFixed(0)} %`;
}

function draw() {
  const visible = new Set();
  const list = view.kind === "map" ? [] : groups();
  for (const group of list) for (const id of group.ids) visible.add(id);
  if (view.kind !== "map") {
    selection = new Set([...selection].filter((id) => visible.has(id)));
    if (cursor !== null && !visible.has(cursor)) cursor = null;
    grid.show(list);
    if (cursor !== null && (view.kind === "next" || view.kind === "doubtful")) grid.reveal(cursor);
  }
  $("#scroller").hidden = view.kind === "map";
  $("#map").hidden = view.kind !== "map";
  drawTabs();
  drawClasses();
  drawStats();
  drawHint(visible.size);
  drawBar();
  if (view.kind === "map") { poolMap.ids = items.names.map((_, id) => id); poolMap.draw(); }
}

function drawTabs() {
  const nDoubt = doubtful().length, nJunk = junk().length, nNext = nextIds().length;
  const tabs = [["all", "All", poolIds(() => true).length], ["next", "Label next", nNext], ["doubtful", "Doubtful", nDoubt],
                ["junk", "None of these", nJunk], ["map", "Map"]];
  if (view.kind === "class") tabs.push(["class", className(view.class), null]);
  $("#tabs").replaceChildren(...tabs.map(([kind, title, n]) => {
    const tab = element("button", "tab", title);
    tab.type = "button";
    tab.dataset.view = kind;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-selected", view.kind === kind);
    if (n !== undefined && n !== null) tab.append(element("small", "", number(n)));
    tab.addEventListener("click", () => go(kind === "class" ? view : { kind }));
    return tab;
  }));
}

function drawClasses() {
  if ($("#classes input")) return; // a name is being written
  const now = counts();
  const examples = snap.classes.map(() => []);
  snap.now.forEach((to, id) => { if (to >= 0) examples[to].push(id); });
  const rows = snap.classes.map((name, c) => classRow(c, name, now[c], examples[c]));
  rows.push(classRow(NONE, "none of these", now[snap.classes.length], []));
  $("#classes").replaceChildren(...rows);
  $("#classes").classList.toggle("armed", selection.size > 0);
}

function classRow(c, name, n, examples) {
  const row = element("div", "class");
  row.dataset.class = c;
  row.style.setProperty("--class", colour(c));
  row.classList.toggle("open", (view.kind === "class" && view.class === c) || (view.kind === "junk" && c === NONE));
  const button = element("button", "pick");
  button.type = "button";
  const key = element("kbd", "", c === NONE ? "0" : String(c + 1));
  const title = element("span", "name", name);
  const count = element("span", "count", number(n));
  const moved = before && before.counts.length === snap.classes.length + 1 ? n - before.counts[c === NONE ? snap.classes.length : c] : 0;
  const move = element("i", `move ${moved > 0 ? "up" : "down"}`, moved ? `${moved > 0 ? "+" : "−"}${Math.abs(moved)}` : "");
  button.append(key, element("i", "swatch"), title, move, count);
  button.title = c === NONE ? "Images of no class" : `${number(examples.length)} labelled, ${number(n)} of the pool`;
  button.addEventListener("click", () => (selection.size ? label([...selection], c) : go(c === NONE ? { kind: "junk" } : { kind: "class", class: c })));
  row.append(button);
  if (c !== NONE) {
    const pencil = element("button", "rename", "✎");
    pencil.type = "button";
    pencil.title = "Rename";
    pencil.setAttribute("aria-label", `Rename ${name}`);
    pencil.addEventListener("click", () => rename(row, c));
    row.append(pencil);
    const strip = element("div", "strip");
    for (const id of examples.slice(-5).reverse()) {
      const image = element("img");
      image.alt = "";
      image.src = picture(id);
      strip.append(image);
    }
    if (!examples.length) strip.append(element("em", "", "needs an example"));
    row.append(strip);
  }
  row.addEventListener("dragover", (event) => { event.preventDefault(); row.classList.add("over"); });
  row.addEventListener("dragleave", () => row.classList.remove("over"));
  row.addEventListener("drop", (event) => {
    event.preventDefault();
    row.classList.remove("over");
    label([...selection], c);
  });
  row.addEventListener("pointerenter", () => { poolMap.dim = (id) => verdicts[id] === c; poolMap.draw(); });
  row.addEventListener("pointerleave", () => { poolMap.dim = null; poolMap.draw(); });
  return row;
}

function rename(row, c) {
  const input = element("input");
  input.value = snap.classes[c];
  input.maxLength = 80;
  input.setAttribute("aria-label", "Name of the class");
  row.querySelector(".pick").replaceWith(input);
  input.focus();
  input.select();
  let ended = false; // taking the field away blurs it
  const end = (save) => {
    if (ended) return;
    ended = true;
    const name = input.value;
    input.remove();
    if (save && name.trim() && name !== snap.classes[c]) act({ do: "rename", class: c, name });
    drawClasses();
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") end(true);
    if (event.key === "Escape") end(false);
  });
  input.addEventListener("blur", () => end(true));
}

function drawStats() {
  $("#estimate").textContent = percent(snap.estimate);
  const moved = before ? 100 * (snap.estimate - before.estimate) : 0;
  const move = $("#estimate-move");
  move.textContent = Math.abs(moved) >= 0.005 ? `${moved > 0 ? "▲" : "▼"} ${Math.abs(moved).toFixed(2)}` : "";
  move.className = `move ${moved > 0 ? "up" : "down"}`;
  $("#n-given").textContent = `${number(poolIds(isGiven).length)} of ${number(poolIds(() => true).length)}`;
  $("#checked").textContent = snap.checked ? `${number(snap.agreed)} of ${number(snap.checked)} right` : "none yet";
  $("#undo").disabled = !snap.undo && !pending.length;
  $("#saved").title = `The last fit took ${snap.seconds.toFixed(2)} s`;
  drawSpark(snap.history);
}

function drawSpark(values) {
  const canvas = $("#spark"), pen = canvas.getContext("2d"), { width, height } = canvas;
  pen.clearRect(0, 0, width, height);
  canvas.hidden = values.length < 2;
  if (canvas.hidden) return;
  const low = Math.min(...values), high = Math.max(...values, low + 0.005);
  pen.strokeStyle = pen.fillStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 3;
  pen.lineJoin = "round";
  pen.beginPath();
  let x = 0, y = 0;
  values.forEach((value, i) => {
    x = 6 + (i / (values.length - 1)) * (width - 14);
    y = height - 8 - ((value - low) / (high - low)) * (height - 16);
    i ? pen.lineTo(x, y) : pen.moveTo(x, y);
  });
  pen.stroke();
  pen.beginPath();
  pen.arc(x, y, 5, 0, 7);
  pen.fill();
}

function drawHint(n) {
  const hints = {
    all: "Select images and press a class’s number, or drag them onto the class.",
    next: "The images whose labels would help most, in order. Press a class’s number, Enter if the prediction is right, 0 for none of these.",
    doubtful: `Less than ${Math.round(snap.sure / 10)} % sure, the least sure first.`,
    junk: "Set aside as of none of the classes. How many is an estimate: look through them. The surest first.",
    class: "Your examples, then what is predicted, the least sure first.",
    map: "Alike images lie together. Ringed points are labelled; wheel to zoom, drag to move, click to select.",
  };
  const empty = { next: "Nothing is left to ask: every image has a label.", doubtful: "No image is in doubt.", junk: "Nothing was set aside.",
                  all: "The pool is empty.", class: "No image is in this class yet. Drag one here." };
  const needs = !snap.classes.length ? "Add a class on the left, then give it an example." : null;
  $("#hint").textContent = needs ?? (n || view.kind === "map" ? hints[view.kind] : empty[view.kind]);
}

function drawBar() {
  $("#bar").hidden = !selection.size;
  if (!selection.size) return;
  const [id] = selection;
  const what = selection.size === 1 ? items.names[id] : `${number(selection.size)} images`;
  $("#bar-text").textContent = typed ? `class ${typed} …` : what;
  $("#accept").hidden = ![...selection].some((id) => !isGiven(id) && verdicts[id] !== UNKNOWN);
  $("#clear").hidden = ![...selection].some(isGiven);
}

function go(next) {
  if (view.kind !== next.kind || view.class !== next.class) { selection = new Set(); cursor = null; $("#scroller").scrollTop = 0; }
  view = next;
  location.hash = next.kind === "class" ? `class-${next.class}` : next.kind;
  draw();
  if (next.kind === "map") openMap();
  if (next.kind === "next" && grid.flat.length) select(grid.flat[0]);
}

function goToHash() { // what the address says, also after the browser's back
  const [, kind, c] = /^#(all|next|doubtful|junk|map|class)(?:-(\d+))?$/.exec(location.hash) ?? [, "all"];
  const next = kind === "class" ? { kind, class: Number(c) } : { kind };
  if (kind === "class" && !(next.class < snap.classes.length)) return;
  if (next.kind !== view.kind || next.class !== view.class) go(next);
}
window.addEventListener("hashchange", () => { if (snap) goToHash(); });

// ---- the map

const poolMap = new PoolMap($("#points"), {
  colour: (id) => resolved(verdicts[id]),
  isStrong: (id) => isGiven(id) && verdicts[id] >= 0,
  isSelected: (id) => selection.has(id),
  onHover: peek,
  onPick: (id, event) => (id === null ? unselect() : select(id, event)),
});

const colours = new Map();
function resolved(c) { // a canvas knows no variables
  if (!colours.has(c)) {
    const probe = element("i");
    probe.style.color = colour(c);
    document.body.append(probe);
    colours.set(c, getComputedStyle(probe).color);
    probe.remove();
  }
  return colours.get(c);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours.clear(); draw(); });

async function openMap() {
  if (poolMap.points) return;
  $("#map-wait").hidden = false;
  try {
    poolMap.points = (await get("api/map")).points;
    $("#map-wait").hidden = true;
    poolMap.draw();
  } catch (error) {
    toast(`The map cannot be had: ${error.message}`);
  }
}

function peek(id, place) {
  const figure = $("#peek");
  figure.hidden = id === null;
  if (id === null) return;
  const image = figure.querySelector("img"), room = $("#map");
  image.src = picture(id);
  figure.querySelector("figcaption").textContent = `${className(verdicts[id])} · ${told(id, verdicts[id], isGiven(id))}`;
  const [x, y] = place;
  figure.style.left = `${x + 200 > room.clientWidth ? x - 196 : x + 16}px`;
  figure.style.top = `${Math.max(4, Math.min(y - 60, room.clientHeight - 216))}px`;
}

// ---- selecting and labelling

function select(id, event = {}) {
  if (event.shiftKey && anchor !== null && view.kind !== "map") {
    const a = grid.flat.indexOf(anchor), b = grid.flat.indexOf(id);
    selection = new Set(grid.flat.slice(Math.min(a, b), Math.max(a, b) + 1));
  } else if (event.ctrlKey || event.metaKey) {
    selection.has(id) ? selection.delete(id) : selection.add(id);
    anchor = id;
  } else {
    selection = new Set([id]);
    anchor = id;
  }
  cursor = id;
  reselect();
}

function unselect() { selection.clear(); cursor = null; reselect(); }

function reselect() {
  clearTyped();
  grid.refresh();
  $("#classes").classList.toggle("armed", selection.size > 0);
  drawBar();
  poolMap.draw();
}

// where one image is judged after the other the next one is selected; elsewhere a click would label it by accident
function label(ids, to, goOn = view.kind === "next" || view.kind === "doubtful") {
  if (!ids.length) return;
  const last = Math.max(...ids.map((id) => grid.flat.indexOf(id)));
  const after = grid.flat.slice(last + 1).find((id) => !selection.has(id) && !isGiven(id))
    ?? grid.flat.find((id) => !selection.has(id) && !isGiven(id));
  selection.clear();
  cursor = null;
  act({ do: "label", items: ids, to });
  if (goOn && view.kind !== "map" && after !== undefined && grid.place.has(after)) { select(after); grid.reveal(after); }
}

function accept(goOn) {
  const byVerdict = new Map();
  for (const id of selection) {
    if (isGiven(id) || verdicts[id] === UNKNOWN) continue;
    byVerdict.set(verdicts[id], [...(byVerdict.get(verdicts[id]) ?? []), id]);
  }
  for (const [to, ids] of byVerdict) label(ids, to, goOn);
}

const undo = () => { if (!$("#undo").disabled) act({ do: "undo" }); };

function clearTyped() { clearTimeout(typing); typed = ""; }

function digit(key) {
  if (!selection.size) return toast("Select an image first: click it, or use the arrows.");
  clearTimeout(typing);
  typed += key;
  const n = snap.classes.length, said = Number(typed);
  const finish = () => {
    const to = typed === "0" ? NONE : Number(typed) - 1;
    clearTyped();
    if (to === NONE || (to >= 0 && to < n)) label([...selection], to, true);
    else { toast(`There is no class ${to + 1}.`); drawBar(); }
  };
  if (typed === "0" || said * 10 > n) return finish();
  typing = setTimeout(finish, 700); // it may become the 1 of 12
  return drawBar();
}

function look(id) {
  const viewer = $("#viewer");
  viewer.querySelector("img").src = `image/${id}?run=${items.run}`;
  viewer.querySelector("h2").textContent = items.names[id];
  viewer.querySelector("p").textContent = `${className(verdicts[id])} · ${told(id, verdicts[id], isGiven(id))}`;
  if (!viewer.open) viewer.showModal();
}

// ---- events

const tileOf = (event) => { const tile = event.target.closest(".tile"); return tile ? Number(tile.dataset.id) : null; };
$("#rows").addEventListener("click", (event) => { const id = tileOf(event); id === null ? unselect() : select(id, event); });
$("#rows").addEventListener("dblclick", (event) => { const id = tileOf(event); if (id !== null) look(id); });
$("#rows").addEventListener("dragstart", (event) => {
  const id = tileOf(event);
  if (id === null) return;
  if (!selection.has(id)) select(id);
  event.dataTransfer.setData("text/plain", items.names[id]);
  event.dataTransfer.effectAllowed = "move";
  const image = event.target.querySelector("img");
  if (image) event.dataTransfer.setDragImage(image, 40, 40);
  document.body.classList.add("dragging");
});
document.addEventListener("dragend", () => document.body.classList.remove("dragging"));
$("#add-class").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = $("#new-name");
  if (input.value.trim()) act({ do: "add", name: input.value });
  input.value = "";
});
$("#undo").addEventListener("click", undo);
$("#accept").addEventListener("click", () => accept());
$("#none").addEventListener("click", () => label([...selection], NONE));
$("#clear").addEventListener("click", () => label([...selection].filter(isGiven), CLEAR));
$("#look").addEventListener("click", () => look([...selection][0]));
$("#unselect").addEventListener("click", unselect);
$("#help-button").addEventListener("click", () => $("#help").showModal());
$("#viewer").addEventListener("click", () => $("#viewer").close());
document.addEventListener("click", (event) => { if (!event.target.closest("#download summary")) $("#download").open = false; });

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input") || !snap) return;
  const { key } = event;
  if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "z") { event.preventDefault(); return undo(); }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if ($("#viewer").open) {
    if (key === " ") { event.preventDefault(); return $("#viewer").close(); }
    if (!/^\d$|^Arrow/.test(key)) return;
    if (/^\d$/.test(key)) $("#viewer").close();
  }
  if ($("#help").open) return;
  if (/^\d$/.test(key)) return digit(key);
  if (key.startsWith("Arrow") && view.kind !== "map" && !event.target.closest("nav, aside, header")) {
    event.preventDefault();
    const id = grid.neighbour(cursor, key);
    if (id === undefined) return;
    select(id, { shiftKey: event.shiftKey });
    grid.reveal(id);
    if ($("#viewer").open) look(id);
    return;
  }
  if (event.target.closest("button, summary, a") && (key === "Enter" || key === " ")) return; // it is that button's
  if (key === "Enter" && selection.size) { event.preventDefault(); accept(true); }
  if (key === " " && cursor !== null) { event.preventDefault(); look(cursor); }
  if (key === "Backspace") label([...selection].filter(isGiven), CLEAR);
  if (key === "Escape") unselect();
  if (key === "u" || key === "U") undo();
  if (key === "?") $("#help").showModal();
});

window.addEventListener("beforeunload", (event) => { if (pending.some((change) => change.version === undefined)) event.preventDefault(); });

async function begin() {
  try {
    [items, snap] = await Promise.all([get("api/items"), get("api/state")]);
  } catch (error) {
    return toast(`The page cannot begin: ${error.message}`);
  }
  wanted = snap.version;
  document.title = `${items.title} · sala`;
  $("#title").textContent = items.title;
  if (items.set_aside.length) {
    $("#set-aside").append(element("h2", "", `${number(items.set_aside.length)} files were set aside`));
    for (const sentence of items.set_aside.slice(0, 200)) $("#set-aside").append(element("p", "", sentence));
  }
  settle();
  goToHash();
  document.body.dataset.ready = "yes";
}

begin();
