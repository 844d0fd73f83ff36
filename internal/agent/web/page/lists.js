// Events and changes of the node.

import { clock, nameOf } from './model.js';
import { list, make, write } from './dom.js';

const most = 200;

/** eventItem is an event. */
export function eventItem(e) {
  return make('li', { class: e.warning ? 'bad' : undefined },
    make('p', { class: 'head' }, make('time', { datetime: e.at }, clock(e.at)), ' ', make('b', {}, e.reason), e.about ? ` ${e.about}` : ''),
    make('p', {}, e.text));
}

/** changeItem is a value that Berth wrote; alone says that the workload is known. */
export function changeItem(change, alone) {
  const item = make('li', {}, make('p', { class: 'head' }), make('p', { class: 'value' }, make('del'), ' → ', make('ins')), make('p'));
  fillChange(item, change, alone);
  return item;
}

function fillChange(item, change, alone) {
  const [head, value, why] = item.children;
  write(head, `${change.knob} ${change.object}`);
  write(value.children[0], change.original || 'empty');
  write(value.children[1], change.written || 'empty');
  const times = change.writes > 1 ? `, written ${change.writes} times` : '';
  const about = !alone && change.workload && change.workload !== change.object ? ` for ${change.workload}` : '';
  write(why, `${change.why ? `${change.why} · ` : ''}${change.owner}${about}, since ${clock(change.since)}${times}`);
}

/** drawEvents shows the last events, the newest first. */
export function drawEvents(view) {
  const nth = new Map(); // of those that are alike
  const items = view.events.map((e) => {
    const key = JSON.stringify(e);
    nth.set(key, (nth.get(key) || 0) + 1);
    return { e, key: `${key} ${nth.get(key)}` };
  }).reverse();
  const box = document.getElementById('events');
  if (items.length) list(box, items, (item) => item.key, (item) => eventItem(item.e));
  else box.replaceChildren(make('li', { class: 'none' }, 'Nothing happened yet.'));
}

/** drawChanges shows the values that Berth wrote, the newest first. */
export function drawChanges(view) {
  const order = (a, b) => (a < b ? -1 : Number(a > b));
  const all = [...view.changes.values()].sort((a, b) => order(b.since, a.since) || order(a.object, b.object) || order(a.knob, b.knob));
  const box = document.getElementById('changes');
  write(document.getElementById('changes-count'), all.length > most ? `the last ${most} of ${all.length}` : '');
  if (all.length) list(box, all.slice(0, most), nameOf, (c) => changeItem(c), (item, c) => item.children.length > 1 && fillChange(item, c));
  else box.replaceChildren(make('li', { class: 'none' }, 'Berth changed nothing on this host.'));
}
