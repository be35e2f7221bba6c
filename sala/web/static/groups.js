// Groups of similar images of one prediction: one click confirms a group, one undo takes it back.

import { get, toast } from "./saving.js";
import { className, color, isGiven, state } from "./state.js";
import { number } from "./words.js";

const LEAST = 2; // a group of which fewer are left is shown no more
let found = null, foundAt = -1; // [[to, ids], ...], at a version of the state
let isWaiting = false;
const opened = new Set(); // groups that are shown whole, by their first image

// groups stay as they are while the user works through them; what was labeled meanwhile, or is predicted otherwise now, leaves
const isLeft = (to) => (id) => !isGiven(id) && state.verdicts[id] === to;
const left = () => (found ?? []).map(([to, ids]) => [to, ids.filter(isLeft(to)), ids[0]]).filter(([, ids]) => ids.length >= LEAST);

export const nGroups = () => (found ? left().length : undefined);
export const isFinding = () => isWaiting || found === null;
export const groupOf = (id) => left().find(([, ids]) => ids.includes(id)) ?? null;

export async function findGroups(isAnew, draw) { // for the state as it is; not again while some are left, unless anew
  if (isWaiting || foundAt >= state.snap.version || (!isAnew && left().length)) return;
  isWaiting = true;
  try {
    const { version, groups } = await get("api/groups");
    [found, foundAt] = [groups, version];
    opened.clear();
  } catch (error) {
    [found, foundAt] = [[], state.snap.version]; // it is tried again after the next change
    toast(`The groups cannot be had: ${error.message}`);
  }
  isWaiting = false;
  draw();
}

export function listedGroups({ confirm, select, draw }) { // as the grid takes them
  return left().map(([to, ids, key]) => {
    const n = number(ids.length), name = className(to), isOpen = opened.has(key);
    const look = () => { isOpen ? opened.delete(key) : opened.add(key); draw(); };
    return {
      title: `${name}?`, color: color(to), note: `${n} that look alike`, ids, nRows: isOpen ? undefined : 1,
      actions: [
        { text: `Yes, all ${n}`, title: `Label these ${n} images as ${name}`, isMain: true, does: () => confirm(to, ids) },
        { text: isOpen ? "Less" : "Look", title: isOpen ? "Show one row" : `Show all ${n} images`, does: look },
        { text: "Select", title: `Select these ${n} images, to label them as something else`, does: () => { opened.add(key); select(ids); } },
      ],
    };
  });
}
