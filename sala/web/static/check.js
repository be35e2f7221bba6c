// "Check labels": examples that the other images disagree with, near-duplicates, and tiny or blurred images.

import { compare } from "./compare.js";
import { $, button, element, picture } from "./elements.js";
import { act, get } from "./saving.js";
import { OUTLIER, className, color, state } from "./state.js";
import { plural } from "./words.js";

const share = (p) => (p < 100 ? "under 1 %" : `${Math.floor(p / 100)} %`); // from 1/10,000
let dialog = null;

async function open() {
  dialog ??= makeDialog();
  show([element("p", "", "Checking …")]);
  if (!dialog.open) dialog.showModal();
  try {
    const found = await get("api/check");
    show([...suspects(found), ...groups(found.near_duplicates), ...hints(found.hints)]);
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
  right.addEventListener("click", async () => { right.disabled = true; if (await act({ do: "label", items: [image], to: predicted })) made.classList.add("done"); });
  beside.addEventListener("click", () => compare(image, [predicted]));
  made.append(right, beside);
  return made;
}

function groups(found) {
  if (!found.length) return [];
  const text = `${plural(found.length, "group", "groups")} of one scene: crops, recompressed copies, bursts. None is used to check another.`;
  const shown = found.slice(0, 40).map((ids) => sheet(ids.slice(0, 12).map((id) => tile(id, className(state.verdicts[id])))));
  return [element("h2", "", "Near-duplicates"), element("p", "", text), ...shown];
}

function hints(found) {
  const ids = Object.keys(found).map(Number);
  return ids.length ? [element("h2", "", "Tiny or blurred"), sheet(ids.map((id) => tile(id, found[id])))] : [];
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
  made.addEventListener("keydown", (event) => event.stopPropagation()); // keys are not for the images below
  document.body.append(made);
  return made;
}

const opener = button("", "Check", "check");
opener.id = "check-button";
opener.setAttribute("aria-label", "Check labels");
opener.title = "Labels that look wrong, near-duplicates, tiny or blurred images";
opener.addEventListener("click", open);
$("#help-button").before(opener);
