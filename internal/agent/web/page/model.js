// What a node is, as its views say, and what became of its quotas.

import { merge } from './patch.js';

// How many moments of quotas are remembered: five minutes at one a second, and of the workload
// that is explained a quarter of an hour.
const kept = 300;
const longest = 900;
const events = 200;

/** nameOf is the key of a change. */
export const nameOf = (change) => JSON.stringify([change.object, change.knob]);

const key = { cpus: (c) => c.id, workloads: (w) => w.name, changes: nameOf };

/** clean is what to draw after nothing changed. all is everything, head is what is said of the node as a whole. */
const clean = () => ({ all: false, head: false, cpus: new Set(), workloads: new Set() });

const known = new Map(); // lists of CPUs, most of which come again every second

/** numbers are those of a list of CPUs such as 0-3,8. */
export function numbers(text) {
  if (known.has(text)) return known.get(text);
  const all = [];
  for (const part of (text || '').split(',')) {
    const [first, last] = part.split('-').map(Number);
    if (part !== '') for (let n = first; n <= (last ?? first); n++) all.push(n);
  }
  if (known.size > 2000) known.clear();
  known.set(text, all);
  return all;
}

/** Model is a node at one moment, brought from one to the next by the lines of a stream. */
export class Model {
  constructor() {
    this.view = null;
    this.past = new Map(); // moments of quotas, by workload
    this.long = undefined; // the workload of which more is remembered
    this.dirty = { ...clean(), all: true }; // what to draw
    // shape counts machines. written, happened and reported count when changes, events and reports were others.
    Object.assign(this, { shape: 0, written: 0, happened: 0, reported: 0 });
  }

  /** take goes on by a line: a whole view, or what changed since the one before. */
  take(line) {
    if (line.v) this.begin(line);
    else if (this.view) this.change(line);
    else return;
    this.remember();
    const { dirty } = this;
    if (dirty.workloads.size > this.view.workloads.size) { // a hidden page draws nothing, and workloads come and go
      dirty.all = true;
      dirty.workloads.clear();
    }
  }

  /** drawn returns what is to be drawn, once. */
  drawn() {
    const { dirty } = this;
    this.dirty = clean();
    return dirty;
  }

  /** hold finds who has CPUs exclusively. A letter and a colour follow from the place in this order. */
  hold() {
    const holders = [...new Set([...this.view.cpus.values()].map((c) => c.holder).filter(Boolean))].sort();
    if (this.holders && holders.join('\n') === this.holders.join('\n')) return;
    this.holders = holders;
    this.holder = new Map(holders.map((name, i) => [name, i]));
    this.dirty.all = true;
  }

  begin(view) {
    const like = JSON.stringify([view.machine, (view.cpus || []).map((c) => c.id)]);
    if (like !== this.like) this.shape++; // else what has the focus keeps it
    this.like = like;
    this.written++;
    this.happened++;
    this.reported++;
    this.view = { ...view };
    this.index('cpus', view.cpus);
    this.index('workloads', view.workloads);
    this.index('changes', view.changes);
    this.dirty.all = true;
    this.hold();
  }

  index(kind, list) {
    this.view[kind] = new Map((list || []).map((one) => [key[kind](one), one]));
  }

  change({ set, patches = {}, gone, events: added, ...whole }) {
    const v = this.view;
    if (set.machine !== undefined || set.cpus) {
      this.shape++;
      this.like = null;
    }
    if (set.changes || whole.changes || patches.changes || gone?.changes) this.written++;
    if (set.events || added) this.happened++;
    if (set.node !== undefined) this.reported++;
    const { dirty } = this;
    dirty.all ||= set.machine !== undefined || Boolean(set.cpus || set.pools);
    dirty.head ||= ['version', 'obstacle', 'problems'].some((name) => set[name] !== undefined);
    for (const [name, value] of Object.entries(set)) {
      if (name === 'cpus') this.index(name, value);
      else v[name] = value;
    }
    for (const kind of Object.keys(key)) {
      for (const one of whole[kind] || []) v[kind].set(this.touch(kind, one), one);
      for (const one of patches[kind] || []) {
        const name = this.touch(kind, one);
        if (!v[kind].has(name)) throw Object.assign(new Error('no entry'), { said: 'A change of something unknown came' });
        v[kind].set(name, merge(v[kind].get(name), one));
      }
    }
    for (const name of gone?.workloads || []) v.workloads.delete(this.touch('workloads', { name }));
    for (const [object, knob] of gone?.changes || []) v.changes.delete(nameOf({ object, knob }));
    if (set.cpus || whole.cpus || patches.cpus?.some((c) => c.holder !== undefined)) this.hold();
    if (added) v.events = [...v.events, ...added].slice(-events);
  }

