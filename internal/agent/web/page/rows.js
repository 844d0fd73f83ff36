// Tables: columns that sort, and rows among which the keys move.

import { make, mark } from './dom.js';

/** sortable fills a heading, and calls change with the column that the reader chooses after first. */
export function sortable(row, columns, change, first = columns[0]) {
  const heads = columns.map((column) => make('th', { scope: 'col', class: column.class }, column.by ? make('button', { type: 'button' }, column.name) : column.name));
  const show = (chosen) => heads.forEach((head, i) => mark(head, 'aria-sort', columns[i] !== chosen ? undefined : chosen.up ? 'ascending' : 'descending'));
  columns.forEach((column, i) => column.by && heads[i].firstChild.addEventListener('click', () => {
    show(column);
    change(column);
  }));
  row.append(...heads);
  show(first);
}

/** beside is the row to which a key leads. */
export function beside(row, key) {
  const body = row.parentElement;
  const page = (step) => {
    const all = [...body.children];
    return all.at(Math.max(0, Math.min(all.indexOf(row) + step, all.length - 1)));
  };
  return {
    ArrowDown: () => row.nextElementSibling, ArrowUp: () => row.previousElementSibling, Home: () => body.firstElementChild,
    End: () => body.lastElementChild, PageDown: () => page(10), PageUp: () => page(-10),
  }[key]?.();
}
