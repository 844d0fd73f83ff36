// What capabilities report: any JSON, drawn by its form alone. A new capability needs no change here.

import { list, make, mark, write } from './dom.js';

const most = 200; // entries of an object or a list
const deepest = 8; // objects and lists within each other

// What detail.js draws of any workload; all else is a section of a capability.
const common = new Set(['name', 'file', 'group', 'state', 'reason', 'since', 'policy', 'policySource', 'warnings']);

/** sections are the sections of the capabilities in the status of a workload. */
export const sections = (status) => Object.fromEntries(Object.entries(status || {}).filter(([key]) => !common.has(key)));

const isObject = (value) => typeof value === 'object' && value !== null;

/** word is a value without parts as a text. */
const word = (value) => (value === null || value === '' ? '–' : String(value));

/** drawReport draws a value in a box: an object as names with values, a list of objects as a list, all else as text. */
export function drawReport(box, value, depth = 0) {
  if (!isObject(value)) write(box, word(value));
  else if (depth === deepest) write(box, '…');
  else if (!Array.isArray(value)) drawEntries(box, Object.entries(value), depth);
  else if (value.some(isObject)) drawItems(box, value, depth);
  else write(box, value.slice(0, most).map(word).join(', ') + left(value) || 'none');
}

/** left says how many entries are not drawn. */
const left = (all) => (all.length > most ? ` and ${all.length - most} more` : '');

function drawEntries(box, all, depth) {
  if (!all.length) {
    write(box, 'none');
    return;
  }
  const items = all.slice(0, most).map(([name, value]) => ({ key: name, name, value }));
  if (all.length > most) items.push({ key: null, name: '', value: left(all) });
  list(inner(box, 'dl'), items, ({ key }) => key, ({ name }) => make('div', {}, make('dt', {}, name), make('dd')), (item, { value }) => {
    mark(item, 'class', isObject(value) && (!Array.isArray(value) || value.some(isObject)) ? 'wide' : undefined);
    drawReport(item.lastChild, value, depth + 1);
  });
}

function drawItems(box, all, depth) {
  const items = all.slice(0, most).map((value, i) => ({ value, i }));
  if (all.length > most) items.push({ value: left(all), i: most });
  list(inner(box, 'ul'), items, ({ i }) => i, () => make('li'), (item, { value }) => drawReport(item, value, depth + 1));
}

/** inner is the only element in a box. It stays as long as it is of the same kind. */
function inner(box, tag) {
  if (box.children.length !== 1 || box.firstElementChild.localName !== tag) box.replaceChildren(make(tag, { class: 'report' }));
  return box.firstElementChild;
}
