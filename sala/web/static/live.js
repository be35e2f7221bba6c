// Other tabs and browsers on the same state: their changes are shown here as they are saved.

import { followed, known } from "./saving.js";
import { state } from "./state.js";

const RETRY = 2000; // milliseconds, where the server does not answer

export async function follow() {
  for (;;) {
    await inSight(); // a browser has six connections for all its tabs: only those in sight keep one
    try {
      const answer = await fetch(`api/changes?after=${known()}`, { signal: untilHidden() });
      if (!answer.ok) throw new Error(answer.statusText);
      const { run, version } = await answer.json();
      if (run !== state.items.run) return location.reload(); // another run of the server, with other numbers
      followed(version);
    } catch {
      if (!document.hidden) await new Promise((go) => setTimeout(go, RETRY));
    }
  }
}

function inSight() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((go) => document.addEventListener("visibilitychange", go, { once: true })).then(inSight);
}

function untilHidden() {
  const ending = new AbortController();
  document.addEventListener("visibilitychange", () => ending.abort(), { once: true });
  return ending.signal;
}
