// The few things that markup alone cannot do: dialogs that open when they arrive, keys, copying, and the chosen row.
"use strict";

document.addEventListener("htmx:afterSwap", (event) => {
  const dialog = document.getElementById("dialog");
  if (event.detail.target === dialog && dialog.childElementCount && !dialog.open) dialog.showModal();
});

document.addEventListener("click", (event) => {
  const copied = event.target.closest("[data-copy]");
  if (copied) navigator.clipboard.writeText(copied.dataset.copy).then(() => { copied.textContent = "Copied"; });
  if (event.target.closest("[data-close]")) document.getElementById("dialog").close();
  const row = event.target.closest(".list .row");
  if (row) choose(row);
});

function choose(row) {
  document.querySelectorAll(".row.chosen").forEach((other) => other.classList.remove("chosen"));
  row.classList.add("chosen");
}

function step(forward) {
  const rows = [...document.querySelectorAll(".list .row")];
  const at = rows.findIndex((row) => row === document.activeElement || row.classList.contains("chosen"));
  const next = rows[at < 0 ? 0 : at + (forward ? 1 : -1)];
  if (!next) return;
  choose(next);
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "j" || event.key === "k") { step(event.key === "j"); event.preventDefault(); }
  if (event.key === "/") {
    const field = document.querySelector('[data-key="/"]');
    if (field) { field.focus(); event.preventDefault(); }
  }
});

// The chosen entry is shown when the page opens: its piece of the list is there already.
document.addEventListener("DOMContentLoaded", () => {
  const row = document.querySelector(".list .row.chosen");
  if (row) row.scrollIntoView({ block: "center" });
});
