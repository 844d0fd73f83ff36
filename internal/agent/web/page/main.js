// The page: lines of the stream into the model, the model into its parts.

import { Detail } from './detail.js';
import { list, make, mark, write } from './dom.js';
import { drawChanges, drawEvents } from './lists.js';
import { Machine } from './machine.js';
import { Model, clock, percent } from './model.js';
import { Replay } from './replay.js';
import { drawReport } from './report.js';
import { follow, recalled } from './stream.js';
import { Workloads } from './workloads.js';

// The name of the node, where its page is one of a cluster's.
const node = decodeURIComponent(location.pathname.match(/\/nodes\/([^/]+)\/$/)?.[1] || '');

let model = new Model();
let chosen = null; // a workload or a CPU
let from = null; // what had the focus before
let lit = null;
let waiting = false;
let drawn = {};
let live = false; // a recording has no more than its lines

const machine = new Machine(model, light, choose);
const workloads = new Workloads(model, light, choose);
const detail = new Detail(model, choose);

/** light lights up what is under the pointer or has the focus. */
function light(what) {
  lit = what;
  spot();
}

function spot() {
  const cpus = (what) => (!what ? new Set() : what.workload !== undefined ? model.cpusOf(what.workload) : new Set([what.cpu]));
  machine.show(cpus(lit), cpus(chosen));
  workloads.show(lit?.workload, chosen?.workload);
}

/** choose explains a workload or a CPU; null goes back to where the reader came from. */
function choose(what, by) {
  if (what && !chosen) from = by;
  chosen = what;
  model.long = what?.workload;
  if (live && model.past.has(model.long)) recall(model.long);
  detail.draw(chosen);
  spot();
  if (what) detail.focus();
  else if (from?.isConnected) from.focus();
}

/** recall draws what was before the page was opened, of a workload or of all. */
async function recall(workload) {
  const past = await recalled(workload);
  if (!past) return;
  model.recall(past);
  draw();
}

/** draw shows the model, once before the next frame. A page that is hidden waits. */
function draw() {
  if (waiting || document.hidden) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const { view } = model;
    if (!view) return;
    const dirty = model.drawn();
    machine.draw(dirty);
    workloads.draw(dirty);
    if (drawn.happened !== model.happened) drawEvents(view);
    if (drawn.written !== model.written) drawChanges(view);
    if (drawn.reported !== model.reported) drawNode(view);
    drawn = { happened: model.happened, written: model.written, reported: model.reported };
    figures(view);
    if (dirty.all || dirty.head) notices(view);
    if (chosen) detail.draw(chosen);
    if (chosen || lit) spot();
    document.body.classList.toggle('drawn', true); // add would write the attribute again
  });
}

function figures(view) {
  const cpus = [...view.cpus.values()];
  const known = cpus.filter((c) => c.load >= 0);
  const all = [...view.workloads.values()];
  const throttled = all.filter((w) => { const last = model.last(w.name); return last && (last.throttled > 0 || last.above > 0); }).length;
  const items = [
    ['CPUs', cpus.length], ['Exclusive', cpus.filter((c) => c.holder).length], ['Shared', cpus.filter((c) => !c.holder && c.class === 'shared').length],
    ['Load', known.length ? percent(known.reduce((sum, c) => sum + c.load, 0) / known.length) : '–'],
    ['Workloads', all.length], ['Throttled', throttled], ['Refused', all.filter((w) => w.cpus?.refused).length],
  ];
  list(document.getElementById('figures'), items, ([name]) => name, ([name]) => make('div', {}, make('dt', {}, name), make('dd')), (item, [name, value]) => {
    write(item.lastChild, String(value));
    mark(item, 'class', value > 0 && ['Throttled', 'Refused'].includes(name) ? 'bad' : undefined);
  });
  write(document.getElementById('version'), node ? `${node}, ${view.version}` : view.version);
  const title = node ? `${node} · Berth` : 'Berth';
  document.title = view.problems.length ? `${title} (${view.problems.length})` : title;
}

/** drawNode shows what the capabilities report about the node, whichever they are. */
function drawNode(view) {
  const reports = view.node || {};
  document.getElementById('reported').hidden = Object.keys(reports).length === 0;
  drawReport(document.getElementById('report'), reports);
}

function notices(view) {
  const texts = [...(view.obstacle ? [`CPU sets are left alone: ${view.obstacle}`] : []), ...view.problems];
  const box = document.getElementById('notices');
  box.hidden = texts.length === 0;
  list(box, texts.map((text, i) => ({ text, i })), (n) => `${n.i} ${n.text}`, (n) => make('p', { class: 'notice' }, n.text));
}

/** say shows how new all of this is. */
function say(kind, text) {
  const state = document.getElementById('state');
  mark(state, 'class', `state ${kind}`);
  write(state, text);
  document.body.classList.toggle('old', kind === 'lost');
}

/** keys are those that work everywhere. */
function keys(event) {
  const typing = event.target.closest('input, select');
  if (event.key === 'Escape' && typing?.id === 'filter') {
    typing.value = '';
    typing.dispatchEvent(new Event('input'));
    typing.blur();
  } else if (event.key === 'Escape' && chosen) choose(null);
  else if (event.key === '/' && !typing) {
    event.preventDefault();
    workloads.filter.focus();
  }
}

/** begin forgets the past. */
function begin() {
  model = new Model();
  drawn = {};
  for (const part of [machine, workloads, detail]) part.model = model;
  machine.drawn = -1;
}

async function run() {
  document.getElementById('stalled')?.remove();
  if (node) document.querySelector('h1').prepend(make('a', { class: 'up', href: '../../' }, 'Cluster'), ' ');
  document.addEventListener('keydown', keys);
  document.addEventListener('visibilitychange', draw);
  const frames = await follow((line) => {
    model.take(line);
    say('live', 'Live');
    draw();
    if (!live) recall();
    live = true;
  }, (why) => {
    const seen = model.view ? `, this is of ${clock(model.view.at)}` : '';
    say('lost', `${why}${seen}. Trying again.`);
  });
  say('recording', 'Recording');
  new Replay(frames, { begin, take: (line) => model.take(line), draw });
}

run();
