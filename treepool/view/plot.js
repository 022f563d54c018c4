// The plot of replays: a panel for each number over time, a line in each for each set of rules.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 20; // what axes take of a panel, in pixels
const charts = []; // {svg, cursor, x} of each panel drawn

/** An SVG element with *attributes*. */
function svg(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** How line number *i* looks: no two have both the colour and the dashes. */
const looksOf = (i) => ({
  class: `run l${i % data.plot.colours}`,
  "stroke-dasharray": data.plot.dashes[i % data.plot.dashes.length],
});

/** Round numbers from 0 to *most*, or to the next one above it: four or five beside 0. */
function ticks(most, above) {
  const unit = 10 ** Math.floor(Math.log10(most || 1));
  const each = [0.2, 0.25, 0.5, 1, 2, 2.5].map((n) => n * unit).find((n) => most / n <= 4.01);
  const last = above ? Math.ceil(most / each - 1e-6) : Math.floor(most / each + 1e-6);
  return Array.from({ length: last + 1 }, (_, i) => i * each);
}

const shown = (number) => Number(number.toPrecision(4)).toLocaleString("en");

function drawChart(box, [, lines], span) {
  const { width, height } = box.getBoundingClientRect();
  const values = lines.flatMap(([, some]) => some);
  const scale = ticks(values.reduce((a, b) => Math.max(a, b), 0) || 1, true);
  const most = scale[scale.length - 1];
  const x = (time) => LEFT + (time / (span || 1)) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - (value / most) * (height - TOP - BOTTOM);
  for (const value of scale) {
    box.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    box.append(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, shown(value)));
  }
  const times = ticks(span);
  times.forEach((time, i) => {
    const last = i === times.length - 1;
    const words = last ? `${shown(time)} ${data.plot.unit}` : shown(time);
    const anchor = i === 0 ? "start" : x(time) > width - 60 ? "end" : "middle";
    box.append(svg("text", { x: x(time), y: height - 4, "text-anchor": anchor }, words));
  });
  lines.forEach(([edges, some], i) => {
    let path = "";
    some.forEach((value, place) => {
      const level = y(value).toFixed(1);
      path += `${place ? "L" : "M"}${x(edges[place]).toFixed(1)},${level}L${x(edges[place + 1]).toFixed(1)},${level}`;
    });
    if (path) box.append(svg("path", { ...looksOf(i), d: path }));
  });
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: height - BOTTOM });
  box.append(cursor);
  charts.push({ cursor, x });
  box.addEventListener("click", (event) => {
    const part = (event.clientX - box.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT);
    drawStep(nearestStep(part * span * data.plot.seconds));
  });
}

/** The last step at or before a time, in seconds. */
function nearestStep(seconds) {
  const after = data.steps.findIndex(([, , , at]) => at > seconds);
  return after < 0 ? data.steps.length - 1 : Math.max(0, after - 1);
}

/** The plot as wide as the window is now. */
function drawPanels() {
  charts.length = 0;
  const boxes = data.plot.panels.map(([title]) =>
    svg("svg", { role: "img", "aria-label": `${title} over ${data.plot.unit}` }));
  $("panels").replaceChildren(...data.plot.panels.map(([title], i) =>
    make("div", "chart", make("h3", "", title), boxes[i])));
  const ends = data.plot.panels.flatMap(([, lines]) => lines.map(([edges]) => edges[edges.length - 1] || 0));
  const span = Math.max(...ends);
  data.plot.panels.forEach((panel, i) => drawChart(boxes[i], panel, span));
}

function drawPlot() {
  if (!data.plot) return;
  $("plot").hidden = false;
  $("plot").querySelector("h2").textContent = data.plot.title;
  $("lines").append(...data.plot.names.map((name, i) => {
    const sample = svg("svg", { viewBox: "0 0 51 12", "aria-hidden": "true" });
    sample.append(svg("path", { ...looksOf(i), d: "M0,6L51,6" }));
    const drawn = i === 0 && data.plot.names.length > 1 ? `${name} (its jobs are drawn below)` : name;
    return make("span", "", sample, drawn);
  }));
  const [heads, ...rows] = data.plot.table;
  const body = rows.map(([label, ...cells]) => make("tr", "", make("th", "", label), ...cells.map((text) => make("td", "", text))));
  const head = make("thead", "", make("tr", "", make("th", "", ""), ...heads.map((text) => make("th", "", text.replaceAll(",", ", ")))));
  $("numbers").append(make("table", "", head, make("tbody", "", ...body)));
  drawPanels();
  addEventListener("resize", () => {
    drawPanels();
    drawCursor();
  });
}

/** Mark the time of the step shown. */
function drawCursor() {
  const at = data.steps[step][3] / (data.plot?.seconds || 1);
  for (const { cursor, x } of charts) {
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
  }
}
