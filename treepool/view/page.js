// The page: which jobs and boxes it lists first, how many, its filters, numbers, details and keys.
// Names are only ever set as text.

const PAGE = 60; // boxes drawn at a time

/** The rows that the filters leave, each {layout, ranks, jobs}, and how many nodes they are.
 *  *passed* gets the ranks of these nodes. */
function rows(passed) {
  const text = $("host").value.trim();
  const asked = text ? named(text) : null;
  const { job, type, state } = { job: $("job").value.trim(), type: $("type").value, state: $("state").value };
  const wanted = looks.map(({ layout, jobs: holders }) =>
    (!job || holders.some((h) => jobs[h].name === job)) &&
    (!type || layout.type === Number(type) || (type === "more" && layout.type >= data.types.length)) &&
    (!state || layout.state === state));
  const groups = new Map();
  let nodes = 0;
  const each = $("fold").value === "each";
  for (const rank of ranks) {
    const look = lookOf.get(rank);
    if (!wanted[look] || (asked && !asked.has(rank))) continue;
    nodes++;
    passed.add(rank);
    const key = each ? rank : look;
    if (groups.has(key)) groups.get(key).ranks.push(rank);
    else groups.set(key, { ranks: [rank], look });
  }
  let found = [...groups.values()].map(({ ranks: some, look }) => (
    { layout: looks[look].layout, ranks: some, jobs: looks[look].jobs.map((j) => [j]) }));
  if (!each && found.length > data.manyRows) found = alike(found);
  return { found, nodes };
}

// -- a node's box

const facts = new WeakMap(); // cell -> what is said about it

function jobWords(some) {
  const first = jobs[some[0]];
  if (first.name === data.other) return "held by no job shown here";
  if (some.length === 1) return `job ${first.name}`;
  return `one of ${some.length.toLocaleString("en")} jobs, ${first.name} to ${jobs[some[some.length - 1]].name}`;
}

function cell(kind, id, row, signs, where) {
  const holder = row.layout.held.findIndex((held) => held[kind].has(id));
  const classes = ["cell", kind];
  let sign = "", state = "free";
  if (holder >= 0) {
    sign = signs[holder].letter;
    classes.push(signs[holder].kind);
    const job = $("job").value.trim();
    if (job && !row.jobs[holder].some((j) => jobs[j].name === job)) classes.push("dim");
  } else if (row.layout.status !== "up") {
    state = `out of service: node ${row.layout.status}`;
    classes.push("away");
  } else classes.push("free");
  const element = make("i", classes.join(" "), sign);
  element.tabIndex = -1;
  element.dataset.kind = kind;
  element.dataset.id = id;
  facts.set(element, { kind, id, row, where, holder, state });
  return element;
}

/** Too many cells to draw: a line for each holder. */
function tally(kind, all, row, signs) {
  const numbers = new Map();
  for (const id of all) {
    const holder = row.layout.held.findIndex((held) => held[kind].has(id));
    numbers.set(holder, (numbers.get(holder) || 0) + 1);
  }
  return make("div", "", ...[...numbers].map(([holder, number]) => {
    const nobody = row.layout.status === "up" ? "free" : "away";
    const sample = make("i", `cell ${kind} ${holder < 0 ? nobody : signs[holder].kind}`, holder < 0 ? "" : signs[holder].letter);
    return make("span", "tally", sample, count(number, kind === "gpu" ? "GPU" : "core"));
  }));
}

function grid(kind, text, row, signs, where) {
  const all = ids(text);
  if (all.length > data.maxCells) return tally(kind, all, row, signs);
  const width = all.length <= 32 ? "w8" : all.length <= 128 ? "w16" : "w24";
  return make("span", `cells ${kind === "gpu" ? "gpus" : width}`, ...all.map((id) => cell(kind, id, row, signs, where)));
}

/** The class of small domains that stand in a square rather than in a row. */
function columns(children) {
  const small = children.every(([, , cores, gpus, inside]) => !inside.length && ids(cores).length <= 32 && ids(gpus).length <= 1);
  return small ? `k${Math.min(3, Math.ceil(Math.sqrt(children.length)))}` : "";
}

