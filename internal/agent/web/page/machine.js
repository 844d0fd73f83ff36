// The machine: sockets, in them NUMA nodes, L3 domains, cores, and their threads, each with the
// letter and colour of the workload that has it for itself, and its load as a bar.

import { bytes, letter, numbers, percent } from './model.js';
import { list, make, mark, roam, write } from './dom.js';

const signs = { shared: '·', free: '', offline: '%', exclusive: '_', reserved: '–' };
const words = {
  shared: 'in the shared pool', free: 'free', offline: 'for offline work', exclusive: 'kept empty beside an exclusive CPU',
  reserved: 'reserved for the system',
};

/** word says what a CPU is that no workload has for itself. */
const word = (cpu) => words[cpu.class] || (cpu.class ? `in the pool ${cpu.class}` : 'in no pool');

/** Machine draws CPUs, and says which one is under the pointer or has the focus. */
export class Machine {
  constructor(model, light, explain) {
    Object.assign(this, { model, light, cells: new Map(), drawn: -1 });
    this.box = document.getElementById('cpus');
    this.line = document.getElementById('pointed');
    this.settle = roam(this.box, '.cpu', (cell, key) => this.beside(cell, key));
    const cell = (event) => event.target.closest('.cpu');
    this.box.addEventListener('click', (event) => cell(event) && explain({ cpu: cell(event).id_ }, cell(event)));
    for (const kind of ['pointerover', 'focusin']) this.box.addEventListener(kind, (event) => this.point(cell(event)));
    for (const kind of ['pointerleave', 'focusout']) this.box.addEventListener(kind, () => this.point(null));
  }

  /** draw shows the CPUs that changed as the model has them. */
  draw({ all, cpus }) {
    const { view, shape } = this.model;
    if (this.drawn !== shape) this.build(view.machine);
    this.drawn = shape;
    for (const id of all ? view.cpus.keys() : cpus) {
      const cell = this.cells.get(id);
      const cpu = view.cpus.get(id);
      if (cell && cpu) this.paint(cell, cpu, this.model.holder.get(cpu.holder));
    }
    if (all) this.explainSigns(view);
    if (this.pointed) this.say();
  }

  explainSigns(view) {
    const pools = view.pools.filter((p) => p.cpus || p.name === 'free');
    list(document.getElementById('legend'), pools, (p) => p.name, () => make('li', {}, make('i', { 'aria-hidden': 'true' }), make('span')), (item, p) => {
      mark(item.firstChild, 'class', `swatch ${p.name in signs ? p.name : 'other'}`);
      write(item.firstChild, signs[p.name] ?? '?');
      write(item.lastChild, `${p.name} ${p.cpus ? `${/[-,]/.test(p.cpus) ? 'CPUs' : 'CPU'} ${p.cpus}` : 'none'}`);
    });
  }

  paint(cell, cpu, holder) {
    const held = holder !== undefined;
    const like = `${cpu.class} ${holder} ${cpu.holder}`;
    if (cell.like !== like) {
      cell.like = like;
      mark(cell, 'class', `cpu ${held ? `held h${holder % 8}` : cpu.class in signs ? cpu.class : 'other'}${cell.lit ? ' lit' : ''}${cell.chosen ? ' chosen' : ''}`);
      mark(cell, 'data-holder', held ? cpu.holder : undefined);
      write(cell.firstChild, held ? letter(holder) : signs[cpu.class] ?? '?');
      mark(cell, 'aria-label', `CPU ${cpu.id}, core ${cell.core.id}, ${held ? cpu.holder : word(cpu)}`);
    }
    const load = cpu.load < 0 ? '0' : (Math.round(cpu.load * 20) / 20).toFixed(2);
    if (cell.load !== load) cell.lastChild.style.setProperty('--load', cell.load = load);
  }

