// The list of classes: how many images each has, its newest examples; to show by a click, to drop images on, to rename.

import { menuButton } from "./classmenu.js";
import { $, button, element, picture, replaceAll } from "./elements.js";
import { keyOf } from "./keys.js";
import { OUTLIER, className, color, counts, examples, state } from "./state.js";
import { number } from "./words.js";

export class Classes {
  // pick(c) is called where a class is clicked, drop(c) where images are dropped, hover(c or null) under the mouse,
  // change(what, text) for a change that is told of
  constructor(holder, { pick, drop, hover, change }) {
    Object.assign(this, { holder, pick, drop, hover, change });
  }

  draw() {
    if (this.holder.querySelector("input")) return; // a name is being written
    const now = counts(), lists = examples();
    const rows = state.snap.classes.map((_, c) => this.row(c, now[c], lists[c]));
    replaceAll(this.holder, [...rows, this.row(OUTLIER, now.at(-1), [])]);
  }

  row(c, n, ids) {
    const { view, before, snap } = state;
    const row = element("div", "class");
    row.dataset.class = c;
    row.style.setProperty("--class", color(c));
    row.classList.toggle("open", (view.kind === "class" && view.class === c) || (view.kind === "outliers" && c === OUTLIER));
    const moved = before?.counts.length === snap.classes.length + 1 ? n - before.counts.at(c === OUTLIER ? -1 : c) : 0;
    row.append(this.button(c, n, moved, ids.length));
    if (c !== OUTLIER) row.append(this.pencil(row, c), menuButton(c), strip(ids));
    row.addEventListener("dragover", (event) => { event.preventDefault(); row.classList.add("over"); });
    row.addEventListener("dragleave", () => row.classList.remove("over"));
    row.addEventListener("drop", (event) => { event.preventDefault(); row.classList.remove("over"); this.drop(c); });
    row.addEventListener("pointerenter", () => this.hover(c));
    row.addEventListener("pointerleave", () => this.hover(null));
    return row;
  }

  button(c, n, moved, nExamples) {
    const made = button("pick", undefined, `pick${c}`);
    const key = element("kbd", "", keyOf(c));
    const move = element("i", `move ${moved > 0 ? "up" : "down"}`, moved ? `${moved > 0 ? "+" : "−"}${number(Math.abs(moved))}` : "");
    if (moved) move.title = "What the last change moved";
    made.append(key, element("i", "swatch"), element("span", "name", className(c)), move, element("span", "count", number(n)));
    made.title = c === OUTLIER ? "Show the outliers: images of none of the classes" : `Show ${className(c)}: ${number(nExamples)} labeled, ${number(n)} of the pool`;
    made.addEventListener("click", () => this.pick(c));
    return made;
  }

  pencil(row, c) {
    const made = button("rename", "✎", `rename${c}`);
    made.title = "Rename";
    made.setAttribute("aria-label", `Rename ${className(c)}`);
    made.addEventListener("click", () => this.rename(row, c));
    return made;
  }

  rename(row, c) {
    const input = element("input");
    input.value = className(c);
    input.maxLength = 80;
    input.setAttribute("aria-label", "Name of the class");
    row.querySelector(".pick").replaceWith(input);
    input.focus();
    input.select();
    let ended = false; // taking the field away blurs it
    const end = (save) => {
      if (ended) return;
      ended = true;
      const name = input.value;
      input.remove();
      if (save && name.trim() && name !== className(c)) this.change({ do: "rename", class: c, name }, `${className(c)} renamed`);
      this.draw();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault(); // or the button that has the focus next would be pressed
      end(event.key === "Enter");
      this.holder.querySelector(`[data-focus="rename${c}"]`)?.focus();
    });
    input.addEventListener("blur", () => end(true));
  }
}

function strip(ids) {
  const made = element("div", "strip");
  for (const id of ids.slice(-5).reverse()) {
    const image = element("img");
    image.alt = "";
    image.src = picture(id);
    made.append(image);
  }
  if (!ids.length) made.append(element("em", "", "needs an example"));
  return made;
}

export function addClass(event, change) { // a name that is refused stays, to be changed
  event.preventDefault();
  const input = $("#new-name"), name = input.value;
  if (!name.trim()) return;
  input.value = "";
  change({ do: "add", name }, `${name} added`).then((saved) => { if (!saved && !input.value) { input.value = name; input.focus(); } });
}
