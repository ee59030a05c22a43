"use strict";
// A link opens the part that it leads to; paper shows all of them. The page is whole without it.
(() => {
  const open = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not(#words)")) part.open = true;
  });
})();
