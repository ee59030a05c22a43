"use strict";
// Values under the pointer. The page is whole without it; nothing here asks for anything.
(() => {
  const ticks = (v) => Number(v.toPrecision(4)).toString();
  const make = (tag, kind, text) => {
    const e = document.createElement(tag);
    e.className = kind;
    if (text) e.textContent = text;
    if (tag === "button") e.type = "button";
    return e;
  };
  const tip = make("div", "tip");
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);

  const spot = (svg, event) => {
    const at = svg.createSVGPoint();
    at.x = event.clientX;
    at.y = event.clientY;
    return at.matrixTransform(svg.getScreenCTM().inverse());
  };
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  };
  const value = (panel, share) => {
    const [low, high] = panel.x;
    return panel.log ? low * (high / low) ** share : low + share * (high - low);
  };
  const hide = (svg) => {
    tip.hidden = true;
    svg.querySelector(".guide")?.remove();
  };
  const tell = (svg, looks, event) => {
    const at = spot(svg, event);
    const panel = looks.find(({ box: b }) => at.x >= b[0] && at.x <= b[2] && at.y >= b[1] && at.y <= b[3]);
    hide(svg);
    if (!panel) return;
    const [left, top, right, bottom] = panel.box;
    const x = value(panel, (at.x - left) / (right - left));
    const lines = [];
    for (const [name, xs, ys] of panel.lines) {
      const slack = 0.03 * Math.abs(panel.x[1] - panel.x[0]);
      if (x < xs[0] - slack || x > xs[xs.length - 1] + slack) continue;
      lines.push(`${name}: ${ticks(ys[nearest(xs, x)])}`);
    }
    tip.replaceChildren(make("b", "", `${panel.name} ${ticks(x)}`), ...lines.map((line) => make("span", "", line)));
    const guide = document.createElementNS("http://www.w3.org/2000/svg", "line");
    guide.setAttribute("class", "guide");
    for (const [k, v] of Object.entries({ x1: at.x, x2: at.x, y1: top, y2: bottom })) guide.setAttribute(k, v);
    svg.append(guide);
    tip.hidden = false;
    const wide = tip.offsetWidth, gap = 14;
    const over = event.clientX + gap + wide > document.documentElement.clientWidth;
    tip.style.left = `${Math.max(4, over ? event.clientX - gap - wide : event.clientX + gap)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + gap, window.innerHeight - tip.offsetHeight - 4))}px`;
  };
  for (const svg of document.querySelectorAll("svg[data-look]")) {
    const looks = JSON.parse(svg.dataset.look);
    svg.addEventListener("pointermove", (event) => tell(svg, looks, event));
    svg.addEventListener("pointerdown", (event) => tell(svg, looks, event));
    svg.addEventListener("pointerleave", () => hide(svg));
  }

  // A link opens the part that it leads to; paper shows all of them.
  const open = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not(#words)")) part.open = true;
  });
})();
