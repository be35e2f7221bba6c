// The bar of the selection: how many images are selected, what can be done with them, and a button for each label.

import { $, button, element, replaceAll } from "./elements.js";
import { OUTLIER, UNKNOWN, className, color, isGiven, proposal, state } from "./state.js";
import { plural } from "./words.js";

const narrow = matchMedia("(max-width: 760px)"); // there the bar is a row of the page and covers nothing

export class Bar {
  constructor({ assign }) { // assign(c): the user gives this label to what is selected
    this.assign = assign;
    this.adding = false; // each tap adds to the selection
  }

  get covers() { return $("#bar").hidden || narrow.matches ? 0 : $("#bar").offsetHeight + 34; }

  draw(typed) {
    const ids = [...state.selection];
    $("#bar").hidden = !ids.length;
    document.body.classList.toggle("selecting", ids.length > 0);
    if (!ids.length) return;
    const counted = plural(ids.length, "image", "images");
    $("#bar-text").textContent = ids.length === 1 ? state.items.names[ids[0]] : counted;
    $("#assign-text").textContent = typed ? `Label ${counted} as class ${typed} …` : `Label ${counted} as`;
    this.drawAccept(ids);
    $("#clear").hidden = !ids.some(isGiven);
    $("#more").setAttribute("aria-pressed", this.adding);
    replaceAll($("#assign"), [...state.snap.classes.keys(), OUTLIER].map((c) => this.button(c, counted)));
  }

  drawAccept(ids) { // it names what it confirms
    const proposals = ids.filter((id) => !isGiven(id)).map(proposal).filter((c) => c !== UNKNOWN);
    $("#accept").hidden = !proposals.length;
    const isOne = new Set(proposals).size === 1;
    $("#accept").textContent = isOne ? `Confirm ${className(proposals[0])}` : `Confirm ${plural(proposals.length, "prediction", "predictions")}`;
  }

  button(c, counted) {
    const made = button("assign", undefined, `assign${c}`), name = className(c);
    made.dataset.class = c;
    made.style.setProperty("--class", color(c));
    made.append(element("kbd", "", c === OUTLIER ? "0" : String(c + 1)), element("i", "swatch"), element("span", "name", name));
    made.title = `Label ${counted} as ${name}`;
    made.setAttribute("aria-label", made.title);
    made.addEventListener("click", () => this.assign(c));
    return made;
  }
}
