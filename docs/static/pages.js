// A phone shows a table's rows as cards (narrow.css): each cell says of which column it is. Long names
// may break behind their underscores, and nowhere else.
const breakable = (cell) => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const names = [];
  while (walk.nextNode()) if (/\w_\w/.test(walk.currentNode.data)) names.push(walk.currentNode);
  for (const name of names) {
    const parts = name.data.split(/(?<=\w_)(?=\w)/);
    name.replaceWith(...parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
  }
};

document.addEventListener("DOMContentLoaded", () => {
  // what scrolls within itself is reached by the keyboard, too
  for (const one of document.querySelectorAll(".content pre, .content .drawing")) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
  }
  // the theme calls them headings, but not of which level
  for (const one of document.querySelectorAll(".caption[role=heading]")) one.ariaLevel = 2;
  for (const table of document.querySelectorAll(".content table.docutils")) {
    const columns = [...table.querySelectorAll("thead th")].map((one) => one.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        if (!place) breakable(cell);
        if (columns[place]) cell.dataset.column = columns[place];
      });
    }
  }
});
