// How much is right: the expected range and what moved it, the goal, and what images drawn at random have shown.

import { drawAudit, openAudit } from "./audit.js";
import { openDialog } from "./done.js";
import { $, element } from "./elements.js";
import { act, get } from "./saving.js";
import { state } from "./state.js";
import { number, plural } from "./words.js";

const GOAL = "sala-goal", DEFAULT_GOAL = 95, SIZE = 20; // percent; images of an audit
const WHAT = { all: "all predicted labels", confident: "confident ones", rejected: "rejected ones that are outliers" };
let told = null, asked = null; // the newest answer, and what it answers

const ends = ({ low, high }) => [Math.floor(100 * low), Math.ceil(100 * high)];
const short = (range) => `${ends(range).join("–")} %`;
const between = (range) => `between ${ends(range).join(" and ")} %`;
const goal = () => Math.min(100, Math.max(1, Number(localStorage.getItem(GOAL)) || DEFAULT_GOAL));

export async function refreshProgress(force = false) { // after any news of the server
  const question = `${state.snap.version} ${goal()}`;
  if (question === asked && !force) return;
  asked = question;
  try {
    const next = await get(`api/progress?goal=${goal() / 100}`);
    if (told && next.version < told.version) return;
    told = next;
    draw();
  } catch { asked = null; } // the page says elsewhere that the server does not answer
}

function draw() {
  const { expected, audit, rejections } = told;
  $("#estimate").textContent = short(expected);
  const move = $("#estimate-move"), isUp = expected.why.startsWith("Up");
  move.textContent = expected.why ? (isUp ? "▲" : "▼") : "";
  move.className = `move ${isUp ? "up" : "down"}`;
  $("#progress-button").title = expected.why || "How much is right, when to stop, and a check of images drawn at random";
  $("#moved").textContent = rejections;
  $("#moved").hidden = !rejections;
  $("#audited").textContent = !audit.n ? "none yet" : audit.complete ? short(audit.shares.all) : `${number(audit.n_drawn)} of ${number(audit.n)}`;
  if ($("#progress").open) drawDialog();
  drawAudit(audit);
}

function drawDialog() {
  const { expected } = told;
  $("#expected-text").textContent = `B${between(expected).slice(1)} of the pool are expected to be right: your labels, and what the probabilities of the others claim, ` +
    `corrected by how right predictions were that you checked. It follows your labels slowly, so that no single one makes it jump. ${expected.why}`;
  if (document.activeElement !== $("#goal")) $("#goal").value = goal();
  $("#goal-text").textContent = goalText();
  drawShares();
}

function goalText() {
  const { reached_by: by, labels_at_most: most, labels_at_pace: pace } = told.goal;
  if (by === "audit") return "Reached: the images drawn at random show it.";
  if (by === "expectation") return "Reached, as far as the probabilities tell. Check images at random to be sure.";
  if (!most) return "About reached: that is expected, but the range still goes below it. Check images at random to be sure.";
  const atPace = pace === null ? "" : `about ${plural(pace, "label", "labels")} more as it went so far; `;
  return `Not reached: ${atPace}at most ${plural(most, "label", "labels")}, if nothing were learned from them and the least certain came first.`;
}

function drawShares() {
  const { audit } = told, table = $("#audit-shares");
  table.hidden = !audit.complete;
  $("#audit-text").textContent = !audit.n
    ? "Chance draws images of the pool that have no label, and you say what they are. What is suggested to you are the hard ones; images drawn at random show how right the labels are."
    : audit.complete ? `${plural(audit.n_drawn, "image was", "images were")} drawn at random. With 95 % confidence, of the labels that were predicted then:`
      : `${number(audit.n_drawn)} of ${plural(audit.n, "image", "images")} are checked; the result is shown when all are.`;
  table.replaceChildren(...Object.entries(audit.shares).filter(([, share]) => share.n).map(([group, share]) => {
    const row = element("tr"), open = share.n_open ? `, ${share.n_open} open` : "";
    row.append(element("th", "", WHAT[group]), element("td", "", `${between(share)} right`), element("td", "", `${share.n_right} of ${share.n}${open}`));
    return row;
  }));
  $("#audit-stale").textContent = !audit.complete ? "" : "Each answer judges the prediction that stood when it was given. " + (audit.labels_since
    ? `You gave ${plural(audit.labels_since, "label", "labels")} since: the labels have changed, and this is of those before. Begin another to measure them.` : "");
  $("#audit-go").textContent = !audit.n ? `Check ${SIZE} images` : audit.complete ? `Check ${SIZE} more` : "Go on";
  $("#audit-anew").hidden = !audit.complete;
}

function openProgress() {
  if (!told) return;
  drawDialog();
  openDialog($("#progress"));
  $("#progress").focus(); // not the goal, which would bring a phone's keyboard up
}

async function go(anew) {
  const { audit } = told;
  const isSaved = audit.n && !audit.complete && !anew ? true : await act({ do: "audit", n: audit.complete && !anew ? audit.n_drawn + SIZE : SIZE, anew: anew || undefined });
  if (!isSaved) return;
  await refreshProgress(true);
  $("#progress").close();
  openAudit(told.audit, { whenDone: openProgress, refresh: () => refreshProgress(true) });
}

$("#progress-button").addEventListener("click", openProgress);
$("#audit-button").addEventListener("click", openProgress);
$("#audit-go").addEventListener("click", () => go(false));
$("#audit-anew").addEventListener("click", () => go(true));
$("#goal-form").addEventListener("submit", (event) => { event.preventDefault(); $("#goal").blur(); });
$("#goal").addEventListener("input", () => {
  const said = Number($("#goal").value);
  if (!(said >= 1 && said <= 100)) return;
  localStorage.setItem(GOAL, said);
  refreshProgress();
});
