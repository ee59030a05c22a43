// What the theme leaves out for readers who use no pointer: levels of the contents' headings, code that scrolls by keys.
document.addEventListener("DOMContentLoaded", () => {
  for (const e of document.querySelectorAll("[role=heading]:not([aria-level])")) e.setAttribute("aria-level", "2");
  for (const e of document.querySelectorAll("pre, .table-wrapper")) if (e.scrollWidth > e.clientWidth) e.tabIndex = 0;
});
