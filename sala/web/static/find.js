// Searching, filtering and sorting what a view lists.

import { $, element } from "./elements.js";
import { get, toast } from "./saving.js";
import { OUTLIER, UNKNOWN, className, color, confidence, isGiven, state } from "./state.js";

const found = { dates: null, suspects: null, version: null }; // what the server computes on request
const folderOf = (id) => state.items.names[id].split("/").slice(0, -1).join("/") || "(top folder)";
const { compare: inWords } = new Intl.Collator("en", { numeric: true }); // image 9 before image 10
let nameRanks = null, folderRanks = null;

function ranks(words) { // the place of each word among all, so that sorting compares numbers
  const sorted = [...new Set(words)].sort(inWords), rank = new Map(sorted.map((word, i) => [word, i]));
  return words.map((word) => rank.get(word));
}

const byName = (a, b) => (nameRanks ??= ranks(state.items.names), nameRanks[a] - nameRanks[b]);
const byFolder = (a, b) => (folderRanks ??= ranks(state.items.names.map((_, id) => folderOf(id))), folderRanks[a] - folderRanks[b]);
const dayOf = (id) => (found.dates[id] ? new Date(1000 * found.dates[id]).toISOString().slice(0, 10) : "date not known");
const classRank = (id) => (state.verdicts[id] === OUTLIER ? Infinity : state.verdicts[id] === UNKNOWN ? 1e9 : state.verdicts[id]);
const suspectRank = (id) => found.suspects.get(id) ?? 1e9;

const SORTS = { // how two images compare, and the heading that they are under
  name: [byName],
  folder: [(a, b) => byFolder(a, b) || byName(a, b), folderOf],
  date: [(a, b) => found.dates[a] - found.dates[b] || byName(a, b), dayOf],
  least: [(a, b) => confidence(a) - confidence(b) || a - b],
  most: [(a, b) => confidence(b) - confidence(a) || a - b],
  class: [(a, b) => classRank(a) - classRank(b) || confidence(b) - confidence(a) || a - b, (id) => className(state.verdicts[id])],
  suspect: [(a, b) => suspectRank(a) - suspectRank(b) || a - b],
};
const FILTERS = {
  given: isGiven,
  open: (id) => !isGiven(id),
  suspect: (id) => isGiven(id) && found.suspects.has(id),
};

const chosen = { text: "", sort: "", only: "" };
export const canFind = () => !["suggestions", "groups", "map"].includes(state.view.kind); // these have an order of their own
export const isFiltering = () => canFind() && Boolean(chosen.text || chosen.only || chosen.sort);
const needs = () => ({ dates: chosen.sort === "date", suspects: chosen.sort === "suspect" || chosen.only === "suspect" });

export function refined(groups) { // the groups of a view, searched, filtered and sorted
  if (!isFiltering() || !isThere()) return groups;
  const filter = chosen.only.startsWith("in ") ? (id) => folderOf(id) === chosen.only.slice(3) : FILTERS[chosen.only] ?? (() => true);
  const keep = (id) => filter(id) && state.items.names[id].toLowerCase().includes(chosen.text.toLowerCase());
  const kept = groups.map((group) => ({ ...group, note: undefined, ids: group.ids.filter(keep) })).filter((group) => group.ids.length);
  if (!chosen.sort) return kept;
  const [compare, heading] = SORTS[chosen.sort], ids = [...new Set(kept.flatMap((group) => group.ids))].sort(compare);
  return heading ? underHeadings(ids, heading) : [{ ids }];
}

function underHeadings(ids, heading) {
  const groups = [];
  for (const id of ids) {
    const title = heading(id);
    if (groups.at(-1)?.title !== title) groups.push({ title, color: heading === SORTS.class[1] ? color(state.verdicts[id]) : undefined, ids: [] });
    groups.at(-1).ids.push(id);
  }
  return groups;
}

const isThere = () => (!needs().dates || found.dates) && (!needs().suspects || found.suspects);

export async function fetchNeeded(draw) { // after a choice, and after any news
  try {
    if (needs().dates && !found.dates) { found.dates = (await get("api/dates")).dates; draw(); }
    if (needs().suspects && found.version !== state.snap.version) {
      found.version = state.snap.version; // asked once for each
      found.suspects = new Map((await get("api/suspects")).suspects.map((id, rank) => [id, rank])); // the most suspicious first
      draw();
    }
  } catch (error) {
    toast(`The images cannot be sorted so: ${error.message}`);
  }
}

export function beginFinding(draw) {
  const folders = [...new Set(state.items.names.map((_, id) => id).filter((id) => state.items.in_pool[id]).map(folderOf))].sort(inWords);
  if (folders.length > 1 && folders.length <= 200) {
    const group = Object.assign(element("optgroup"), { label: "in the folder" });
    group.append(...folders.map((name) => Object.assign(element("option", "", name), { value: `in ${name}` })));
    $("#only").append(group);
  }
  const choose = () => {
    Object.assign(chosen, { text: $("#find").value.trim(), sort: $("#sort").value, only: $("#only").value });
    $("#scroller").scrollTop = 0;
    draw();
    fetchNeeded(draw);
  };
  $("#find").addEventListener("input", choose);
  $("#sort").addEventListener("change", choose);
  $("#only").addEventListener("change", choose);
  $("#find").addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "Escape") $("#scroller").focus(); });
}
