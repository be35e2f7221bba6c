// The files that could not be used: how many, and a list with the reasons.

import { $, element } from "./elements.js";
import { state } from "./state.js";
import { plural } from "./words.js";

export function beginSkipped() {
  const { skipped: sentences } = state.items, counted = `${plural(sentences.length, "file", "files")} skipped`;
  $("#skipped-button").hidden = !sentences.length;
  $("#skipped-button").textContent = counted;
  $("#skipped-button").addEventListener("click", () => {
    $("#skipped h2").textContent = counted;
    $("#skipped ul").replaceChildren(...sentences.map((sentence) => element("li", "", sentence)));
    $("#skipped").showModal();
  });
}
