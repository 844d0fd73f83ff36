// The page of a cluster: what is free on its nodes, why no pod is pinned on some, and what pending
// pods wait for. Whatever the cluster says becomes the text of an element, and nothing else.

import { list, make, mark, roam, write } from './dom.js';
import { clock } from './model.js';
import { beside, sortable } from './rows.js';
import { follow } from './stream.js';

const alphabet = new Intl.Collator('en', { numeric: true });
const more = (key) => (a, b) => b[key] - a[key];
const podName = (p) => `${p.namespace}/${p.pod}`;

/** page is how many rows a table has at first, and how many more the reader gets at once. */
const page = 100;

// At first a table has the order in which the cluster says its rows.
const nodeColumns = [
  { name: 'Node', up: true, by: (a, b) => alphabet.compare(a.name, b.name) },
  { name: 'Free CPUs', by: (a, b) => a.at - b.at, class: 'number', first: true },
  { name: 'Whole L3', by: more('freeL3'), class: 'number' },
  { name: 'Fragmented', by: more('fragmentation'), class: 'few' },
  { name: 'Pinned', by: more('pinned'), class: 'few' },
  { name: 'Pods', by: more('pods'), class: 'few' },
  { name: 'Pinnable', class: 'why' },
];
const podColumns = [
  { name: 'Pod', up: true, by: (a, b) => a.at - b.at, first: true },
  { name: 'CPUs', by: more('cpus'), class: 'few' },
  { name: 'Age', by: (a, b) => Date.parse(a.since) - Date.parse(b.since), class: 'few' },
  { name: 'Scheduler', up: true, by: (a, b) => alphabet.compare(a.scheduler, b.scheduler), class: 'scheduler' },
  { name: 'Why', class: 'why' },
];

/** Rows is one of the two tables: its first rows, and more where the reader asks for them. */
class Rows {
  constructor(kind, columns, key, make, fill, text) {
    Object.assign(this, { key, make, fill, text, most: page, order: columns.find((column) => column.first) });
    this.body = document.getElementById(`${kind}-rows`);
    this.none = document.getElementById(`no-${kind}s`);
    this.more = document.getElementById(`more-${kind}s`);
    this.more.addEventListener('click', () => {
      const last = this.body.lastElementChild;
      this.most += page;
      this.draw(this.all);
      last.nextElementSibling?.querySelector('a')?.focus();
    });
    sortable(document.getElementById(`${kind}-columns`), columns, (column) => {
      this.order = column;
      if (view) this.draw(this.all);
    }, this.order);
  }

  /** draw shows those that have the wanted text, in the chosen order, and says how many they are. */
  draw(all) {
    this.all = all;
    const found = all.map((one, at) => ({ ...one, at })).filter((one) => !wanted || this.text(one).toLowerCase().includes(wanted));
    found.sort((a, b) => this.order.by(a, b) || a.at - b.at);
    const shown = found.slice(0, this.most);
    const held = this.body.contains(document.activeElement) && document.activeElement.closest('tr').key;
    const away = held && found.find((one, i) => i >= this.most && this.key(one) === held);
    if (away) shown.push(away); // what has the focus stays, wherever its place is now
    list(this.body, shown, this.key, this.make, this.fill);
    const row = held && !this.body.contains(document.activeElement) && [...this.body.children].find((one) => one.key === held);
    if (row) row.querySelector('a').focus({ preventScroll: true }); // a row that changes places loses it
    [...this.body.children].forEach((one, i) => mark(one, 'aria-rowindex', i + 2)); // the first one is the heading
    if (away) mark(this.body.lastElementChild, 'aria-rowindex', found.indexOf(away) + 2);
    mark(this.body.parentElement, 'aria-rowcount', found.length + 1);
    this.none.hidden = found.length > 0;
    write(this.none, all.length ? 'None has this text.' : 'None.');
    this.more.parentElement.hidden = shown.length === found.length;
    write(this.more, `Show ${Math.min(page, found.length - shown.length)} more of ${found.length - shown.length}`);
    return found.length;
  }
}

/** room is the order in which the cluster says its nodes: MoreRoom of package view. */
const room = (a, b) => Boolean(a.obstacle) - Boolean(b.obstacle) || b.freeCPUs - a.freeCPUs || b.freeL3 - a.freeL3 || (a.name < b.name ? -1 : Number(a.name > b.name));

/** next is the cluster after a line of the stream says what changed. */
function next(before, { set, nodes: changed = [], gone = {} }) {
  const now = { ...before, ...set };
  if (changed.length || gone.nodes) {
    const all = new Map(before.nodes.map((n) => [n.name, n]));
    for (const name of gone.nodes || []) all.delete(name);
    for (const n of changed) all.set(n.name, n);
    now.nodes = [...all.values()].sort(room);
  }
  return now;
}

let view = null;
let wanted = '';
let waiting = false;

const cell = (kind, ...children) => make('td', { class: kind }, ...children);

