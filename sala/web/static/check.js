// "Check labels": examples that the other images disagree with, near-duplicates, and tiny or blurred images.

import { giveLabels } from "./changes.js";
import { compare } from "./compare.js";
import { openDialog } from "./done.js";
import { $, button, element, picture } from "./elements.js";
import { get } from "./saving.js";
import { OUTLIER, className, color, state } from "./state.js";
import { number, plural } from "./words.js";

const share = (p) => (p < 100 ? "under 1 %" : `${Math.floor(p / 100)} %`); // from 1/10,000
const MAX_GROUPS = 40, MAX_OF_GROUP = 12; // pictures at first
let dialog = null;

async function open() {
  dialog ??= makeDialog();
  show([element("p", "", "Checking …")]);
  openDialog(dialog);
  try {
    const found = await get("api/check");
    show([...suspects(found), ...groups(found.near_duplicates), ...hints(found)]);
  } catch (error) {
    show([element("p", "", `The labels could not be checked: ${error.message}`)]);
  }
}

const show = (parts) => dialog.querySelector(".findings").replaceChildren(...parts);

function suspects({ suspects: found, unchecked }) {
  const parts = [element("h2", "", "Check your labels")];
  parts.push(element("p", "", found.length ? "Judged by all other images, these would have got another label than you gave. The most suspicious first."
                                           : "No label that could be checked looks wrong."));
  parts.push(sheet(found.map(suspect)));
  if (unchecked.length) parts.push(element("p", "", `Not checked, since a class needs two examples for it: ${unchecked.map(className).join(", ")}.`));
  return parts;
}

function suspect({ image, label, predicted, label_probability: own, predicted_probability: other }) {
  const to = predicted === OUTLIER ? "outlier" : className(predicted);
  const made = tile(image, `${className(label)} (${share(own)}), looks like ${to} (${share(other)})`);
  const right = button("", `Label as ${to}`), beside = button("", "Compare");
  const give = (id, c) => giveLabels([[c, [id]]]);
  right.addEventListener("click", () => give(image, predicted));
  beside.addEventListener("click", () => compare(image, give, [predicted]));
  Object.assign(made.dataset, { suspect: image, label: className(label) });
  made.append(right, beside);
  return made;
}

export function drawCheck() { // after any news: what has another label than the suspect one is done, until that is undone
  for (const one of dialog?.querySelectorAll("[data-suspect]") ?? []) one.classList.toggle("done", className(state.given[one.dataset.suspect]) !== one.dataset.label);
}

function groups(found) {
  if (!found.length) return [];
  const text = `${plural(found.length, "group", "groups")} of one scene: crops, recompressed copies, bursts. None is used to check another.`;
  const holder = element("div"), more = button("");
  const show = (n) => {
    holder.append(...found.slice(holder.children.length, n).map(group));
    const left = found.length - holder.children.length;
    more.hidden = !left;
    more.textContent = `Show ${plural(left, "more group", "more groups")}`;
  };
  more.addEventListener("click", () => show(found.length));
  show(MAX_GROUPS);
  return [element("h2", "", "Near-duplicates"), element("p", "", text), holder, more];
}

function group(ids) {
  const made = sheet(ids.slice(0, MAX_OF_GROUP).map((id) => tile(id, className(state.verdicts[id]))));
  if (ids.length > MAX_OF_GROUP) made.append(element("p", "", `and ${ids.length - MAX_OF_GROUP} more`));
  return made;
}

function hints({ hints: found, measured, can_turn: canTurn }) {
  const ids = Object.keys(found).map(Number), n = state.items.names.length;
  if (!measured) return [];
  const seen = measured < n ? `${number(measured)} of ${number(n)} images were looked at: examples and the least confident.` : "";
  const said = ids.length ? "Compared with the others, these are hard to label whatever the classifier." : "None was found.";
  const parts = [element("h2", "", "Tiny or blurred"), element("p", "", `${said} ${seen}`), sheet(ids.map((id) => tile(id, found[id])))];
  return canTurn ? [...parts, ...turned()] : parts;
}

function turned() { // on request: turned images are embedded for it
  const find = button("", "Look for turned photos"), holder = element("div");
  holder.setAttribute("role", "status");
  find.addEventListener("click", async () => {
    find.disabled = true;
    holder.replaceChildren(element("p", "", "Turning the least confident images, which takes some seconds …"));
    try {
      const { hints: found } = await get("api/turned"), ids = Object.keys(found).map(Number);
      holder.replaceChildren(ids.length ? sheet(ids.map((id) => tile(id, found[id]))) : element("p", "", "None of the least confident images looks turned."));
    } catch (error) {
      holder.replaceChildren(element("p", "", `Turned photos cannot be found: ${error.message}`));
    }
    find.disabled = false;
  });
  return [element("h2", "", "Turned"), find, holder];
}

function sheet(tiles) {
  const made = element("div", "found");
  made.append(...tiles);
  return made;
}

function tile(id, text) {
  const made = element("figure"), image = element("img");
  image.src = picture(id);
  image.alt = state.items.names[id];
  image.title = state.items.names[id];
  image.loading = "lazy";
  made.style.setProperty("--class", color(state.verdicts[id]));
  made.append(image, element("figcaption", "", text));
  return made;
}

function makeDialog() {
  const made = element("dialog"), close = button("", "Close");
  made.id = "check";
  made.setAttribute("aria-label", "Check your labels");
  close.addEventListener("click", () => made.close());
  made.append(element("div", "findings"), close);
  document.body.append(made);
  return made;
}

const opener = button("", "Check", "check");
opener.id = "check-button";
opener.setAttribute("aria-label", "Check labels");
opener.title = "Labels that look wrong, near-duplicates, tiny or blurred images";
opener.addEventListener("click", open);
$("#help-button").before(opener);
