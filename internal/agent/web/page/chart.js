// Pictures of a workload's quota over time.

import { amount, percent } from './model.js';
import { draw, make, mark } from './dom.js';

/** bars are a path of columns from the bottom, the last one at the right. */
function bars(values, width, height, room) {
  const step = width / room;
  return values.map((v, i) => {
    if (v <= 0) return '';
    const x = width - (values.length - i) * step;
    return `M${x.toFixed(1)} ${height}v${(-Math.max(v * height, 1)).toFixed(1)}h${Math.max(step - 0.4, 0.6).toFixed(1)}V${height}z`;
  }).join('');
}

/** steps is a path of a line that keeps each value for its moment. */
function steps(values, width, height, room, most) {
  const step = width / room;
  return values.map((v, i) => {
    const x = width - (values.length - i) * step;
    const y = height - 1 - (Math.min(v / most, 1) * (height - 2));
    return `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}h${step.toFixed(1)}`;
  }).join('');
}

const sparkRoom = 60;

/** spark is a picture of the throttling of the last minute, in a row. */
export function spark() {
  return draw('svg', { class: 'spark', viewBox: '0 0 90 18', 'aria-hidden': 'true' }, draw('path', { class: 'above' }), draw('path', { class: 'own' }));
}

/** drawSpark brings it up to date, and says whether it has columns, which the next moment moves. */
export function drawSpark(image, past) {
  const last = past.slice(-sparkRoom);
  mark(image.firstChild, 'd', bars(last.map((m) => m.above), 90, 18, sparkRoom));
  mark(image.lastChild, 'd', bars(last.map((m) => m.throttled), 90, 18, sparkRoom));
  return last.some((m) => m.above > 0 || m.throttled > 0);
}

const width = 320;
const height = 56;

/** figure is one chart with a title that says it in words. */
function figure(title, paths) {
  const image = draw('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', preserveAspectRatio: 'none' }, ...paths);
  image.setAttribute('aria-label', title);
  return make('figure', {}, make('figcaption', {}, title), image);
}

/** charts show throttling, quota and credit over as long as both are known, at most a quarter of an hour. */
export function charts(moments) {
  const past = moments.filter((m) => m.q);
  const all = [];
  const room = Math.max(past.length, sparkRoom);
  const values = (pick) => past.map(pick);
  const own = values((m) => m.throttled);
  const above = values((m) => m.above);
  const worst = (list) => percent(Math.max(0, ...list));
  let title = `Throttled: ${percent(own.at(-1))} now, at most ${worst(own)}`;
  if (above.some((v) => v > 0)) title += `; by a group above: ${percent(above.at(-1))} now, at most ${worst(above)}`;
  all.push(figure(title, [
    draw('path', { class: 'above', d: bars(above, width, height, room) }), draw('path', { class: 'own', d: bars(own, width, height, room) }),
  ]));
  const q = past.at(-1).q;
  const quotas = values((m) => (m.q.nowCPUs < 0 ? Infinity : m.q.nowCPUs));
  const limits = values((m) => (m.q.limitCPUs < 0 ? Infinity : m.q.limitCPUs));
  const most = Math.max(0.1, ...[...quotas, ...limits].filter(Number.isFinite)) * 1.05;
  all.push(figure(`Quota: ${amount(q.nowCPUs)} CPUs now, the limit is ${amount(q.limitCPUs)}`, [
    draw('path', { class: 'limit', d: steps(limits, width, height, room, most) }), draw('path', { class: 'now', d: steps(quotas, width, height, room, most) }),
  ]));
  if (q.capacityCPUSeconds > 0) {
    all.push(figure(`Credit: ${amount(q.creditCPUSeconds)} of at most ${amount(q.capacityCPUSeconds)} CPU-seconds`, [
      draw('path', { class: 'credit', d: bars(values((m) => Math.min(m.q.creditCPUSeconds / m.q.capacityCPUSeconds, 1)), width, height, room) }),
    ]));
  }
  return all;
}
