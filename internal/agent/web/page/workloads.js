// The workloads: one row each, in the order and with the filter that the reader chose.

import { amount, letter, numbers, percent } from './model.js';
import { list, make, mark, roam, write } from './dom.js';
import { beside, sortable } from './rows.js';
import { drawSpark, spark } from './chart.js';

// What to do first, as berth status says it.
const first = 'No workload asks for anything: describe one in a file in workloadDir of the agent\u2019s file, or give a pod its annotation (sudo berth status).';

const alphabet = new Intl.Collator('en', { numeric: true });

// By what rows are sorted: many CPUs, little credit and much throttling come first.
const columns = [
  { name: 'Workload', up: true, by: (a, b) => alphabet.compare(a.w.name, b.w.name) },
  { name: 'State', up: true, by: (a, b) => alphabet.compare(a.state, b.state) },
  { name: 'CPUs', by: (a, b) => b.count - a.count, class: 'cpus' },
  { name: 'Quota / limit', class: 'quota' },
  { name: 'Credit', up: true, by: (a, b) => a.credit - b.credit, class: 'credit' },
  { name: 'Throttled', by: (a, b) => b.throttled - a.throttled, class: 'throttled' },
];

/** Workloads draws the rows. */
export class Workloads {
  constructor(model, light, explain) {
    Object.assign(this, { model, light, order: columns[0], wanted: '', seen: new Set(), items: new Map(), shown: [] });
    this.body = document.getElementById('rows');
    this.filter = document.getElementById('filter');
    sortable(document.getElementById('columns'), columns, (column) => {
      this.order = column;
      if (this.model.view) this.draw();
    });
    this.filter.addEventListener('input', () => {
      this.wanted = this.filter.value.trim().toLowerCase();
      if (this.model.view) this.draw();
    });
    const row = (event) => event.target.closest('tr');
    this.body.addEventListener('click', (event) => row(event) && explain({ workload: row(event).key }, row(event).name_));
    for (const kind of ['pointerover', 'focusin']) this.body.addEventListener(kind, (event) => row(event) && light({ workload: row(event).key }));
    for (const kind of ['pointerleave', 'focusout']) this.body.addEventListener(kind, () => light(null));
    this.settle = roam(this.body, '.name', (name, key) => beside(name.closest('tr'), key)?.name_);
    this.watch = new IntersectionObserver((changes) => {
      for (const { target, isIntersecting } of changes) {
        if (isIntersecting) {
          this.seen.add(target);
          this.fill(target);
        } else this.seen.delete(target);
      }
    });
  }

  /** draw shows the rows as the model has them: all, or those that changed. */
  draw(dirty = { all: true }) {
    const moved = dirty.all ? this.begin() : this.change(dirty.workloads);
    if (moved) list(this.body, this.shown, (item) => item.w.name, (item) => this.row(item), (row, item) => Object.assign(row, { item }));
    for (const row of this.seen) { // the others wait until they are scrolled to
      if (!row.isConnected) this.seen.delete(row);
      else if (dirty.all || row.moves || dirty.workloads.has(row.key)) this.fill(row);
    }
    this.counted = this.items.size;
    if (!moved) return;
    const [shown, all] = [this.shown.length, this.items.size];
    const none = document.getElementById('no-rows');
    const idle = [...this.items.values()].every((item) => item.state === 'unmanaged');
    none.hidden = shown > 0 && !idle;
    write(none, all && !shown ? 'No workload has this text in its name or state.' : first);
    write(document.getElementById('workloads-title'), shown === all ? `Workloads (${all})` : `Workloads (${shown} of ${all})`);
    this.settle();
  }

  /** compare is the order of two rows, of which none are equal. */
  compare(a, b) { return this.order.by(a, b) || columns[0].by(a, b) || (a.w.name < b.w.name ? -1 : Number(a.w.name > b.w.name)); }

  /** passes says whether the reader wants to see a row. */
  passes(item) { return `${item.w.name} ${item.state}`.toLowerCase().includes(this.wanted); }

  /** begin reads all workloads. */
  begin() {
    this.items = new Map([...this.model.view.workloads.values()].map((w) => [w.name, this.item(w)]));
    this.shown = [...this.items.values()].filter((item) => this.passes(item)).sort((a, b) => this.compare(a, b));
    return true;
  }

