// A grid of tiles of which only the visible rows exist, so that a hundred thousand images scroll like a hundred.

const HEADING = 46, GAP = 10;

export class Grid {
  // tile(id) makes an element once; update(element, id) is called whenever it is shown anew
  constructor(scroller, rows, { tile, update }) {
    this.scroller = scroller;
    this.holder = rows;
    this.make = tile;
    this.update = update;
    this.groups = [];
    this.below = 0; // pixels that are covered by the bar of the selection
    this.tiles = new Map();
    this.shown = new Map();
    scroller.addEventListener("scroll", () => this.schedule(), { passive: true });
    new ResizeObserver(() => { this.layOut(); this.render(true); }).observe(scroller);
  }

  // groups: [{ title, color, ids, note, nRows, actions }]; without a title there is no heading, beyond nRows nothing is shown
  show(groups) {
    this.groups = groups;
    this.layOut();
    this.render(true);
  }

  layOut() {
    const width = this.holder.clientWidth || this.scroller.clientWidth - 32;
    const isSmall = width < 560, wanted = isSmall ? 104 : 148;
    const below = 54 + GAP; // captions of up to three lines, as the style has them
    this.holder.classList.toggle("small", isSmall);
    this.columns = Math.max(1, Math.floor((width + GAP) / (wanted + GAP)));
    this.side = Math.floor((width + GAP) / this.columns) - GAP;
    this.rows = [];
    this.place = new Map(); // id -> its row
    this.flat = [];
    let top = 0;
    for (const group of this.groups) {
      if (group.title !== undefined) {
        this.rows.push({ top, height: HEADING, group });
        top += HEADING;
      }
      const n = Math.min(group.ids.length, (group.nRows ?? Infinity) * this.columns);
      for (let i = 0; i < n; i += this.columns) {
        const ids = group.ids.slice(i, Math.min(n, i + this.columns));
        for (const id of ids) {
          this.place.set(id, this.rows.length);
          this.flat.push(id);
        }
        this.rows.push({ top, height: this.side + below, ids });
        top += this.side + below;
      }
      top += group.title !== undefined ? 14 : 0;
    }
    this.holder.style.height = `${top}px`;
    this.scroller.setAttribute("aria-rowcount", this.rows.length);
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.render(false); });
  }

  render(anew) {
    const from = this.scroller.scrollTop - 500, to = this.scroller.scrollTop + this.scroller.clientHeight + 500;
    let first = 0, last = this.rows.length;
    while (first < last) { // the first row that ends below the upper edge
      const middle = (first + last) >> 1;
      if (this.rows[middle].top + this.rows[middle].height < from) first = middle + 1; else last = middle;
    }
    const wanted = new Map();
    for (let r = first; r < this.rows.length && this.rows[r].top < to; r++) wanted.set(r, this.rows[r]);
    for (const [r, element] of this.shown) {
      if (anew || !wanted.has(r)) { element.remove(); this.shown.delete(r); }
    }
    for (const [r, row] of wanted) {
      if (this.shown.has(r)) continue;
      const element = row.group ? this.heading(row) : this.line(row);
      element.setAttribute("aria-rowindex", r + 1); // most of them are not there
      element.style.transform = `translateY(${row.top}px)`;
      this.holder.append(element);
      this.shown.set(r, element);
    }
    if (this.tiles.size > 2000) { // forget tiles that are far away
      const near = new Set([...wanted.values()].flatMap((row) => row.ids ?? []));
      for (const id of this.tiles.keys()) if (!near.has(id)) this.tiles.delete(id);
    }
  }

  heading({ group }) {
    const element = document.createElement("div"), cell = document.createElement("div"); // of a grid: it has no headings
    element.className = group.actions ? "row heading acting" : "row heading";
    element.setAttribute("role", "row");
    cell.className = "cell";
    cell.setAttribute("role", "gridcell");
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    if (group.color) swatch.style.background = group.color;
    const name = document.createElement("span");
    name.textContent = group.title;
    const count = document.createElement("small");
    count.textContent = group.note ?? group.ids.length.toLocaleString("en");
    cell.append(swatch, name, count, ...(group.actions ?? []).map((action) => this.action(action)));
    element.append(cell);
    return element;
  }

  action({ text, title, isMain, does }) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = isMain ? "main" : "";
    button.textContent = text;
    button.title = title;
    button.setAttribute("aria-label", `${text}: ${title}`);
    button.addEventListener("click", () => { does(); this.scroller.focus({ preventScroll: true }); }); // it is drawn anew
    return button;
  }

  line({ ids }) {
    const element = document.createElement("div");
    element.className = "row";
    element.setAttribute("role", "row");
    for (const [i, id] of ids.entries()) {
      let tile = this.tiles.get(id);
      if (!tile) this.tiles.set(id, (tile = this.make(id)));
      tile.style.width = `${this.side}px`;
      tile.firstChild.style.height = `${this.side}px`;
      tile.setAttribute("aria-colindex", i + 1);
      this.update(tile, id);
      element.append(tile);
    }
    return element;
  }

  refresh() { // the same images in the same places, perhaps selected or not
    for (const row of this.shown.values()) {
      for (const tile of row.children) if (tile.dataset.id) this.update(tile, Number(tile.dataset.id));
    }
  }

  reveal(id) {
    const row = this.rows[this.place.get(id)];
    if (!row) return;
    const { scrollTop, clientHeight } = this.scroller;
    if (row.top < scrollTop) this.scroller.scrollTop = Math.max(0, row.top - HEADING);
    else if (row.top + row.height + this.below > scrollTop + clientHeight) this.scroller.scrollTop = row.top + row.height + this.below - clientHeight;
    this.render(false);
  }

  neighbor(id, key) { // by arrow key
    const i = this.flat.indexOf(id);
    if (i < 0) return this.flat[0];
    if (key === "ArrowLeft") return this.flat[Math.max(0, i - 1)];
    if (key === "ArrowRight") return this.flat[Math.min(this.flat.length - 1, i + 1)];
    const step = key === "ArrowDown" ? 1 : -1;
    const column = this.rows[this.place.get(id)].ids.indexOf(id);
    for (let r = this.place.get(id) + step; r >= 0 && r < this.rows.length; r += step) {
      const { ids } = this.rows[r];
      if (ids) return ids[Math.min(column, ids.length - 1)];
    }
    return id;
  }
}
