// Small helpers of the page. Names are only ever set as text.

import { state } from "./state.js";

export const $ = (selector) => document.querySelector(selector);
export const picture = (id) => `thumb/${id}?run=${state.items.run}`;

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function button(className, text, focusName) {
  const made = element("button", className, text);
  made.type = "button";
  made.dataset.focus = focusName;
  return made;
}

export function replaceAll(holder, made) { // and leave the focus on the button of the same name
  const focused = holder.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  holder.replaceChildren(...made);
  if (focused) holder.querySelector(`[data-focus="${focused}"]`)?.focus({ preventScroll: true });
}