  /** change reads some workloads again, and says whether a row came, went or moved. */
  change(names) {
    const moves = [];
    for (const name of names) {
      const w = this.model.view.workloads.get(name);
      const [old, next] = [this.items.get(name), w && this.item(w)];
      const [was, is] = [old && this.passes(old), next && this.passes(next)];
      const stays = was && is && !this.order.by(old, next);
      if (stays) Object.assign(old, next);
      else if (was || is) moves.push({ old: was && old, next: is && next });
      if (!next) this.items.delete(name);
      else if (!stays) this.items.set(name, next);
    }
    if (moves.length > this.shown.length / 8) return this.begin();
    for (const { old } of moves) {
      if (!old) continue;
      const at = this.place(old);
      if (this.shown[at] !== old) return this.begin(); // the order is another
      this.shown.splice(at, 1);
    }
    for (const { next } of moves) if (next) this.shown.splice(this.place(next), 0, next);
    return moves.length > 0 || this.items.size !== this.counted;
  }

  /** place is where a row is among the others, or belongs. */
  place(item) {
    let [low, high] = [0, this.shown.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(this.shown[middle], item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  item(w) {
    const last = this.model.last(w.name);
    const q = w.quota;
    const other = w.throttling; // of one that did not ask for burst
    return {
      w, holder: this.model.holder.get(w.name), q, other, state: this.model.stateOf(w), count: numbers(w.cpus?.cpus).length, ran: Boolean(last?.ran),
      credit: q && q.capacityCPUSeconds > 0 ? Math.max(0, Math.min(q.creditCPUSeconds / q.capacityCPUSeconds, 1)) : Infinity,
      throttled: last ? Math.max(last.throttled, last.above) : other?.periods ? Math.min(other.throttledPeriods / other.periods, 1) : -1,
    };
  }

  row(item) {
    const cell = (type, ...children) => make('td', { class: type }, ...children);
    const name = make('button', { type: 'button', class: 'name', tabindex: '-1' }, item.w.name);
    const sign = make('i', { class: 'swatch', 'aria-hidden': 'true' });
    const bar = make('span', { class: 'meter', 'aria-hidden': 'true' }, make('i'));
    const row = make('tr', {}, make('th', { scope: 'row' }, make('div', { class: 'who' }, sign, name)), cell('state-of'), cell('cpus'), cell('quota'),
      cell('credit', bar, make('span')), cell('throttled', spark(), make('span')));
    Object.assign(row, { item, name_: name, sign, bar, spark: row.lastChild.firstChild });
    this.fill(row);
    this.watch.observe(row);
    return row;
  }

  /** fill brings a row up to date. */
  fill(row) {
    const { w, holder, q, other, state, credit, throttled, ran } = row.item;
    const [, stateCell, cpus, quota, creditCell, throttledCell] = row.children;
    mark(row.sign, 'class', `swatch ${holder === undefined ? 'none' : `held h${holder % 8}`}`);
    write(row.sign, holder === undefined ? '' : letter(holder));
    write(stateCell, state || '–');
    mark(stateCell, 'class', `state-of${state === 'refused' || w.status?.warnings?.length ? ' bad' : ''}`);
    write(cpus, w.cpus?.cpus || '–');
    const limit = amount((q || other)?.limitCPUs ?? -1);
    write(quota, q ? `${amount(q.nowCPUs)} / ${limit}` : other ? `${limit} / ${limit}` : '–');
    const bounded = Number.isFinite(credit);
    mark(row.bar, 'class', bounded ? 'meter' : 'meter without');
    const load = bounded ? credit.toFixed(2) : row.load;
    if (row.load !== load) row.bar.firstChild.style.setProperty('--load', row.load = load);
    write(creditCell.lastChild, bounded ? percent(credit) : other?.burstWouldHelp ? 'burst would help' : '–');
    mark(row.spark, 'class', q ? 'spark' : 'spark without');
    row.moves = Boolean(q) && drawSpark(row.spark, this.model.past.get(w.name) || []);
    write(throttledCell.lastChild, q ? percent(ran ? throttled : 0) : throttled >= 0 ? percent(throttled) : '–');
    mark(throttledCell, 'class', `throttled${throttled > 0 ? ' bad' : ''}`);
  }

  /** show marks a row for a moment, and the chosen one. */
  show(lit, chosen) {
    for (const row of this.body.children) {
      row.classList.toggle('lit', row.key === lit);
      if (row.classList.toggle('chosen', row.key === chosen)) row.name_.setAttribute('aria-current', 'true');
      else row.name_.removeAttribute('aria-current');
    }
  }
}
