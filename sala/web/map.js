// The pool as points of a plane: wheel to zoom, drag to move, hover to see the picture, click to select.

export class PoolMap {
  constructor(canvas, { colour, isStrong, isSelected, onHover, onPick }) {
    Object.assign(this, { canvas, colour, isStrong, isSelected, onHover, onPick });
    this.points = null;
    this.ids = [];
    this.zoom = 1;
    this.x = this.y = 0.5; // what is in the middle
    this.dim = null; // a class to single out: (id) => boolean
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerleave", () => { this.hover(null); });
    canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.offsetX, y: event.offsetY, far: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      const click = this.drag && !this.drag.far;
      this.drag = null;
      if (click) this.onPick(this.nearest(event.offsetX, event.offsetY), event);
    });
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.wheel(event); }, { passive: false });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get scale() { return (Math.min(this.canvas.clientWidth, this.canvas.clientHeight) - 48) * this.zoom; }
  get stretch() { return Math.min(1.7, Math.max(1, this.canvas.clientWidth / this.canvas.clientHeight)); }

  at(id) { // pixels
    const u = this.points[2 * id] / 4095, v = this.points[2 * id + 1] / 4095;
    return [this.canvas.clientWidth / 2 + (u - this.x) * this.scale * this.stretch,
            this.canvas.clientHeight / 2 + (v - this.y) * this.scale];
  }

  wheel(event) {
    const before = this.zoom;
    this.zoom = Math.min(40, Math.max(0.8, this.zoom * Math.exp(-event.deltaY * 0.0015)));
    const dx = event.offsetX - this.canvas.clientWidth / 2, dy = event.offsetY - this.canvas.clientHeight / 2;
    const base = this.scale / this.zoom;
    this.x += (dx / (base * this.stretch)) * (1 / before - 1 / this.zoom);
    this.y += (dy / base) * (1 / before - 1 / this.zoom);
    this.draw();
  }

  move(event) {
    if (this.drag) {
      const dx = event.offsetX - this.drag.x, dy = event.offsetY - this.drag.y;
      if (!this.drag.far && Math.hypot(dx, dy) < 4) return;
      this.x -= dx / (this.scale * this.stretch);
      this.y -= dy / this.scale;
      this.drag = { x: event.offsetX, y: event.offsetY, far: true };
      this.draw();
      return;
    }
    this.hover(this.nearest(event.offsetX, event.offsetY));
  }

  hover(id) {
    if (id === this.hovered) return;
    this.hovered = id;
    this.onHover(id, id === null ? null : this.at(id));
    this.draw();
  }

  nearest(x, y) {
    if (!this.points) return null;
    let best = null, least = 14 * 14;
    for (const id of this.ids) {
      const [px, py] = this.at(id);
      const d = (px - x) ** 2 + (py - y) ** 2;
      if (d < least) { least = d; best = id; }
    }
    return best;
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const { canvas } = this, ratio = window.devicePixelRatio || 1;
    if (!this.points || !canvas.clientWidth) return;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const ink = getComputedStyle(canvas).color, paper = getComputedStyle(canvas).backgroundColor;
    const size = Math.min(7, (this.ids.length > 4000 ? 2 : this.ids.length > 1200 ? 3 : 4) * Math.sqrt(this.zoom));
    for (const strong of [false, true]) {
      for (const id of this.ids) {
        if (this.isStrong(id) !== strong) continue;
        const [x, y] = this.at(id);
        if (x < -9 || y < -9 || x > canvas.clientWidth + 9 || y > canvas.clientHeight + 9) continue;
        pen.globalAlpha = this.dim && !this.dim(id) ? 0.12 : strong ? 1 : 0.8;
        pen.fillStyle = this.colour(id);
        pen.beginPath();
        pen.arc(x, y, strong ? size + 1.5 : size, 0, 7);
        pen.fill();
        if (strong) { pen.strokeStyle = paper; pen.lineWidth = 3; pen.stroke(); pen.strokeStyle = ink; pen.lineWidth = 1.2; pen.stroke(); }
      }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = ink;
    for (const id of this.ids) {
      if (id !== this.hovered && !this.isSelected(id)) continue;
      const [x, y] = this.at(id);
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, size + 5, 0, 7);
      pen.stroke();
    }
  }
}
