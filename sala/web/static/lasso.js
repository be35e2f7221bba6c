// A loop that is drawn around points of the map.

export class Lasso {
  constructor(onLoop) { // onLoop(contains, event): contains(x, y) says whether a point is inside
    this.onLoop = onLoop;
    this.isOn = false; // else it is drawn with Shift
    this.path = null;
    this.isDragged = false; // by a pointer that is down
    this.cross = null; // where keys have moved it
  }

  turn(isOn) { // on or off
    this.isOn = isOn;
    this.path = this.cross = null;
  }

  step([dx, dy], { clientWidth, clientHeight }) { // by keys
    const [x, y] = this.cross ?? [clientWidth / 2, clientHeight / 2];
    this.cross = [Math.min(clientWidth, Math.max(0, x + dx)), Math.min(clientHeight, Math.max(0, y + dy))];
    if (this.path) this.path.push(this.cross);
  }

  press({ clientWidth, clientHeight }) { // Enter begins the loop, and closes it
    this.cross ??= [clientWidth / 2, clientHeight / 2];
    if (this.path) this.end({});
    else this.path = [this.cross];
  }

  begins({ shiftKey, offsetX, offsetY }) { // whether a pointer that goes down draws
    this.isDragged = this.isOn || shiftKey;
    if (this.isDragged) this.path = [[offsetX, offsetY]];
    return this.isDragged;
  }

  move({ offsetX, offsetY }) { this.path.push([offsetX, offsetY]); }

  end(event) {
    const { path } = this;
    this.path = null;
    this.isDragged = false;
    if (event && path?.length > 2) this.onLoop((x, y) => isInside(path, x, y), event);
  }

  paint(pen, color) {
    if (this.isOn && this.cross) paintCross(pen, color, this.cross);
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

function paintCross(pen, color, [x, y]) {
  pen.strokeStyle = color;
  pen.lineWidth = 2;
  pen.beginPath();
  for (const [dx, dy] of [[9, 0], [0, 9]]) { pen.moveTo(x - dx, y - dy); pen.lineTo(x + dx, y + dy); }
  pen.stroke();
}

function isInside(path, x, y) { // a ray to the right crosses the loop an odd number of times
  let inside = false;
  path.forEach(([x1, y1], i) => {
    const [x2, y2] = path.at(i - 1);
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  });
  return inside;
}