function domain([title, memory, cores, gpus, children, leftOut], row, signs, path) {
  const where = title === "node" ? path : [...path, title];
  const parts = [];
  if (title !== "node") parts.push(make("span", "name", memory ? `${title}, ${memory}` : title));
  if (cores || gpus) {
    const leaf = make("div", "leaf");
    if (cores) leaf.append(grid("core", cores, row, signs, where));
    if (gpus) leaf.append(grid("gpu", gpus, row, signs, where));
    parts.push(leaf);
  }
  if (children.length) parts.push(make("div", `kids ${columns(children)}`, ...children.map((c) => domain(c, row, signs, where))));
  if (leftOut) parts.push(make("small", "", `and ${leftOut.toLocaleString("en")} more domains`));
  return make("div", title === "node" ? "" : children.length ? "frame" : "bare", ...parts);
}

function box(row) {
  const { layout } = row;
  const signs = marks(row);
  const many = row.ranks.length > 1;
  const number = many ? `${row.ranks.length.toLocaleString("en")} × ` : "";
  const name = number + hosts(row.ranks, 56);
  const title = make("h2", "", name);
  title.title = hosts(row.ranks);
  const head = make("header", "", title);
  if (!many) head.append(make("small", "", `rank ${row.ranks[0]}`));
  if (data.types.length > 1) head.append(make("small", "", `type ${layout.type + 1}`));
  head.append(make("span", `state ${layout.state.replace(" ", "-")}`, layout.state));
  const type = data.types[layout.type];
  const body = type ? domain(type.root, row, signs, []) : make("small", "", "not drawn: the cluster has too many types of node");
  const holders = make("div", "holders", ...row.jobs.slice(0, 12).map((some, i) =>
    make("span", "", make("i", `letter ${signs[i].kind}`, signs[i].letter), jobWords(some))));
  if (row.jobs.length > 12) holders.append(make("span", "", `and ${row.jobs.length - 12} more`));
  const element = make("article", "node", head, make("div", "body", body), row.jobs.length ? holders : "");
  element.tabIndex = 0;
  element.dataset.ranks = idset(row.ranks);
  element.setAttribute("aria-label", `${name}, ${layout.state}`);
  return element;
}

// -- the page

function tile(kind, number, what, of) {
  const share = of ? Math.min(100, (100 * number) / of) : 0;
  const fill = make("span", "");
  fill.style.setProperty("width", `${number ? Math.max(1, share) : 0}%`);
  const element = make("div", `tile ${kind}`, make("b", "", number.toLocaleString("en")), what, make("span", "bar", fill));
  element.dataset.number = number;
  element.dataset.what = what;
  return element;
}

function drawTiles() {
  const t = Object.fromEntries(data.fields.map((field, i) => [field, data.steps[step][1][i]]));
  const found = [];
  if (t.gpus) {
    const stranded = Math.floor(t.gpus_stranded);
    found.push(tile("good", t.gpus_free, "GPUs free", t.gpus), tile("", t.gpus_used, "GPUs used", t.gpus),
      tile(stranded ? "lost" : "", stranded, "GPUs stranded", t.gpus));
  }
  found.push(tile("good", t.cores_free, "cores free", t.cores), tile("", t.cores_used, "cores used", t.cores),
    tile("good", t.idle, "nodes idle", t.nodes), tile("", t.partly + t.full, "nodes in use", t.nodes));
  if (t.down + t.drained) found.push(tile("out", t.down + t.drained, "nodes not up", t.nodes));
  $("tiles").replaceChildren(...found);
  const states = [[t.gpus, "GPU"], [t.cores, "core"]].filter(([n]) => n).map(([n, what]) => count(n, what));
  $("heading").textContent = `${count(t.nodes, "node")}, ${states.join(", ")}`;
}

let waiting = []; // rows not drawn yet

function drawMore() {
  $("nodes").append(...waiting.splice(0, PAGE).map(box));
  $("more").hidden = !waiting.length;
  $("more").textContent = `Show ${Math.min(PAGE, waiting.length)} more of ${count(waiting.length, "box").replace("boxs", "boxes")}`;
}

function drawNodes() {
  const text = $("host").value.trim();
  const passed = new Set();
  const { found, nodes } = rows(passed);
  waiting = found;
  paintMap(passed);
  $("found").textContent = nodes
    ? `${count(nodes, "node")} in ${count(found.length, "box").replace("boxs", "boxes")}`
    : `No node is like that${text ? `: ${text}` : ""}.`;
  hideDetail();
  $("nodes").replaceChildren();
  drawMore();
  for (const button of $("jobs").children) {
    button.setAttribute("aria-pressed", String(button.dataset.job === $("job").value.trim()));
  }
}

