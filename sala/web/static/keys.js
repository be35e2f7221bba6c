// The key of each class: digits, then letters, so that no key has to wait for a second one.

import { OUTLIER, state } from "./state.js";

const KEYS = "123456789abdefghijklmnopqrstvwxyz"; // without c, which compares, and u, which undoes

export const keyOf = (c) => (c === OUTLIER ? "0" : KEYS[c] ?? ""); // classes beyond have a button only

export function classOf(key) { // undefined where the key is no class's
  const c = key === "0" ? OUTLIER : key.length === 1 ? KEYS.indexOf(key.toLowerCase()) : -1;
  return c === OUTLIER || (c >= 0 && c < state.snap.classes.length) ? c : undefined;
}
