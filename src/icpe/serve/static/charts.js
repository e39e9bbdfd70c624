// Small pictures, drawn as SVG from numbers. Texts are set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  parent.append(element);
  return element;
}

export const percent = (share) => `${Math.round(100 * share)} %`;

const path = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function frame(svg, label, below = 20) {
  svg.replaceChildren();
  svg.setAttribute("aria-label", label);
  const { width, height } = svg.viewBox.baseVal;
  const box = { left: 8, right: width - 8, top: 16, bottom: height - below };
  add(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  return box;
}

// The value of a column at a setting, straight between the measured ones. The points are in the order of beta.
export function interpolate(points, beta, column) {
  const right = points.findIndex((point) => point.beta >= beta);
  if (right === 0) return points[0][column];
  if (right < 0) return points[points.length - 1][column];
  const [a, b] = [points[right - 1], points[right]];
  return a[column] + ((beta - a.beta) / (b.beta - a.beta)) * (b[column] - a[column]);
}

// Accuracy against the niche share at every setting of the dial, with the chosen setting and that of the model.
export function drawFront(svg, points, beta, start) {
  const width = Math.round(svg.getBoundingClientRect().width); // as wide as the panel, with texts of the same size
  if (width) svg.setAttribute("viewBox", `0 0 ${width} ${svg.viewBox.baseVal.height}`);
  const box = frame(svg, `NDCG against niche share; chosen: ${percent(interpolate(points, beta, "apt"))} niche`, 34);
  const top = Math.max(...points.map((point) => point.ndcg)) || 1;
  const place = (share, ndcg) => [
    box.left + share * (box.right - box.left),
    box.bottom - (ndcg / top) * (box.bottom - box.top),
  ];
  const line = points.map((point) => place(point.apt, point.ndcg)).sort((a, b) => a[0] - b[0]);
  add(svg, "path", { class: "area", d: `${path(line)}L${line.at(-1)[0]} ${box.bottom}L${line[0][0]} ${box.bottom}Z` });
  add(svg, "path", { class: "line", d: path(line) });
  const at = (setting) => place(interpolate(points, setting, "apt"), interpolate(points, setting, "ndcg"));
  const [x, y] = at(beta);
  add(svg, "line", { class: "guide", x1: x, x2: x, y1: y, y2: box.bottom });
  if (start !== beta) {
    const [sx, sy] = at(start);
    add(svg, "circle", { class: "start", cx: sx, cy: sy, r: 4 });
  }
  add(svg, "circle", { class: "dot", cx: x, cy: y, r: 6 });
  add(svg, "text", { x: box.left, y: box.top - 5 }, "accuracy (NDCG)");
  for (const share of [0, 0.5, 1]) {
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    add(svg, "text", { x: place(share, 0)[0], y: box.bottom + 14, "text-anchor": anchor }, percent(share));
  }
  add(svg, "text", { x: place(0.5, 0)[0], y: box.bottom + 29, "text-anchor": "middle" }, "niche share");
}

// A share over time.
export function drawTrend(svg, values, reference) {
  const box = frame(svg, values.length ? `Niche share over time, now ${percent(values.at(-1))}` : "Niche share over time");
  const height = (share) => box.bottom - share * (box.bottom - box.top);
  const step = (box.right - box.left) / Math.max(values.length - 1, 1);
  const line = values.map((value, place) => [box.left + place * step, height(value)]);
  const guide = height(reference);
  add(svg, "line", { class: "guide", x1: box.left, x2: box.right, y1: guide, y2: guide });
  add(svg, "text", { x: box.left, y: guide - 4 }, `training data ${percent(reference)}`);
  if (line.length === 1) line.unshift([box.left, line[0][1]]), (line[1][0] = box.right);
  if (line.length) {
    add(svg, "path", { class: "line", d: path(line) });
    add(svg, "circle", { class: "dot", cx: line.at(-1)[0], cy: line.at(-1)[1], r: 4.5 });
  }
}

// Share of the places that the most served items have.
export function drawLorenz(svg, curve) {
  const fifth = curve[Math.round((curve.length - 1) / 5)];
  const box = frame(svg, `The most served fifth of the items has ${percent(fifth)} of the places`);
  const x = (share) => box.left + share * (box.right - box.left);
  const y = (share) => box.bottom - share * (box.bottom - box.top);
  const line = curve.map((value, place) => [x(place / (curve.length - 1)), y(value)]);
  add(svg, "line", { class: "guide", x1: x(0), y1: y(0), x2: x(1), y2: y(1) });
  add(svg, "path", { class: "area", d: `${path(line)}L${x(1)} ${y(0)}L${x(0)} ${y(0)}Z` });
  add(svg, "path", { class: "line", d: path(line) });
  add(svg, "circle", { class: "dot", cx: x(0.2), cy: y(fifth), r: 4.5 });
  const text = add(svg, "text", { class: "strong", x: x(0.2) + 9, y: y(fifth) + 16 }, percent(fifth));
  add(text, "tspan", { "font-weight": 400 }, " on a fifth of the items");
  add(svg, "text", { x: x(0), y: box.bottom + 14 }, "0");
  add(svg, "text", { x: x(1), y: box.bottom + 14, "text-anchor": "end" }, "all items");
}
