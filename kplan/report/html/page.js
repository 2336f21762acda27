"use strict";
// Tables sort by a click on a header and filter by a word; without scripts they are plain tables in a sensible order.
for (const table of document.querySelectorAll("table.data")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const value = (row, column) => row.cells[column]?.dataset.value ?? row.cells[column]?.textContent.trim() ?? "";
  const compare = (a, b) => {
    const x = Number.parseFloat(a), y = Number.parseFloat(b);
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, { numeric: true }) : x - y;
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      rows.sort((a, b) => compare(value(a, column), value(b, column)) * (descending ? -1 : 1));
      body.append(...rows);
    });
  });
  if (rows.length > 7) {
    const input = document.createElement("input");
    input.type = "search";
    input.className = "filter";
    input.placeholder = `filter ${rows.length} rows`;
    input.setAttribute("aria-label", "filter the rows of the table below");
    input.addEventListener("input", () => {
      const word = input.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(word);
    });
    table.before(input);
  }
}
// A link to something inside a folded part opens that part.
const reveal = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let parent = target; parent; parent = parent.parentElement) if (parent.tagName === "DETAILS") parent.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();
