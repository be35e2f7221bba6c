// One image, large, with all that is said of it.

import { $ } from "./elements.js";
import { state } from "./state.js";
import { caption, explanation, heading } from "./words.js";

export function look(id) {
  const viewer = $("#viewer"), image = viewer.querySelector("img"), [first, second] = viewer.querySelectorAll("p");
  image.src = `image/${id}?run=${state.items.run}`;
  image.alt = viewer.querySelector("h2").textContent = state.items.names[id];
  first.textContent = [heading(id), caption(id)].filter(Boolean).join(" · ");
  second.textContent = explanation(id);
  if (!viewer.open) viewer.showModal();
}
