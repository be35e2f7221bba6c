// The pool as points of a plane: wheel or pinch to zoom, drag to move, hover or tap to see the picture, click to select, draw a
// loop to select many.

import { Lasso } from "./lasso.js";

export class PoolMap {
  constructor(canvas, { color, isStrong, isSelected, onHover, onPick, onLasso }) {
    Object.assign(this, { canvas, color, isStrong, isSelected, onHover, onPick });
    this.lasso = new Lasso((contains, event) => onLasso(this.ids.filter((id) => contains(...this.at(id))), event));
    this.points = null;
    this.ids = [];
    this.zoom = 1;
    this.x = this.y = 0.5; // what is in the middle
    this.hovered = null;
    this.dim = null; // a class to single out: (id) => boolean
    this.pointers = new Map(); // that are down: where they are
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.hover(null); });
    canvas.addEventListener("pointerdown", (event) => {
      if (this.points && !this.pointers.size && this.lasso.begins(event)) { this.hover(null); return canvas.setPointerCapture(event.pointerId); }
      this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      this.far = this.pointers.size > 1; // else it may still become a click
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (this.lasso.isDragged) { this.lasso.end(event); return this.draw(); }
      const isClick = this.pointers.delete(event.pointerId) && !this.far;
      if (isClick) this.click(event);
    });
    canvas.addEventListener("pointercancel", (event) => { this.pointers.delete(event.pointerId); this.lasso.end(null); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
    }, { passive: false });
    new ResizeObserver(() => { this.rehover(); this.draw(); }).observe(canvas);
  }

  get scale() { return (Math.min(this.canvas.clientWidth, this.canvas.clientHeight) - 48) * this.zoom; }
  get stretch() { return Math.min(1.7, Math.max(1, this.canvas.clientWidth / this.canvas.clientHeight)); }

  at(id) { // pixels
    const u = this.points[2 * id] / 4095, v = this.points[2 * id + 1] / 4095;
    return [this.canvas.clientWidth / 2 + (u - this.x) * this.scale * this.stretch,
            this.canvas.clientHeight / 2 + (v - this.y) * this.scale];
  }

  reveal(id) { // and its picture
    const [x, y] = this.at(id), { clientWidth, clientHeight } = this.canvas;
    if (x < 0 || y < 0 || x > clientWidth || y > clientHeight) [this.x, this.y] = [this.points[2 * id] / 4095, this.points[2 * id + 1] / 4095];
    this.hover(id);
    this.rehover();
  }

  zoomBy(factor, x, y) { // what is at (x, y) stays there
    const before = this.zoom;
    this.zoom = Math.min(40, Math.max(0.8, this.zoom * factor));
    const dx = x - this.canvas.clientWidth / 2, dy = y - this.canvas.clientHeight / 2;
    const base = this.scale / this.zoom;
    this.x += (dx / (base * this.stretch)) * (1 / before - 1 / this.zoom);
    this.y += (dy / base) * (1 / before - 1 / this.zoom);
    this.draw();
  }

  move(event) {
    const pointer = this.pointers.get(event.pointerId);
    if (this.lasso.isDragged) { this.lasso.move(event); return this.draw(); }
    if (!pointer) return this.hover(this.nearest(event.offsetX, event.offsetY, 14));
    const dx = event.offsetX - pointer.x, dy = event.offsetY - pointer.y;
    if (!this.far && Math.hypot(dx, dy) < (event.pointerType === "mouse" ? 4 : 10)) return;
    this.far = true;
    const other = [...this.pointers.values()].find((one) => one !== pointer);
    const distance = () => Math.hypot(pointer.x - other.x, pointer.y - other.y);
    const apart = other && distance();
    const share = 1 / this.pointers.size; // of two fingers each moves the middle by half
    this.x -= (share * dx) / (this.scale * this.stretch);
    this.y -= (share * dy) / this.scale;
    Object.assign(pointer, { x: event.offsetX, y: event.offsetY });
    if (other) this.zoomBy(distance() / Math.max(apart, 1), (pointer.x + other.x) / 2, (pointer.y + other.y) / 2);
    this.rehover();
    this.draw();
  }

  click(event) {
    const isMouse = event.pointerType === "mouse", id = this.nearest(event.offsetX, event.offsetY, isMouse ? 14 : 24);
    this.onPick(id, event);
    if (!isMouse) this.hover(id);
  }

  rehover() { // its point has moved
    if (this.hovered !== null && this.points) this.onHover(this.hovered, this.at(this.hovered));
  }

  hover(id) {
    if (id === this.hovered) return;
    this.hovered = id;
    this.onHover(id, id === null ? null : this.at(id));
    this.draw();
  }

  nearest(x, y, reach) {
    if (!this.points) return null;
    let best = null, least = reach * reach;
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
        pen.fillStyle = this.color(id);
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
    this.lasso.paint(pen, ink);
  }
}
