// Talking to the server. A change is shown at once, and taken back if it is refused or cannot be saved.

import { $ } from "./elements.js";
import { place, state, takeSnapshot } from "./state.js";

let news = () => {}, hideDone = () => {}; // to be called after any; before a change, and where one fails
let queue = Promise.resolve();
let refreshing = null;
let wanted = 0; // the newest version that was saved
let nOnTheWay = 0, failed = false;

export function begin(onNews, onChange) {
  news = onNews;
  hideDone = onChange;
  wanted = state.snap.version;
  state.stopped = state.snap.stopped;
  countSteps();
  status();
}

export async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

export function act(change) { // a promise: whether it was saved
  if (state.stopped !== null) {
    toast("This is not saved: no more changes are taken.");
    return Promise.resolve(false);
  }
  hideDone();
  if (change.parts) state.pending.push(change);
  takeStep(change.do);
  nOnTheWay++;
  status();
  hideToast();
  queue = queue.then(() => save(change));
  place();
  news();
  return queue;
}

async function save(change) {
  let sentence = null;
  try {
    if (!isVoid(change)) sentence = await answered(change, await post(change));
  } catch {
    failed = true;
    sentence = "The server does not answer: this was not saved. Is sala serve still running?";
  }
  nOnTheWay--;
  status();
  if (sentence === null) {
    refreshing ??= refresh();
    return true;
  }
  state.pending = state.pending.filter((other) => other !== change);
  if (!nOnTheWay) countSteps();
  hideDone();
  if (state.stopped === null) toast(sentence); // else the page says so, and goes on saying it
  place();
  news();
  return false;
}

const isVoid = ({ of }) => of !== undefined && of.version === undefined; // undoes a change that could not be saved

async function answered(change, answer) { // null, or a sentence that says why it was not done
  const text = await answer.text();
  if (answer.ok) {
    change.answer = JSON.parse(text);
    wanted = change.version = change.answer.saved;
    failed = false;
    return null;
  }
  const said = answer.headers.get("Content-Type") === "application/json" ? JSON.parse(text) : { error: text };
  if (said.stopped) state.stopped = said.error;
  if (answer.status < 500) return said.error; // what is refused was no change, and all that is one is saved
  failed = true;
  return `This was not saved: ${said.error}`;
}

const NUMBERED = ["label", "labels", "answer", "rename", "merge", "delete", "order"]; // refused where classes have other numbers by now

function takeStep(what) { // what can be undone and redone, before the server says so
  const { undo, redo } = state.steps;
  state.steps = what === "undo" ? { undo: undo - 1, redo: redo + 1 } : { undo: undo + 1, redo: what === "redo" ? redo - 1 : 0 };
}
function countSteps() { state.steps = { undo: state.snap.undo, redo: state.snap.redo }; }

function post({ of, version: _, ...change }) {
  if (change.file) return fetch("api/upload", { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: change.file });
  const numbering = NUMBERED.includes(change.do) ? state.snap.numbering : undefined;
  const body = JSON.stringify({ ...change, run: state.items.run, numbering, version: of?.version });
  return fetch("api/act", { method: "POST", headers: { "Content-Type": "application/json" }, body });
}

export const known = () => Math.max(wanted, state.snap.version);

export function followed(version) { // another tab or browser saved this
  wanted = Math.max(wanted, version);
  if (state.snap.version < wanted) refreshing ??= refresh();
}

async function refresh() {
  try {
    do {
      $("#saved").dataset.fitting = "yes";
      const next = await get("api/state");
      if (next.run !== state.items.run) return location.reload(); // another run of the server, with other numbers
      takeSnapshot(next);
      if (!nOnTheWay && next.version >= wanted) countSteps();
      news();
    } while (state.snap.version < wanted);
  } catch (error) {
    toast(`What is saved is saved, but the new labels did not arrive: ${error.message}`);
  } finally {
    refreshing = null;
    delete $("#saved").dataset.fitting;
  }
}

function status() {
  const now = nOnTheWay ? "saving" : failed || state.stopped !== null ? "failed" : "saved";
  const element = $("#saved");
  element.dataset.state = now;
  element.textContent = { saving: "saving …", saved: "saved", failed: "not saved" }[now];
}

export function toast(text) {
  const element = $("#toast");
  element.textContent = text[0].toUpperCase() + text.slice(1);
  element.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(hideToast, 7000);
}

export function hideToast() { $("#toast").hidden = true; }
