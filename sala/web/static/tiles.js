// A tile of the grid: an image, its label, and the confidence.

import { element, picture } from "./elements.js";
import { UNKNOWN, color, confidence, isGiven, state } from "./state.js";
import { caption, explanation, heading } from "./words.js";

export function makeTile(id) {
  const tile = element("div", "tile");
  tile.dataset.id = id;
  tile.id = `image${id}`;
  tile.setAttribute("role", "gridcell");
  tile.draggable = true;
  const frame = element("div", "frame"), image = element("img"), mark = element("span", "mark");
  frame.title = image.alt = state.items.names[id];
  image.decoding = "async";
  image.draggable = false;
  image.src = picture(id);
  image.addEventListener("error", () => frame.classList.add("broken"));
  mark.setAttribute("aria-hidden", "true");
  frame.append(image, mark, element("i", "confidence"));
  const text = element("div", "caption");
  text.append(element("b"), element("span"));
  tile.append(frame, text);
  return tile;
}

export function updateTile(tile, id) {
  const v = state.verdicts[id], given = isGiven(id), isSelected = state.selection.has(id), [frame, text] = tile.children;
  tile.classList.toggle("selected", isSelected);
  tile.setAttribute("aria-selected", isSelected);
  tile.classList.toggle("given", given);
  tile.dataset.verdict = v;
  tile.style.setProperty("--class", color(v));
  const [, mark, strip] = frame.children;
  mark.textContent = given ? "✓" : "";
  strip.style.width = `${v === UNKNOWN ? 0 : confidence(id) / 100}%`;
  text.children[0].textContent = heading(id);
  text.children[1].textContent = caption(id);
  text.title = explanation(id);
}
