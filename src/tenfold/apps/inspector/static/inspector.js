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
  rove();
}

// The list is one stop of the Tab key: the chosen row, or else the one that was the stop, or else the first.
function rove() {
  const rows = [...document.querySelectorAll("#list .row")];
  const stop = rows.find((row) => row.classList.contains("chosen")) || rows.find((row) => row.getAttribute("tabindex") === "0") || rows[0];
  rows.forEach((row) => { row.tabIndex = row === stop ? 0 : -1; });
}

function step(forward) {
  const lists = [".list .row", ".sessions tbody th a", ".hits > li > a"];
  const items = lists.map((selector) => [...document.querySelectorAll(selector)]).find((found) => found.length) || [];
  const focused = items.indexOf(document.activeElement);
  const at = focused < 0 ? items.findIndex((item) => item.classList.contains("chosen")) : focused;
  const next = items[at < 0 ? 0 : at + (forward ? 1 : -1)];
  if (!next) return;
  if (next.matches(".row")) choose(next);
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && event.target.closest("#reader")) document.querySelector(".row.chosen")?.focus();
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const isInList = event.target.closest(".list") !== null;
  const isForward = event.key === "j" || (isInList && event.key === "ArrowDown");
  if (isForward || event.key === "k" || (isInList && event.key === "ArrowUp")) { step(isForward); event.preventDefault(); }
  if (event.key === "/") {
    const field = document.querySelector('input[data-key="/"]');
    const link = [...document.querySelectorAll('a[data-key="/"]')].at(-1);
    if (field) field.focus(); else if (link) location.assign(`${link.href}#words`);
    event.preventDefault();
  }
});

// A message that was opened by a key takes the focus; Escape gives it back to its row.
let isOpenedByKey = false;

document.addEventListener("click", (event) => {
  if (event.target.closest("#list .row")) isOpenedByKey = event.detail === 0;
});

document.addEventListener("htmx:afterSettle", (event) => {
  const target = event.detail.target;
  if (!target) return; // a message of a stream
  if (target.id === "reader" && isOpenedByKey) target.focus();
  if (target.closest("#list")) rove();
});

// A long list is in pieces of a known height. A piece is loaded when it stays in sight for a moment, and let go of when it
// has been out of sight for some seconds, so that 100,000 entries scroll like a hundred.
const DWELL = 80, LEAVE = 4000;

function watchPieces(list) {
  const timers = new Map();
  const settle = (piece, isSeen) => {
    if (isSeen && !piece.childElementCount) htmx.ajax("GET", piece.dataset.rows, { target: piece, swap: "innerHTML" });
    if (!isSeen && piece.classList.contains("whole") && !piece.querySelector(".chosen, :focus, [tabindex='0']")) piece.replaceChildren();
  };
  const observer = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) {
      clearTimeout(timers.get(target));
      timers.set(target, setTimeout(settle, isIntersecting ? DWELL : LEAVE, target, isIntersecting));
    }
  }, { root: list, rootMargin: "800px" });
  list.querySelectorAll("[data-rows]").forEach((piece) => observer.observe(piece));
}

// The chosen entry is shown when the page opens: its piece of the list is there already.
document.addEventListener("DOMContentLoaded", () => {
  const list = document.getElementById("list");
  if (list) watchPieces(list);
  rove();
  const row = document.querySelector(".list .row.chosen");
  if (row) list.scrollTop = row.offsetTop - list.clientHeight / 2;
});

// A table that grows by itself keeps its newest rows.
document.addEventListener("htmx:sseMessage", () => {
  document.querySelectorAll("[data-most]").forEach((body) => {
    while (body.rows.length > body.dataset.most) body.lastElementChild.remove();
  });
});

// What a form has led to takes the focus, so that it is read out and the next key goes on from there.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(location.hash === "#words" ? "#words" : "[data-focus]")?.focus();
});
