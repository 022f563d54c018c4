"use strict";
// The picture that stands as JSON in this page: its nodes, jobs and steps. page.js draws it.

const data = JSON.parse(document.getElementById("data").textContent);
/** The ids of idset *text*, such as "0-3,7". */
function ids(text) {
  const found = [];
  for (const item of text ? text.split(",") : []) {
    const [first, last = first] = item.split("-").map(Number);
    for (let id = first; id <= last; id++) found.push(id);
  }
  return found;
}

/** Ascending *numbers* as an idset. */
function idset(numbers, name = String) {
  const parts = [];
  for (let i = 0; i < numbers.length; ) {
    let j = i;
    while (j + 1 < numbers.length && numbers[j + 1] === numbers[j] + 1) j++;
    parts.push(i === j ? name(numbers[i]) : `${name(numbers[i])}-${name(numbers[j])}`);
    i = j + 1;
  }
  return parts.join(",");
}

const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

// -- what does not change

const ranks = ids(data.ranks);
const hostOf = new Map(); // rank -> [prefix, number, width], or [name]
{
  let place = 0;
  for (const [prefix, first, width, many = 1] of data.hosts) {
    for (let i = 0; i < many; i++) {
      hostOf.set(ranks[place++], first === undefined ? [prefix] : [prefix, first + i, width]);
    }
  }
}
const pad = (number, width) => String(number).padStart(width, "0");
const hostName = ([prefix, number, width]) =>
  number === undefined ? prefix : prefix + pad(number, width);

/** The hosts of *some* ranks as a hostlist, cut if very long. */
function hosts(some) {
  const groups = [];
  for (const rank of some) {
    const [prefix, number, width] = hostOf.get(rank);
    const last = groups[groups.length - 1];
    if (number !== undefined && last && last.prefix === prefix && last.width === width) {
      last.numbers.push(number);
    } else if (groups.push({ prefix, width, numbers: number === undefined ? [] : [number] }) > 40) break;
  }
  const shown = groups.map(({ prefix, width, numbers }) => {
    const list = idset(numbers, (n) => pad(n, width));
    return numbers.length > 1 ? `${prefix}[${list}]` : prefix + list;
  });
  const text = shown.join(",");
  return text.length > 400 ? text.slice(0, 400) + "…" : text;
}

const jobs = []; // {name, shape, slots, nodes, cores, gpus}
for (const [first, kinds] of data.jobs) {
  kinds.forEach((kind, i) => {
    const [shape, slots, nodes, cores, gpus] = data.kinds[kind];
    jobs.push({ name: i ? String(Number(first) + i) : first, shape, slots, nodes, cores, gpus });
  });
}
const layouts = data.layouts.map(([type, status, state, lost, held], number) => ({
  number, type, status, state,
  lost: new Set(ids(lost)),
  held: held.map(([cores, gpus]) => ({ core: new Set(ids(cores)), gpu: new Set(ids(gpus)) })),
}));
const looks = data.looks.map(([layout, ...holders]) => ({ layout: layouts[layout], jobs: holders }));

/** A job's letter and the class of its colour. */
function mark(job) {
  if (jobs[job].name === data.other) return { letter: "?", kind: "grey" };
  return { letter: data.letters[job % data.letters.length], kind: `c${job % data.colours}` };
}

/** The marks of a row's holders, different letters as long as they last. */
function marks(row) {
  const taken = new Set();
  return row.jobs.map((some, i) => {
    let found = mark(some[0]);
    if (some.length > 1) found = { letter: "123456789"[i] || "#", kind: `c${i % data.colours}` };
    else if (taken.has(found.letter) && found.kind !== "grey") {
      const from = data.letters.indexOf(found.letter);
      const turned = data.letters.slice(from) + data.letters.slice(0, from);
      found = { ...found, letter: [...turned].find((l) => !taken.has(l)) || found.letter };
    }
    taken.add(found.letter);
    return found;
  });
}

// -- the step shown, and its rows

let step = data.steps.length - 1;
let lookOf = new Map(); // rank -> number of its look
let placed = -1;

function goTo(wanted) {
  if (wanted < placed) placed = -1;
  if (placed < 0) lookOf = new Map();
  for (let i = placed + 1; i <= wanted; i++) {
    for (const [look, some] of data.steps[i][2]) for (const rank of ids(some)) lookOf.set(rank, look);
  }
  placed = step = wanted;
}

/** Rows that differ only in which jobs they run, as one; those of most nodes first. */
function alike(found) {
  const groups = new Map();
  for (const row of found) {
    const whole = groups.get(row.layout);
    if (!whole) {
      groups.set(row.layout, { ...row, ranks: [...row.ranks], jobs: row.jobs.map((some) => new Set(some)) });
      continue;
    }
    for (const rank of row.ranks) whole.ranks.push(rank);
    row.jobs.forEach(([job], i) => whole.jobs[i].add(job));
  }
  const order = (a, b) => a - b;
  const folded = [...groups.values()].map((row) => (
    { ...row, ranks: row.ranks.sort(order), jobs: row.jobs.map((some) => [...some].sort(order)) }));
  return folded.sort((a, b) => b.ranks.length - a.ranks.length || a.ranks[0] - b.ranks[0]);
}