  /** build makes the boxes and cells of a machine. */
  build(machine) {
    this.cells.clear();
    this.box.replaceChildren();
    if (!machine) {
      this.box.append(make('p', { class: 'none' }, 'The machine is not known yet.'));
      return;
    }
    this.box.classList.toggle('dense', numbers(machine.online).length > 128);
    const box = (parent, kind, key, title) => {
      parent.boxes ??= new Map();
      if (!parent.boxes.has(key)) {
        const made = make('div', { class: kind, role: 'group', 'aria-label': title }, make('p', { class: 'title', 'aria-hidden': 'true' }, title));
        const inside = make('div', { class: 'inside' });
        made.append(inside);
        parent.append(made);
        parent.boxes.set(key, inside);
      }
      return parent.boxes.get(key);
    };
    this.box.boxes = new Map();
    const memory = new Map(machine.numaNodes.map((n) => [n.id, n.memoryBytes]));
    // Cores without a socket or a NUMA node come last, as in the other pictures.
    const at = (groups, id) => (groups.findIndex((g) => g.id === id) + 1 || groups.length + 1);
    const places = [(c) => at(machine.sockets, c.socket), (c) => at(machine.numaNodes, c.numa)];
    const cores = [...machine.cores].sort((a, b) => places.map((place) => place(a) - place(b)).find(Boolean) || 0);
    for (const core of cores) {
      const socket = box(this.box, 'socket', core.socket, core.socket < 0 ? 'No socket' : `Socket ${core.socket}`);
      const node = box(socket, 'numa', core.numa, core.numa < 0 ? 'No NUMA node' : `NUMA ${core.numa}, ${bytes(memory.get(core.numa) || 0)}`);
      const l3 = box(node, 'l3', core.l3, core.l3 < 0 ? 'No L3' : `L3 ${core.l3}`);
      l3.append(make('span', { class: `core ${core.kind}`, role: 'group', 'aria-label': `Core ${core.id}` }, ...numbers(core.cpus).map((id) => this.cell(id, core))));
    }
    this.settle();
  }

  cell(id, core) {
    const cell = make('button', { type: 'button', class: 'cpu', tabindex: '-1', 'data-cpu': id }, make('b'), make('i'));
    Object.assign(cell, { id_: id, core });
    this.cells.set(id, cell);
    return cell;
  }

  /** beside is the cell that an arrow key leads to. */
  beside(cell, key) {
    const all = [...this.box.querySelectorAll('.cpu')];
    const at = all.indexOf(cell);
    switch (key) {
      case 'ArrowRight': return all[at + 1];
      case 'ArrowLeft': return all[at - 1];
      case 'Home': return all[0];
      case 'End': return all.at(-1);
      case 'ArrowDown': return this.across(cell, all.slice(at + 1), 1);
      case 'ArrowUp': return this.across(cell, all.slice(0, at).reverse(), -1);
      default: return null;
    }
  }

  /** across is the nearest cell on the next line of those that follow. */
  across(cell, others, way) {
    const from = cell.getBoundingClientRect();
    let best, line;
    for (const other of others) {
      const to = other.getBoundingClientRect();
      if ((to.top - from.top) * way < from.height / 2) continue;
      line ??= to.top;
      if (Math.abs(to.top - line) > from.height / 2) break;
      if (!best || Math.abs(to.left - from.left) < Math.abs(best.left - from.left)) best = { other, left: to.left };
    }
    return best?.other;
  }

  /** point says what is under the pointer or has the focus; null for nothing. */
  point(cell) {
    const now = cell || (this.box.contains(document.activeElement) ? document.activeElement.closest('.cpu') : null);
    if (now === this.pointed) return;
    this.pointed = now;
    const cpu = now && this.model.view.cpus.get(now.id_);
    this.light(cpu && (cpu.holder ? { workload: cpu.holder } : { cpu: cpu.id }));
    this.say();
  }

  say() {
    const cpu = this.pointed && this.model.view.cpus.get(this.pointed.id_);
    write(this.line, cpu ? `CPU ${cpu.id}, core ${this.pointed.core.id}: ${cpu.holder || word(cpu)}${cpu.load < 0 ? '' : `, load ${percent(cpu.load)}`}` : '');
  }

  /** show lights up some CPUs for a moment, and keeps the chosen ones marked. */
  show(lit, chosen) {
    this.box.classList.toggle('spot', lit.size > 0);
    for (const [id, cell] of this.cells) {
      cell.classList.toggle('lit', cell.lit = lit.has(id));
      cell.classList.toggle('chosen', cell.chosen = chosen.has(id));
    }
  }
}
