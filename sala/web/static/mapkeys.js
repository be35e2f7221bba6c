// The map by keys: arrows go from image to image, + and - zoom; with the lasso they move a cross that draws the loop.

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const CROSS_STEP = 12, ZOOM_STEP = 1.4; // pixels; a factor

export function listenOnMap(map, { cursor, go, endLasso }) { // go(id, isMore): select it, or it too
  map.canvas.addEventListener("keydown", (event) => {
    if (!map.points || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key, shiftKey } = event, { lasso, canvas } = map;
    if (STEPS[key] && lasso.isOn) lasso.step(STEPS[key].map((by) => by * CROSS_STEP * (shiftKey ? 4 : 1)), canvas);
    else if (STEPS[key]) step(map, cursor(), STEPS[key], (id) => go(id, shiftKey));
    else if (key === "+" || key === "=") map.zoomBy(ZOOM_STEP, canvas.clientWidth / 2, canvas.clientHeight / 2);
    else if (key === "-") map.zoomBy(1 / ZOOM_STEP, canvas.clientWidth / 2, canvas.clientHeight / 2);
    else if (key === "Enter" && lasso.isOn) lasso.press(canvas);
    else if (key === "Escape" && lasso.isOn) endLasso();
    else return;
    event.preventDefault();
    event.stopPropagation(); // the page has other uses for them
    map.rehover(); // its point may have moved
    map.draw();
  });
}

function step(map, from, direction, go) {
  const id = neighbor(map, from, direction);
  if (id === null) return;
  go(id);
  map.reveal(id);
}

function neighbor(map, from, [dx, dy]) { // the nearest point in a direction; at first the one nearest to the middle
  const { canvas } = map, [x, y] = from === null ? [canvas.clientWidth / 2, canvas.clientHeight / 2] : map.at(from);
  let best = null, least = Infinity;
  for (const id of map.ids) {
    const [px, py] = map.at(id), along = (px - x) * dx + (py - y) * dy, aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (id === from || (from !== null && (along <= 0 || aside > along))) continue;
    const far = from === null ? Math.hypot(px - x, py - y) : along + 2 * aside; // straight on before aside
    if (far < least) { least = far; best = id; }
  }
  return best;
}
