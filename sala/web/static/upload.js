// Labels that come back in a file: chosen by the button, or dropped on the page.

import { undo } from "./changes.js";
import { showDone } from "./done.js";
import { $ } from "./elements.js";
import { act, toast } from "./saving.js";
import { plural } from "./words.js";

const MAX_BYTES = 32 * 2 ** 20; // what the server takes

export function beginUpload() {
  const chooser = $("#upload-file");
  $("#upload").addEventListener("click", () => chooser.click());
  chooser.addEventListener("change", () => {
    const [file] = chooser.files;
    if (file) upload(file);
    chooser.value = ""; // so that the same file can be chosen again
  });
  document.addEventListener("dragover", (event) => { if (holdsFiles(event)) event.preventDefault(); }); // else the browser leaves for the file
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    const { files } = event.dataTransfer;
    files.length === 1 ? upload(files[0]) : toast("Upload one file at a time.");
  });
}

const holdsFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files") ?? false;

async function upload(file) {
  if ($("dialog[open]")) return toast("Close what is open first, then upload the file.");
  if (file.size > MAX_BYTES) return toast(`A file has at most 32 MiB; ${file.name} has ${Math.ceil(file.size / 2 ** 20)}.`);
  const change = { do: "import", file };
  if (!(await act(change))) return;
  const { taken } = change.answer;
  taken ? showDone(summary(change.answer), "Undo", () => undo(change)) : toast(`${summary(change.answer)}.`);
}

function summary({ taken, same, missing, predicted, added }) {
  const parts = [`${plural(taken, "label", "labels")} taken`];
  if (added.length) parts.push(`${plural(added.length, "new class", "new classes")}: ${shortened(added)}`);
  if (same) parts.push(same === 1 ? "1 was here already" : `${same.toLocaleString("en")} were here already`);
  if (missing) parts.push(plural(missing, "file is not in this pool", "files are not in this pool"));
  if (predicted) parts.push(plural(predicted, "prediction passed over", "predictions passed over"));
  return parts.join(", ");
}

const shortened = (names) => (names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", "));
