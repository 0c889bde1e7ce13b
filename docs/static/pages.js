// A phone shows a table's rows as cards (narrow.css), so each cell carries the name of its column. Long names,
// paths and lists of values in a cell or a heading may break only between their words.
const BETWEEN = /(?<=\w[_/,=])(?=\w)|(?<=[a-z])(?=\.[a-z_])/;
const BETWEEN_IN_CODE = /(?<=\w[_/,=:])(?=[\w<])|(?<=[a-z])(?=\.[a-z_]|[A-Z])/;
const breakable = (cell) => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walk.nextNode()) texts.push(walk.currentNode);
  for (const text of texts) {
    const parts = text.data.split(text.parentElement.closest("code, h2, h3") ? BETWEEN_IN_CODE : BETWEEN);
    if (parts.length < 2) continue;
    text.replaceWith(...parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
  }
};

document.addEventListener("DOMContentLoaded", () => {
  // let the keyboard reach blocks that scroll
  for (const block of document.querySelectorAll(".content pre")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  }
  // the theme gives captions the heading role, but no level
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.ariaLevel = 2;
  // the theme neither labels its two sidebars nor gives the search page a heading
  for (const [side, label] of [["sidebar-drawer", "All pages"], ["toc-drawer", "This page"]]) {
    for (const sidebar of document.querySelectorAll(`aside.${side}`)) sidebar.ariaLabel = label;
  }
  if (!document.querySelector("h1")) {
    const heading = document.createElement("h1");
    heading.textContent = document.title.split(" - ")[0];
    document.querySelector("article").prepend(heading);
  }
  // a route's path is too long for a phone
  for (const heading of document.querySelectorAll(".content h2, .content h3")) breakable(heading);
  for (const table of document.querySelectorAll(".content table.docutils")) {
    const columns = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        breakable(cell);
        if (columns[place]) cell.dataset.column = columns[place];
      });
    }
  }
});
