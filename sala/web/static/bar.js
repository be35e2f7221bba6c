// The bar of the selection: how many images are selected, what can be done with them, and a button for each label.

import { $, button, element, replaceAll } from "./elements.js";
import { keyOf } from "./keys.js";
import { OUTLIER, UNKNOWN, className, color, isGiven, state } from "./state.js";
import { plural } from "./words.js";

const narrow = matchMedia("(max-width: 760px)"); // there the bar is a row of the page and covers nothing

export class Bar {
  constructor({ assign }) { // assign(c): the user gives this label to what is selected
    this.assign = assign;
    this.adding = false; // each tap adds to the selection
  }

  get covers() { return $("#bar").hidden || narrow.matches ? 0 : $("#bar").offsetHeight + 34; }

  draw() {
    const ids = [...state.selection];
    $("#bar").hidden = !ids.length;
    document.body.classList.toggle("selecting", ids.length > 0);
    if (!ids.length) return;
    const counted = plural(ids.length, "image", "images");
    $("#bar-text").textContent = ids.length === 1 ? state.items.names[ids[0]] : counted;
    $("#assign-text").textContent = `Label ${counted} as`;
    this.drawAccept(ids);
    $("#clear").hidden = !ids.some(isGiven);
    $("#more").setAttribute("aria-pressed", this.adding);
    $("#select-all").hidden = !this.adding;
    replaceAll($("#assign"), labelButtons(counted, this.assign));
  }

  drawAccept(ids) { // it names what it confirms
    const open = ids.filter((id) => !isGiven(id) && state.verdicts[id] !== UNKNOWN), kinds = new Set(open.map((id) => state.verdicts[id]));
    $("#accept").hidden = !open.length;
    $("#accept").textContent = kinds.size === 1 ? `Confirm ${className([...kinds][0])}` : `Confirm ${plural(open.length, "prediction", "predictions")}`;
  }
}

export function labelButtons(counted, assign) {
  return [OUTLIER, ...state.snap.classes.keys()].map((c) => { // the outlier in front: it is never scrolled away
    const made = button("assign", undefined, `assign${c}`), name = className(c);
    made.dataset.class = c;
    made.style.setProperty("--class", color(c));
    if (keyOf(c)) made.append(element("kbd", "", keyOf(c)));
    made.append(element("i", "swatch"), element("span", "name", name));
    made.title = `Label ${counted} as ${name}`;
    made.setAttribute("aria-label", made.title);
    made.addEventListener("click", () => assign(c));
    return made;
  });
}
