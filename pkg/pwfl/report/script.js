// Tooltips of marks, tables that sort, and menus; all is there without it.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip"; tip.hidden = true; document.body.append(tip);
  const show = (event) => {
    const mark = event.target.closest?.("svg [aria-label]:not(svg), .dot[aria-label]");
    const text = mark && !/^(X|Y)-axis/.test(mark.getAttribute("aria-label")) ? mark.getAttribute("aria-label") : "";
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8), top = event.clientY + 16;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${top + tip.offsetHeight > innerHeight ? top - tip.offsetHeight - 30 : top}px`;
  };
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, show, { passive: true });
  const value = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim().replace("\u2212", "-").replace(/,/g, ""), number = parseFloat(text);
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  for (const head of document.querySelectorAll("table.sortable thead th")) {
    const sort = () => {
      const body = head.closest("table").tBodies[0], up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [value(row.cells[head.cellIndex]), row]);
      const before = (x, y) => (typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1);
      body.append(...rows.sort(([x], [y]) => before(x, y) * (up ? 1 : -1)).map(([, row]) => row));
    };
    head.tabIndex = 0;
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  }
  for (const menu of document.querySelectorAll("[data-menu]")) { // without script its parts lie below each other
    const parts = [...menu.children], select = document.createElement("select");
    select.setAttribute("aria-label", menu.dataset.menu);
    for (const part of parts) select.add(new Option(part.dataset.label));
    const pick = () => parts.forEach((part, place) => { part.hidden = place !== select.selectedIndex; if (part.tagName === "DETAILS") part.open = true; });
    select.addEventListener("change", pick);
    menu.before(select); menu.classList.add("picked"); pick();
  }
})();
