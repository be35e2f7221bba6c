// Talking to the server. A change is shown at once, and taken back if it is refused or cannot be saved.

import { $ } from "./elements.js";
import { place, state, takeSnapshot } from "./state.js";

let news = () => {}; // to be called after any
let queue = Promise.resolve();
let refreshing = null;
let wanted = 0; // the newest version that was saved
let nOnTheWay = 0, failed = false;

export function begin(onNews) {
  news = onNews;
  wanted = state.snap.version;
}

export async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

export function act(change) { // a promise: whether it was saved
  if (change.do === "label") state.pending.push(change);
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
    const answer = await post(change);
    const text = await answer.text();
    if (answer.ok) {
      wanted = change.version = JSON.parse(text).saved;
      failed = false;
    } else {
      sentence = answer.headers.get("Content-Type") === "application/json" ? JSON.parse(text).error : text;
      failed ||= answer.status >= 500; // what is refused (4xx) was no change, and all that is one is saved
      if (answer.status >= 500) sentence = `This was not saved: ${sentence}`;
    }
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
  toast(sentence);
  place();
  news();
  return false;
}

function post({ do: what, items, to, class: number, name }) {
  const body = JSON.stringify({ do: what, run: state.items.run, items, to, class: number, name });
  return fetch("api/act", { method: "POST", headers: { "Content-Type": "application/json" }, body });
}

async function refresh() {
  try {
    do {
      $("#saved").dataset.fitting = "yes";
      const next = await get("api/state");
      if (next.run !== state.items.run) return location.reload(); // another run of the server, with other numbers
      takeSnapshot(next);
      news();
    } while (state.snap.version < wanted);
  } catch (error) {
    toast(`Saved, but the new labels did not arrive: ${error.message}`);
  } finally {
    refreshing = null;
    delete $("#saved").dataset.fitting;
  }
}

function status() {
  const now = nOnTheWay ? "saving" : failed ? "failed" : "saved";
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
