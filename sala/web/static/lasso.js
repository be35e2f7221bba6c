// A loop that is drawn around points of the map.

export class Lasso {
  constructor(onLoop) { // onLoop(contains, event): contains(x, y) says whether a point is inside
    this.onLoop = onLoop;
    this.isOn = false; // else it is drawn with Shift
    this.path = null;
  }

  begins({ shiftKey, offsetX, offsetY }) { // whether a pointer that goes down draws
    if (this.isOn || shiftKey) this.path = [[offsetX, offsetY]];
    return this.path !== null;
  }

  move({ offsetX, offsetY }) { this.path.push([offsetX, offsetY]); }

  end(event) {
    const { path } = this;
    this.path = null;
    if (event && path.length > 2) this.onLoop((x, y) => isInside(path, x, y), event);
  }

  paint(pen, color) {
    if (!this.path) return;
    pen.beginPath();
    for (const [x, y] of this.path) pen.lineTo(x, y);
    pen.closePath();
    pen.globalAlpha = 0.1;
    pen.fillStyle = pen.strokeStyle = color;
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = 1.5;
    pen.setLineDash([5, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }
}

function isInside(path, x, y) { // a ray to the right crosses the loop an odd number of times
  let inside = false;
  path.forEach(([x1, y1], i) => {
    const [x2, y2] = path.at(i - 1);
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  });
  return inside;
}
