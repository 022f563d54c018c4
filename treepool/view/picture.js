"use strict";
// The picture in this page: what a filter of hosts accepts, which rows fold, and their order.
// The picture stands as JSON in the page. The other scripts draw it.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);

/** An element of class *kind* with *children*, which are elements or texts. */
function make(tag, kind, ...children) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...children);
  return element;
}

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
const hostOf = new Map(ranks.map((rank, place) => [rank, data.hosts[place]]));
const pad = (number, width) => String(number).padStart(width, "0");

/** The hosts of *some* ranks as a hostlist, cut between two of them if it is too long. */
function hosts(some, longest = 400) {
  const groups = [];
  for (const rank of some) {
    const [, prefix, digits] = hostOf.get(rank).match(/^(.*?)(\d{0,9})$/);
    const last = groups[groups.length - 1];
    if (digits && last && last.prefix === prefix && pad(Number(digits), last.width) === digits) {
      last.numbers.push(Number(digits));
    } else if (groups.push({ prefix, width: digits.length, numbers: digits ? [Number(digits)] : [] }) > 40) break;
  }
  const shown = groups.map(({ prefix, width, numbers }) => {
    const list = idset(numbers, (n) => pad(n, width));
    return numbers.length > 1 ? `${prefix}[${list}]` : prefix + list;
  });
  const text = shown.join(",");
  if (text.length <= longest) return text;
  const head = text.slice(0, longest - 2).replace(/,[^,]*$/, ",");
  return `${head}…${head.lastIndexOf("[") > head.lastIndexOf("]") ? "]" : ""}`;
}

const jobs = data.jobs.map(([name, kind]) => {
  const [shape, slots, nodes, cores, gpus] = data.kinds[kind];
  return { name, shape, slots, nodes, cores, gpus };
});
const layouts = data.layouts.map(([type, status, state, held, greys], number) => ({
  number, type, status, state, greys,
  held: held.map(([cores, gpus]) => ({ core: new Set(ids(cores)), gpu: new Set(ids(gpus)) })),
}));
const looks = data.looks.map(([layout, ...holders]) => ({ layout: layouts[layout], jobs: holders }));

/** A job's letter and the class of its colour. */
const mark = (job) => ({ letter: data.letters[job], kind: `c${parseInt(data.colours[job], 16)}` });

/** The marks of a row's holders. */
function marks({ jobs: holders, layout }) {
  const last = data.several.length - 1;
  return holders.map((some, i) => (some.length === 1 ? mark(some[0]) : {
    letter: data.several[Math.min(i, last)],
    kind: `c${parseInt(layout.greys[i], 16)}`,
  }));
}

// -- nodes by what a person types

const MOST_NAMES = 100000; // names in brackets that are tried

const rankOf = new Map(ranks.map((rank) => [hostOf.get(rank).toLowerCase(), rank]));

/** The names that a word such as "cray[5-9,12]" stands for. */
function expanded(word) {
  const match = word.match(/^([^[\]]*)\[([\d,-]+)\](.*)$/);
  if (!match) return [word];
  const found = [];
  for (const item of match[2].split(",")) {
    const [first, last = first] = item.split("-");
    const end = Math.min(Number(last), Number(first) + MOST_NAMES);
    for (let n = Number(first); n <= end && first; n++) {
      found.push(...expanded(`${match[1]}${pad(n, first.length)}${match[3]}`));
      if (found.length > MOST_NAMES) return found;
    }
  }
  return found;
}

/** The ranks that *text* names: hosts, ranks, a domain of the map, or a part of hosts' names. */
function named(text) {
  const wanted = text.trim().toLowerCase();
  if (/^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(wanted)) {
    const spans = wanted.split(",").map((item) => item.split("-").map(Number));
    return new Set(ranks.filter((r) => spans.some(([a, b = a]) => r >= a && r <= b)));
  }
  const found = new Set();
  const domains = [];
  const walk = (area) => {
    const [locality, title, inside] = area;
    const name = locality ? title.slice(locality.length + 1) : title;
    if ([name.toLowerCase(), title.toLowerCase()].includes(wanted)) domains.push(area);
    inside.forEach(walk);
  };
  if (data.map) data.map[2].forEach(walk);
  for (const area of domains) for (const rank of idsIn(area)) found.add(rank);
  if (found.size) return found;
  for (const word of wanted.match(/(?:[^\s,[]|\[[^\]]*\]?)+/g) || []) {
    const known = expanded(word).filter((name) => rankOf.has(name));
    for (const name of known) found.add(rankOf.get(name));
    if (!known.length) for (const [name, rank] of rankOf) if (name.includes(word)) found.add(rank);
  }
  return found;
}

/** All ranks in a domain of the map. */
const idsIn = ([, , inside, list]) => (inside.length ? inside.flatMap(idsIn) : ids(list));

// -- the step shown, and its rows

let step = data.opens;
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