/** Whose a job is, and when it ends, where that is known. */
function owner(name) {
  const [user, ends] = data.owners[name] || [];
  return user ? [user, ends ? `until ${ends}` : "without a limit"] : [];
}

/** A table with a row for each of *rows*, whose first cell is its heading. */
function table(names, rows) {
  const body = rows.map(([label, ...cells]) =>
    make("tr", "", make("th", "", label), ...cells.map((text) => make("td", "", text))));
  return make("table", "", make("thead", "", make("tr", "", ...names.map((name) => make("th", "", name)))),
    make("tbody", "", ...body));
}

function drawQueue() {
  $("queue").hidden = !data.waiting.length;
  const rows = data.waiting.map(([job, user, name, since, why, starts]) =>
    [job, user, name, since, starts || "not known", why || "not judged yet"]);
  $("queue").append(table(["job", "user", "name", "since", "starts", "because"], rows));
}

function drawJobs() {
  const shown = jobs.slice(0, PAGE).map((job, i) => {
    const { letter, kind } = mark(i);
    const has = [count(job.cores, "core"), ...(job.gpus ? [count(job.gpus, "GPU")] : []), ...owner(job.name)].join(", ");
    const button = make("button", "", make("i", `letter ${kind}`, letter),
      make("span", "", `${job.name}: ${job.shape} `, make("small", "", has)));
    button.type = "button";
    button.dataset.job = job.name;
    button.addEventListener("click", () => {
      $("job").value = $("job").value === job.name ? "" : job.name;
      drawNodes();
    });
    return button;
  });
  $("jobs").replaceChildren(...shown);
  if (jobs.length > PAGE) $("jobs").append(make("small", "", `and ${(jobs.length - PAGE).toLocaleString("en")} more: type a job's number above`));
}

function drawStep(wanted) {
  goTo(Math.max(0, Math.min(data.steps.length - 1, wanted)));
  $("step").value = step;
  const busiest = data.plot && step === data.opens ? " (the busiest)" : "";
  $("label").textContent = `Step ${step} of ${data.steps.length - 1}${busiest}: ${data.steps[step][0]}`;
  $("step").setAttribute("aria-valuetext", $("label").textContent);
  $("back").disabled = step === 0;
  $("on").disabled = step === data.steps.length - 1;
  drawTiles();
  drawNodes();
}

/** The numbers of replays, a column for each set of rules; the picture of them is in the page. */
function drawPlot() {
  if (!data.plot) return;
  const [title, [names, ...rows]] = data.plot;
  $("plot").hidden = false;
  $("plot").querySelector("h2").textContent = title;
  const heads = names.map((name, i) =>
    name.replaceAll(",", ", ") + (i === 0 && names.length > 1 ? " (drawn below)" : ""));
  $("numbers").append(table(["", ...heads], rows));
}

/** Bring the first box into view, below the filters. */
function showFirst() {
  const first = $("nodes").firstElementChild;
  if (first) first.scrollIntoView({ block: "nearest" });
}

function drawTypes() {
  data.types.forEach((type, i) => {
    const item = make("div", "", make("b", "", `Type ${i + 1}: ${count(type.nodes, "node")}`), ` ${type.hosts}`,
      make("div", "", `${type.has}${type.makeup ? `: ${type.makeup}` : ", not divided"}`));
    if (type.links.length) item.append(make("ul", "", ...type.links.map((line) => make("li", "", line))));
    $("types").append(item);
    $("type").append(new Option(`${i + 1}: ${count(type.nodes, "node")}`, i));
  });
  if (data.moreTypes) {
    $("types").append(make("div", "", `and ${count(data.moreTypes, "more type")}`));
    $("type").append(new Option("others", "more"));
  }
  $("about").open = data.types.length === 1 && innerWidth > 720;
  for (const state of new Set(layouts.map((layout) => layout.state))) $("state").append(new Option(state, state));
  if (data.properties.length) {
    $("properties").textContent = "Properties: " + data.properties.map(([name, n]) => `${name} (${n.toLocaleString("en")})`).join(", ");
  }
}

// -- what is said about a cell

