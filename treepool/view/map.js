// The map: nodes as squares in their domains, or domains as bars; names, sizes, clicks and keys.

const MOST_SQUARES = 32768; // nodes from which a domain is only a bar
const MOST_NAMED = 160; // domains without others inside from which those have no names
const areas = []; // {button, squares, title, ranks, share} of each domain drawn

/** A button that shows the nodes of a domain. */
function areaButton(kind, area, ...children) {
  const button = make("button", kind, ...children);
  button.type = "button";
  button.tabIndex = areas.length ? -1 : 0;
  const entry = { button, title: area[1], ranks: idsIn(area).sort((a, b) => a - b), squares: [] };
  areas.push(entry);
  button.addEventListener("click", () => {
    const list = idset(entry.ranks);
    $("host").value = $("host").value === list ? "" : list;
    drawNodes();
  });
  return entry;
}

function drawSpot(area, named) {
  const entry = areaButton("spot", area);
  if (named) entry.button.append(make("small", "", area[1]));
  if (ranks.length > MOST_SQUARES) {
    entry.share = make("span", "");
    entry.button.append(make("span", "share", entry.share));
  } else {
    entry.squares = entry.ranks.map(() => make("i", "square"));
    const squares = make("span", "squares", ...entry.squares);
    squares.style.setProperty("--across", Math.min(48, Math.ceil(Math.sqrt(entry.ranks.length))));
    entry.button.append(squares);
  }
  return entry.button;
}

function drawArea(area, named) {
  const [, , inside] = area;
  if (!inside.length) return drawSpot(area, named);
  const { button } = areaButton("", area);
  return make("div", "area", button, make("div", "inside", ...inside.map((inner) => drawArea(inner, named))));
}

/** How wide a domain is whose inner ones stand in one row; 300 if that is more than the window. */
function columnWidth(inside, square) {
  const wide = (area) => area[2].length
    ? area[2].reduce((sum, inner) => sum + wide(inner), 0)
    : 10 + (square + 1) * Math.ceil(Math.sqrt(idsIn(area).length));
  const most = Math.max(...inside.map(wide));
  return most < innerWidth - 80 ? Math.max(most, 300) : 300;
}

function drawMap() {
  if (!data.map) return;
  const [, , inside] = data.map;
  const spots = (area) => (area[2].length ? area[2].reduce((sum, inner) => sum + spots(inner), 0) : 1);
  const square = ranks.length <= 512 ? 13 : ranks.length <= 4096 ? 8 : 4;
  $("areas").style.setProperty("--square", `${square}px`);
  $("areas").style.setProperty("--column", `${columnWidth(inside, square)}px`);
  $("areas").classList.toggle("grid", inside.some((area) => area[2].length));
  $("areas").append(...inside.map((area) => drawArea(area, spots(data.map) <= MOST_NAMED)));
  $("map").hidden = false;
}

/** Colour the map by the states of the nodes; those that are not in *passed* are dim. */
function paintMap(passed) {
  const host = $("host").value.trim();
  for (const { button, title, ranks: some, squares, share } of areas) {
    let idle = 0;
    some.forEach((rank, i) => {
      const { state } = looks[lookOf.get(rank)].layout;
      if (state === "idle") idle++;
      if (squares[i]) {
        squares[i].className = `square ${state.replace(" ", "-")}${passed.has(rank) ? "" : " dim"}`;
      }
    });
    if (share) share.style.setProperty("width", `${(100 * idle) / some.length}%`);
    const said = `${title}: ${idle.toLocaleString("en")} of ${count(some.length, "node")} idle`;
    button.title = said;
    button.setAttribute("aria-label", said);
    button.setAttribute("aria-pressed", String(host === idset(some)));
    if (button.parentElement.className === "area") button.textContent = said;
  }
}

/** From one domain to another by arrow keys. */
function walkMap(event) {
  const at = areas.findIndex(({ button }) => button === event.target);
  const targets = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: areas.length - 1 };
  const next = areas[targets[event.key]];
  if (at < 0 || !next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.button.tabIndex = 0;
  next.button.focus();
}