  /** touch returns the key of an entry that changed, and has it drawn. */
  touch(kind, one) {
    const name = key[kind](one);
    this.dirty[kind]?.add(name);
    return name;
  }

  /** remember notes the quotas of this moment. */
  remember() {
    for (const name of this.past.keys()) if (!this.view.workloads.has(name)) this.past.delete(name);
    const at = Date.parse(this.view.at);
    for (const w of this.view.workloads.values()) {
      const q = w.quota;
      if (!q) continue;
      const past = this.past.get(w.name) || [];
      const last = past.at(-1);
      const again = last && last.q.periods <= q.periods; // else the group was made again
      const periods = again ? q.periods - last.q.periods : 0;
      const share = (name) => (periods ? Math.min(Math.max(q[name] - last.q[name], 0) / periods, 1) : 0);
      const moment = { at, q, ran: periods > 0, throttled: share('throttledPeriods'), above: share('throttledPeriodsAbove') };
      if (!last || ['ran', 'throttled', 'above'].some((name) => last[name] !== moment[name])) this.dirty.workloads.add(w.name);
      past.push(moment);
      const room = w.name === this.long ? longest : kept;
      if (past.length > room) past.splice(0, past.length - room);
      this.past.set(w.name, past);
    }
  }

  /** recall puts what the agent kept before the moments that the page saw itself. */
  recall({ times, workloads }) {
    this.dirty.all = true;
    for (const w of workloads) {
      const past = this.past.get(w.name) || [];
      const seen = past.filter((m) => !m.kept);
      if (!seen.length || (past[0].q && past[0].kept && !w.limitCPUs)) continue; // all of it is known better
      const value = (key, i) => (w[key] ? w[key][i] : 0); // a column of zeros is left out, null is not known
      const share = (key, i) => (value('periods', i) > 0 ? Math.min(value(key, i) / value('periods', i), 1) : 0);
      const before = [];
      times.forEach((at, i) => {
        if (at >= seen[0].at || (value('periods', i) === null && !value('limitCPUs', i))) return;
        const q = w.limitCPUs && Object.fromEntries(['limitCPUs', 'nowCPUs', 'creditCPUSeconds', 'capacityCPUSeconds'].map((key) => [key, value(key, i)]));
        before.push({ at, q, kept: true, ran: value('periods', i) > 0, throttled: share('throttledPeriods', i), above: share('throttledPeriodsAbove', i) });
      });
      this.past.set(w.name, [...before, ...seen].slice(-longest));
    }
  }

  /** last is the last moment of a workload's quota. */
  last(name) { return this.past.get(name)?.at(-1); }

  /** cpusOf are the CPUs of a workload, as a set. */
  cpusOf(name) {
    return new Set(numbers(this.view?.workloads.get(name)?.cpus?.cpus));
  }

  /** stateOf is where a workload stands, in a word. */
  stateOf(w) {
    if (w.cpus?.refused) return 'refused';
    if (w.status) return w.status.state;
    if (!w.cpus && w.throttling) return 'unmanaged';
    if (!w.cpus?.cpus) return '';
    if (w.cpus.exclusive) return 'pinned';
    const mine = numbers(w.cpus.cpus);
    return this.view.pools.find((p) => { const all = new Set(numbers(p.cpus)); return mine.every((n) => all.has(n)); })?.name || '';
  }
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** letter is that of a holder by its number, as in berth top. */
export const letter = (holder) => letters[holder] || 'x';

/** amount is a number of CPUs, of which -1 is no limit. */
export const amount = (cpus) => (cpus < 0 ? 'max' : String(Math.round(cpus * 10) / 10));

/** percent is a share for people. */
export const percent = (share) => `${Math.round(share * 100)}\u00a0%`;

/** clock is the time of a moment. */
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false });

/** bytes is a size for people. */
export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = count > 0 ? Math.min(Math.floor(Math.log2(count) / 10), 4) : 0;
  return `${Math.round((count / 2 ** (10 * power)) * 10) / 10} ${units[power]}`;
}
