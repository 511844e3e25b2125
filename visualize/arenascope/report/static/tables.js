// SPDX-License-Identifier: MIT
// Tables that can be sorted by a click on a column's title, and commands that can be copied.

export function sortableTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("thead th[data-sort]").forEach((title) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...title.childNodes);
      title.append(button);
      button.addEventListener("click", () => sort(table, title));
    });
  }
}

function sort(table, title) {
  const column = title.cellIndex;
  const descending = title.getAttribute("aria-sort") !== "descending";
  // What is not known comes last, whichever way.
  const value = (row) => Number(row.cells[column].dataset.bytes ?? (descending ? -1 : Infinity));
  const rows = [...table.tBodies[0].rows].sort((a, b) => (descending ? value(b) - value(a) : value(a) - value(b)));
  table.tBodies[0].append(...rows);
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  title.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

export function copyButtons() {
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        // No clipboard here: mark the words, so that a key copies them.
        getSelection().selectAllChildren(button.previousElementSibling);
      }
    });
  }
}
