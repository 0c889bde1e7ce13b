// A phone shows a table's rows as cards (narrow.css): each cell says of which column it is. Long names, paths
// and lists of values in a cell or a heading may break between their words, and nowhere else.
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
  // what scrolls within itself is reached by the keyboard, too
  for (const one of document.querySelectorAll(".content pre")) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
  }
  // the theme calls them headings, but not of which level
  for (const one of document.querySelectorAll(".caption[role=heading]")) one.ariaLevel = 2;
  // nor which of its two columns beside the text is which, and to the page of the search it gives no heading
  for (const [side, says] of [["sidebar-drawer", "All pages"], ["toc-drawer", "This page"]]) {
    for (const one of document.querySelectorAll(`aside.${side}`)) one.ariaLabel = says;
  }
  if (!document.querySelector("h1")) {
    const heading = document.createElement("h1");
    heading.textContent = document.title.split(" - ")[0];
    document.querySelector("article").prepend(heading);
  }
  // a phone has no room for the path of a route
  for (const one of document.querySelectorAll(".content h2, .content h3")) breakable(one);
  for (const table of document.querySelectorAll(".content table.docutils")) {
    const columns = [...table.querySelectorAll("thead th")].map((one) => one.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        breakable(cell);
        if (columns[place]) cell.dataset.column = columns[place];
      });
    }
  }
});