function showDetail(element) {
  const fact = facts.get(element);
  if (!fact) return;
  const { kind, id, row, where, holder, state } = fact;
  const lines = [make("b", "", [...where, `${kind === "gpu" ? "GPU" : "core"} ${id}`].join(" › "))];
  const many = row.ranks.length > 1;
  lines.push(make("div", "quiet", many
    ? `on each of ${count(row.ranks.length, "node")}, ranks ${idset(row.ranks).slice(0, 60)}`
    : `${hosts(row.ranks)}, rank ${row.ranks[0]}`));
  if (holder < 0) lines.push(make("div", "", state));
  else {
    const some = row.jobs[holder];
    lines.push(make("div", "", jobWords(some)));
    if (some.length === 1) {
      const job = jobs[some[0]];
      const has = [count(job.cores, "core"), ...(job.gpus ? [count(job.gpus, "GPU")] : []), count(job.nodes, "node")];
      lines.push(make("div", "", job.shape), make("div", "quiet", `has ${has.join(", ")}${job.slots ? `, ${count(job.slots, "slot")}` : ""}`),
        make("div", "quiet", owner(job.name).join(", ")));
    }
  }
  const links = kind === "gpu" && data.types[row.layout.type].gpuLinks[id];
  if (links) lines.push(make("div", "quiet", links));
  const detail = $("detail");
  detail.replaceChildren(...lines);
  detail.hidden = false;
  const at = element.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - detail.offsetWidth - 8));
  const below = at.bottom + 8 + detail.offsetHeight < innerHeight;
  detail.style.setProperty("left", `${left}px`);
  detail.style.setProperty("top", `${below ? at.bottom + 8 : Math.max(8, at.top - detail.offsetHeight - 8)}px`);
}

function hideDetail() {
  $("detail").hidden = true;
}

/** From one cell to another by arrow keys: along the row, or to the next domain. */
function walk(event) {
  const node = event.target.closest(".node");
  if (!node) return;
  const cells = [...node.querySelectorAll(".cell[data-kind]")];
  const at = cells.indexOf(event.target);
  const groups = [...node.querySelectorAll(".cells")];
  const group = groups.indexOf(event.target.parentElement);
  const targets = {
    ArrowRight: cells[at + 1],
    ArrowLeft: cells[at < 0 ? cells.length - 1 : at - 1],
    ArrowDown: groups[group + 1]?.firstElementChild,
    ArrowUp: groups[group - 1]?.firstElementChild,
    Home: cells[0],
    End: cells[cells.length - 1],
  };
  if (event.key === "Escape") {
    hideDetail();
    node.focus();
  } else if (event.key in targets) {
    event.preventDefault();
    targets[event.key]?.focus();
  }
}

$("areas").addEventListener("keydown", walkMap);
$("nodes").addEventListener("keydown", walk);
$("nodes").addEventListener("focusin", (event) => event.target.matches(".cell") && showDetail(event.target));
$("nodes").addEventListener("focusout", hideDetail);
$("nodes").addEventListener("pointerover", (event) => event.target.matches(".cell") && showDetail(event.target));
$("nodes").addEventListener("pointerout", (event) => event.pointerType !== "touch" && hideDetail());
addEventListener("scroll", () => document.activeElement.matches(".cell") || hideDetail(), { passive: true });
for (const id of ["host", "job"]) {
  $(id).addEventListener("input", () => {
    drawNodes();
    if ($("nodes").childElementCount === 1) showFirst();
  });
  $(id).addEventListener("keydown", (event) => event.key === "Enter" && showFirst());
}
for (const id of ["type", "state", "fold"]) $(id).addEventListener("change", drawNodes);
$("step").addEventListener("input", () => drawStep(Number($("step").value)));
$("back").addEventListener("click", () => drawStep(step - 1));
$("on").addEventListener("click", () => drawStep(step + 1));
$("more").addEventListener("click", drawMore);
$("clear").addEventListener("click", () => {
  for (const id of ["host", "job", "type", "state"]) $(id).value = "";
  $("fold").value = "fold";
  drawNodes();
});

$("step").max = data.steps.length - 1;
$("time").hidden = data.steps.length < 2;
if (data.only !== null) {
  $("host").value = data.only;
  $("fold").value = "each";
}
drawTypes();
drawMap();
drawQueue();
drawJobs();
drawPlot();
drawStep(data.opens);

// What a reader has picked stays until he clears it.
const picked = () => ["host", "job", "type", "state", "fold"].map((id) => $(id).value).join("\n");
const unpicked = picked();
if (data.again) {
  setInterval(() => {
    if (picked() === unpicked && !document.activeElement.matches(".cell")) location.reload();
  }, data.again * 1000);
}
