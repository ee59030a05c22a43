"use strict";
// Values under the pointer, and pictures enlarged. The page is whole without it; nothing here asks for anything.
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
    (svg.closest("dialog") || document.body).append(tip);
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

  // One picture at a time in a window of its own: + and −, the arrow keys, a frame drawn with the pointer.
  const box = make("dialog", "zoom"), bar = make("div", "bar"), stage = make("div", "stage");
  box.setAttribute("aria-label", "Picture, enlarged");
  let svg, home, whole, view, from;
  const show = (next) => {
    const width = Math.min(Math.max(next[2], whole[2] / 20), whole[2]);
    const height = Math.min(Math.max(next[3], whole[3] / 20), whole[3]);
    view = [
      Math.min(Math.max(next[0], 0), whole[2] - width), Math.min(Math.max(next[1], 0), whole[3] - height), width, height,
    ];
    svg.setAttribute("viewBox", view.join(" "));
  };
  const scale = (by) => show([
    view[0] + view[2] * (1 - by) / 2, view[1] + view[3] * (1 - by) / 2, view[2] * by, view[3] * by,
  ]);
  const move = (x, y) => show([view[0] + x * view[2] / 8, view[1] + y * view[3] / 8, view[2], view[3]]);
  const keys = {
    "+": () => scale(1 / 1.5), "-": () => scale(1.5), "0": () => show(whole), ArrowLeft: () => move(-1, 0),
    ArrowRight: () => move(1, 0), ArrowUp: () => move(0, -1), ArrowDown: () => move(0, 1),
  };
  for (const [text, told, key] of [["+", "Nearer", "+"], ["−", "Farther", "-"], ["Whole", "", "0"]]) {
    const button = make("button", "", text);
    if (told) button.setAttribute("aria-label", told);
    button.addEventListener("click", keys[key]);
    bar.append(button);
  }
  const close = make("button", "", "Close");
  close.addEventListener("click", () => box.close());
  bar.append(close, make("span", "", "Draw a frame to look nearer; arrow keys move."));
  box.append(bar, stage);
  box.addEventListener("keydown", (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  stage.addEventListener("pointerdown", (event) => { if (svg) from = spot(svg, event); });
  stage.addEventListener("pointerup", (event) => {
    if (!svg || !from) return;
    const to = spot(svg, event), width = Math.abs(to.x - from.x), height = Math.abs(to.y - from.y);
    if (width > view[2] / 50 && height > view[3] / 50) show([Math.min(from.x, to.x), Math.min(from.y, to.y), width, height]);
    from = null;
  });
  box.addEventListener("close", () => {
    hide(svg);
    show(whole);
    home.append(svg);
    document.body.append(tip);
    svg = null;
  });
  document.body.append(box);
  for (const figure of document.querySelectorAll("figure")) {
    if (!figure.querySelector("svg")) continue;
    const button = make("button", "enlarge", "Enlarge");
    button.setAttribute("aria-label", `Enlarge: ${figure.querySelector("[role=img]").getAttribute("aria-label").slice(0, 80)}`);
    button.addEventListener("click", () => {
      svg = [...figure.querySelectorAll("svg")].find((e) => e.getBoundingClientRect().width) || figure.querySelector("svg");
      home = svg.parentElement;
      view = whole = svg.getAttribute("viewBox").split(" ").map(Number);
      stage.append(svg);
      box.showModal();
    });
    figure.append(button);
  }
})();
