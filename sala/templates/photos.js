// The pictures of a report: pages of them, and one of them large.

for (const holder of document.querySelectorAll(".pages")) {
  const pages = [...holder.children];
  if (pages.length < 2) continue;
  let shown = 0;
  const bar = document.createElement("p"), text = document.createElement("span");
  const turn = (name, step) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = name;
    made.addEventListener("click", () => show(shown + step));
    return made;
  };
  const before = turn("Previous", -1), next = turn("Next", 1);
  const show = (number) => {
    shown = Math.max(0, Math.min(pages.length - 1, number));
    pages.forEach((page, i) => { page.hidden = i !== shown; });
    text.textContent = ` Page ${shown + 1} of ${pages.length} `;
    before.disabled = shown === 0;
    next.disabled = shown === pages.length - 1;
  };
  bar.className = "turn";
  text.setAttribute("role", "status");
  bar.append(before, text, next);
  holder.append(bar);
  show(0);
}

const viewer = document.querySelector("#viewer"), looks = [...document.querySelectorAll(".look")];
if (viewer) {
  let current = null;
  const look = (button) => {
    if (!button) return;
    const image = button.querySelector("img"), large = viewer.querySelector("img");
    current = button;
    large.src = image.src;
    large.alt = image.alt;
    viewer.querySelector("p").textContent = button.closest("figure").title || image.alt;
    if (!viewer.open) viewer.showModal();
  };
  const step = (by) => { // to the picture before or after it in its sheet
    const mine = [...current.closest(".sheet").querySelectorAll(".look")];
    look(mine[mine.indexOf(current) + by]);
  };
  looks.forEach((button) => button.addEventListener("click", () => look(button)));
  viewer.querySelector(".previous").addEventListener("click", () => step(-1));
  viewer.querySelector(".next").addEventListener("click", () => step(1));
  viewer.querySelector(".close").addEventListener("click", () => viewer.close());
  viewer.addEventListener("click", (event) => { if (event.target === viewer) viewer.close(); });
  viewer.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { step(by); event.preventDefault(); }
  });
  viewer.addEventListener("close", () => current?.focus());
}