const nodes = new Rows('node', nodeColumns, (n) => n.name, (n) => {
  const link = make('a', { class: 'name', href: `nodes/${encodeURIComponent(n.name)}/`, tabindex: '-1' }, n.name);
  return make('tr', {}, make('th', { scope: 'row' }, link), cell('number', make('span'), make('span', { class: 'meter', 'aria-hidden': 'true' }, make('i'))),
    cell('number'), cell('few'), cell('few'), cell('few'), cell('why', make('p'), make('p', { class: 'said' })));
}, (row, n) => {
  const [, free, l3, fragmented, pinned, pods, why] = row.children;
  const known = n.cpus > 0;
  write(free.firstChild, known ? `${n.freeCPUs} of ${n.cpus}` : '–');
  free.lastChild.firstChild.style.setProperty('--load', known ? (n.freeCPUs / n.cpus).toFixed(2) : 0);
  write(l3, known ? `${n.freeL3} of ${n.l3}` : '–');
  write(fragmented, known ? `${n.fragmentation}\u00a0%` : '–');
  write(pinned, String(n.pinned));
  write(pods, String(n.pods));
  write(why.firstChild, n.obstacle || 'yes');
  mark(why.firstChild, 'class', n.obstacle ? 'bad' : undefined);
  write(why.lastChild, (n.notes || []).join('; '));
}, (n) => `${n.name} ${n.obstacle || 'yes'} ${(n.notes || []).join(' ')}`);

const pods = new Rows('pod', podColumns, podName, (p) => make('tr', {}, make('th', { scope: 'row' }, podName(p)), cell('few'), cell('few'), cell('scheduler'),
  cell('why', make('p'), make('p', { class: 'said' }))), (row, p) => {
  const [, cpus, age, scheduler, why] = row.children;
  write(cpus, p.cpus ? String(p.cpus) : '–');
  write(age, since(p.since));
  write(scheduler, p.scheduler);
  write(why.firstChild, p.why);
  write(why.lastChild, p.condition || '');
}, (p) => `${podName(p)} ${p.why}`);

const settle = roam(nodes.body, '.name', (name, key) => beside(name.closest('tr'), key)?.querySelector('.name'));

/** since is how long ago a moment was, in its largest unit. */
function since(at) {
  const seconds = Math.max(0, (Date.parse(view.at) - Date.parse(at)) / 1000);
  const [unit, size] = [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]].find(([, size]) => seconds >= size) || ['s', 1];
  return `${Math.floor(seconds / size)}${unit}`;
}

/** draw shows the view, once before the next frame. A page that is hidden waits. */
function draw() {
  if (waiting || document.hidden || !view) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const shown = nodes.draw(view.nodes);
    const waits = pods.draw(view.pending);
    settle();
    const count = (part, all) => (part === all ? String(all) : `${part} of ${all}`);
    write(document.getElementById('nodes-title'), `Nodes (${count(shown, view.nodes.length)})`);
    write(document.getElementById('pending-title'), `Pending pods (${count(waits, view.pendingTotal)})`);
    write(document.getElementById('server'), view.server);
    figures();
    notices();
    document.body.classList.add('drawn');
  });
}

function figures() {
  const open = view.nodes.filter((n) => !n.obstacle);
  const sum = (key) => open.reduce((all, n) => all + n[key], 0);
  const items = [
    ['Nodes', view.nodes.length], ['Pinnable', open.length], ['Free CPUs', sum('freeCPUs')], ['Whole L3', sum('freeL3')],
    ['Pinned pods', view.nodes.reduce((all, n) => all + n.pinned, 0)], ['Pending', view.pendingTotal],
  ];
  list(document.getElementById('figures'), items, ([name]) => name, ([name]) => make('div', {}, make('dt', {}, name), make('dd')), (item, [name, value]) => {
    write(item.lastChild, String(value));
    mark(item, 'class', name === 'Pending' && value > 0 ? 'bad' : undefined);
  });
  document.title = view.pendingTotal ? `Berth (${view.pendingTotal} pending)` : 'Berth';
}

function notices() {
  const box = document.getElementById('notices');
  box.hidden = view.problems.length === 0;
  list(box, view.problems.map((text, i) => ({ text, i })), (n) => `${n.i} ${n.text}`, (n) => make('p', { class: 'notice' }, n.text));
}

/** say shows how new all of this is. */
function say(kind, text) {
  const state = document.getElementById('state');
  mark(state, 'class', `state ${kind}`);
  write(state, text);
  document.body.classList.toggle('old', kind === 'lost');
}

const filter = document.getElementById('filter');
filter.addEventListener('input', () => {
  wanted = filter.value.trim().toLowerCase();
  draw();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && event.target === filter) {
    filter.value = '';
    filter.dispatchEvent(new Event('input'));
    filter.blur();
  } else if (event.key === '/' && event.target !== filter) {
    event.preventDefault();
    filter.focus();
  }
});
document.addEventListener('visibilitychange', draw);

document.getElementById('stalled')?.remove();
follow((line) => {
  view = line.v ? line : view && next(view, line);
  say('live', 'Live');
  draw();
}, (why) => say('lost', `${why}${view ? `, this is of ${clock(view.at)}` : ''}. Trying again.`), 'berth web');
