// The numbers above: how much is expected to be right and how that went, and what the user has said.

import { $ } from "./elements.js";
import { refreshProgress } from "./progress.js";
import { isGiven, poolIds, state } from "./state.js";
import { number } from "./words.js";

export function drawStats() {
  const { snap, steps } = state;
  refreshProgress();
  $("#n-given").textContent = `${number(poolIds(isGiven).length)} of ${number(poolIds().length)}`;
  $("#checked").textContent = snap.checked ? `${number(snap.agreed)} of ${number(snap.checked)} right` : "none yet";
  $("#undo").disabled = !steps.undo;
  $("#redo").disabled = !steps.redo;
  $("#saved").title = `The last fit took ${snap.fit_seconds.toFixed(2)} s`;
  drawSpark(snap.history);
}

function drawSpark(values) {
  const canvas = $("#spark"), pen = canvas.getContext("2d"), { width, height } = canvas;
  pen.clearRect(0, 0, width, height);
  canvas.hidden = values.length < 2;
  if (canvas.hidden) return;
  const low = Math.min(...values), high = Math.max(...values, low + 0.005);
  pen.strokeStyle = pen.fillStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 3;
  pen.lineJoin = "round";
  pen.beginPath();
  let x = 0, y = 0;
  values.forEach((value, i) => {
    x = 6 + (i / (values.length - 1)) * (width - 14);
    y = height - 8 - ((value - low) / (high - low)) * (height - 16);
    i ? pen.lineTo(x, y) : pen.moveTo(x, y);
  });
  pen.stroke();
  pen.beginPath();
  pen.arc(x, y, 5, 0, 7);
  pen.fill();
}
