// The map of the pool as the page shows it: its colors, its pictures, and when it is fetched.

import { $, element, picture } from "./elements.js";
import { PoolMap } from "./map.js";
import { listenOnMap } from "./mapkeys.js";
import { get, toast } from "./saving.js";
import { color, isGiven, state } from "./state.js";
import { caption, heading } from "./words.js";

export function shownMap(onPick, onLasso) {
  const map = new PoolMap($("#points"), {
    color: (id) => resolved(state.verdicts[id]),
    isStrong: isGiven,
    isSelected: (id) => state.selection.has(id),
    onHover: peek,
    onPick,
    onLasso,
  });
  const turn = (isOn) => {
    map.lasso.turn(isOn);
    $("#lasso").setAttribute("aria-pressed", isOn);
    $("#points").focus(); // keys draw, too
    map.draw();
  };
  $("#lasso").addEventListener("click", () => turn(!map.lasso.isOn));
  listenOnMap(map, {
    cursor: () => state.cursor,
    go: (id, isMore) => { if (isMore && state.selection.has(id)) state.cursor = id; else onPick(id, { ctrlKey: isMore }); },
    endLasso: () => turn(false),
  });
  return map;
}

const colors = new Map();
function resolved(c) { // a canvas knows no variables
  if (!colors.has(c)) {
    const probe = element("i");
    probe.style.color = color(c);
    document.body.append(probe);
    colors.set(c, getComputedStyle(probe).color);
    probe.remove();
  }
  return colors.get(c);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colors.clear());

export async function openMap(map) {
  if (map.points) return;
  $("#map-wait").hidden = false;
  try {
    map.points = (await get("api/map")).points;
    $("#map-wait").hidden = true;
    map.draw();
  } catch (error) {
    toast(`The map cannot be had: ${error.message}`);
  }
}

function peek(id, at) {
  const figure = $("#peek"), room = $("#map");
  figure.hidden = id === null;
  if (id === null) return;
  figure.querySelector("img").src = picture(id);
  figure.querySelector("figcaption").textContent = [heading(id), caption(id)].filter(Boolean).join(" · ");
  const [x, y] = at;
  figure.style.left = `${x + 200 > room.clientWidth ? Math.max(4, x - 196) : x + 16}px`;
  figure.style.top = `${Math.max(4, Math.min(y - 60, room.clientHeight - 216))}px`;
}
