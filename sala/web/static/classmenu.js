// What can be done with a class beyond its name: its place in the list, merging it with another, deleting it.

import { $, button, element } from "./elements.js";
import { className, counts, examples, state } from "./state.js";
import { plural } from "./words.js";

let open = null; // the class

export function menuButton(c) {
  const made = button("menu-button", "⋯", `menu${c}`);
  made.title = "Move, merge or delete";
  made.setAttribute("aria-label", `Move, merge or delete ${className(c)}`);
  made.setAttribute("aria-haspopup", "dialog");
  made.addEventListener("click", () => { open = c; draw(); $("#class-menu").showModal(); });
  return made;
}

function draw() {
  const others = [...state.snap.classes.keys()].filter((c) => c !== open), labeled = examples()[open].length;
  $("#class-menu h2").textContent = className(open);
  $("#class-up").disabled = open === 0;
  $("#class-down").disabled = open === state.snap.classes.length - 1;
  $("#class-into").replaceChildren(...others.map((c) => Object.assign(element("option", "", className(c)), { value: c })));
  $("#class-merge").disabled = $("#class-into").disabled = !others.length;
  $("#class-merge-text").textContent = `${plural(labeled, "label moves", "labels move")} to the other class.`;
  $("#class-delete-text").textContent = `${plural(labeled, "label is", "labels are")} taken back; ${plural(counts()[open], "image", "images")} of the pool will be predicted anew.`;
}

export function beginClassMenu(change) { // change(what, text): make a change that can be undone, and tell of it
  const close = () => $("#class-menu").close();
  const move = (step) => {
    const order = [...state.snap.classes.keys()];
    order.splice(open + step, 0, ...order.splice(open, 1));
    change({ do: "order", classes: order }, `${className(open)} moved`);
    close();
  };
  $("#class-up").addEventListener("click", () => move(-1));
  $("#class-down").addEventListener("click", () => move(1));
  $("#class-merge").addEventListener("click", () => {
    const into = Number($("#class-into").value);
    change({ do: "merge", class: open, into }, `${className(open)} merged into ${className(into)}`);
    close();
  });
  $("#class-delete").addEventListener("click", () => {
    change({ do: "delete", class: open }, `${className(open)} deleted`);
    close();
  });
}
