// The views of the page, and how many images each lists.

import { $, button, element, replaceAll } from "./elements.js";
import { nGroups } from "./groups.js";
import { className, poolIds, state } from "./state.js";
import { outliers, suggestions, uncertain } from "./views.js";
import { number } from "./words.js";

export function drawTabs(go) {
  const { view } = state;
  const tabs = [["suggestions", "Suggestions", suggestions().length], ["uncertain", "Uncertain", uncertain().length],
                ["outliers", "Outliers", outliers().length], ["groups", "Groups", nGroups()], ["all", "All", poolIds().length], ["map", "Map"]];
  if (view.kind === "class") tabs.push(["class", className(view.class)]);
  replaceAll($("#tabs"), tabs.map(([kind, title, n]) => {
    const tab = button("tab", undefined, `view-${kind}`);
    tab.append(element("span", "", title));
    tab.dataset.view = kind;
    if (view.kind === kind) tab.setAttribute("aria-current", "true");
    if (n !== undefined) tab.append(" ", element("small", "", number(n)));
    tab.addEventListener("click", () => go(kind === "class" ? view : { kind }));
    return tab;
  }));
}
