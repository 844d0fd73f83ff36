// What is known of one workload or one CPU, and why it is so.

import { charts } from './chart.js';
import { amount, numbers, percent } from './model.js';
import { make, write } from './dom.js';
import { changeItem, eventItem } from './lists.js';
import { drawReport, sections } from './report.js';

/** Detail explains what was chosen. */
export class Detail {
  constructor(model, choose) {
    Object.assign(this, { model, choose });
    this.box = document.getElementById('detail');
    this.title = make('h2', { id: 'detail-title', tabindex: '-1' });
    this.close = make('button', { type: 'button', class: 'close' }, 'Back');
    this.close.addEventListener('click', () => choose(null));
    this.body = make('div');
    this.box.append(make('div', { class: 'bar' }, this.title, this.close), this.body);
    this.draw(null);
  }

  /** draw explains what is chosen now. */
  draw(chosen) {
    this.close.hidden = !chosen;
    this.box.classList.toggle('idle', !chosen);
    const known = chosen && (chosen.workload !== undefined ? this.model.view.workloads.get(chosen.workload) : this.model.view.cpus.get(chosen.cpu));
    if (!chosen) {
      write(this.title, 'Why');
      this.body.replaceChildren(make('p', { class: 'none' }, 'Choose a CPU or a workload: what it has, why, and what Berth changed for it.'));
      return;
    }
    write(this.title, chosen.workload !== undefined ? chosen.workload : `CPU ${chosen.cpu}`);
    const wasOpen = this.body.querySelector('details')?.open;
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.part : undefined;
    if (!known) this.body.replaceChildren(make('p', { class: 'none' }, 'It is gone.'));
    else this.body.replaceChildren(...(chosen.workload !== undefined ? this.workload(known, wasOpen) : this.cpu(known)));
    if (focused) this.body.querySelector(`[data-part="${focused}"]`)?.focus();
  }

  workload(w, open) {
    const { view } = this.model;
    const parts = [];
    const say = (text, kind) => text && parts.push(make('p', kind ? { class: kind } : {}, text));
    say(w.cpus?.refused && `No exclusive CPUs: ${w.cpus.refused}`, 'bad');
    say(w.cpus?.why);
    say(w.status?.reason);
    for (const warning of w.status?.warnings || []) say(warning, 'bad');
    const q = w.quota;
    const t = w.throttling;
    say(t?.burstWouldHelp && 'Burst would help: it was throttled although it used less than its limit.');
    parts.push(facts({
      State: this.model.stateOf(w),
      Policy: w.status?.policy && `${w.status.policy}${w.status.policySource ? ` (${w.status.policySource})` : ''}`,
      Since: w.status?.since && new Date(w.status.since).toLocaleString(),
      CPUs: w.cpus?.cpus && `${w.cpus.cpus} (${numbers(w.cpus.cpus).length}${w.cpus.exclusive ? ', exclusive' : ''})`,
      Borrowed: w.cpus?.borrowed,
      'Memory nodes': w.cpus?.mems,
      Quota: q && `${amount(q.nowCPUs)} of a limit of ${amount(q.limitCPUs)} CPUs`,
      Throttled: t && `in ${t.throttledPeriods} of ${t.periods} periods in ${Math.round(t.seconds)} s, with ${amount(t.usedCPUs)} of ${amount(t.limitCPUs)} CPUs used`,
      File: w.status?.file,
      Group: w.status?.group,
    }));
    const reports = sections(w.status);
    if (Object.keys(reports).length) {
      const box = make('div');
      drawReport(box, reports);
      parts.push(make('h3', {}, 'Reports'), box);
    }
    const past = this.model.past.get(w.name);
    if (past) parts.push(...charts(past));
    const changes = [...view.changes.values()].filter((c) => c.workload === w.name);
    if (changes.length) parts.push(make('h3', {}, 'Changes'), make('ol', { class: 'list' }, ...changes.map((c) => changeItem(c, true))));
    const pod = w.name.split('/').slice(0, 2).join('/');
    const events = view.events.filter((e) => e.about && (e.about === w.name || e.about === pod)).reverse();
    if (events.length) parts.push(make('h3', {}, 'Events'), make('ol', { class: 'list' }, ...events.map((e) => eventItem(e))));
    const all = make('details', {}, make('summary', { 'data-part': 'all' }, 'All that is reported'), make('pre', { tabindex: '0' }, JSON.stringify(w, null, 2)));
    all.open = Boolean(open);
    parts.push(all);
    return parts;
  }

  cpu(cpu) {
    const machine = this.model.view.machine;
    const core = machine?.cores.find((c) => numbers(c.cpus).includes(cpu.id));
    const users = [...this.model.view.workloads.values()].filter((w) => numbers(w.cpus?.cpus).includes(cpu.id));
    const holder = this.model.view.workloads.get(cpu.holder);
    const parts = [];
    if (holder?.cpus?.why) parts.push(make('p', {}, holder.cpus.why));
    parts.push(facts({
      'Has it': cpu.holder || (cpu.class ? `the pool ${cpu.class}` : 'no pool'),
      Load: cpu.load < 0 ? 'not known' : percent(cpu.load),
      Core: core && `${core.id}, threads ${core.cpus}${core.kind ? `, ${core.kind}` : ''}`,
      L3: core?.l3 >= 0 ? String(core.l3) : undefined,
      'NUMA node': core?.numa >= 0 ? String(core.numa) : undefined,
      Socket: core?.socket >= 0 ? String(core.socket) : undefined,
    }));
    if (users.length) {
      const shown = users.slice(0, 50).map((w, i) => {
        const button = make('button', { type: 'button', class: 'name', 'data-part': `user-${i}` }, w.name);
        button.addEventListener('click', () => this.choose({ workload: w.name }, button));
        return make('li', {}, button);
      });
      parts.push(make('h3', {}, users.length === 1 ? 'May run on it' : `${users.length} workloads may run on it`), make('ul', { class: 'list' }, ...shown));
    }
    return parts;
  }

  /** focus brings the reader to the explanation. */
  focus() {
    this.title.focus({ preventScroll: true });
    this.box.scrollIntoView({ block: 'nearest' });
  }
}

/** facts are names with values, without those that have none. */
function facts(all) {
  const items = Object.entries(all).filter(([, value]) => value);
  return make('dl', { class: 'facts' }, ...items.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value))));
}
