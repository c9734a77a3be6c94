// The scratchpad: address against time, and what its peak is made of. By time,
// the picture has the axis of the timeline above it, and moves with that; by op,
// all ops are equally wide, so that short ones can be told apart.

let scratchCanvas = null, scratchModel = null, scratchByOp = false, opAxis = makeAxis(1);
const SCRATCH_HEIGHT = 270, SCRATCH_TOP = 24, SCRATCH_BOTTOM = 18;

const scratchAxis = () => (scratchByOp ? opAxis : timeAxis);
// Where an op begins and ends on the axis.
const opBegin = (m, op) => (scratchByOp ? op : m.opStart[op]);
const opEnd = (m, op) => (scratchByOp ? op + 1 : m.opStart[op] + m.opUs[op]);

const homesOf = m => ((m.plan.scratch || {}).homes || []);

// Takes the peak apart: the homes at the op where most bytes are in use, and
// the most bytes that would be in use at once without each.
function peakParts(m) {
  const homes = homesOf(m), peak = m.plan.scratch.peak;
  if (peak.op == null) return [];
  // Buffers that take each other's place form a chain, which is one buffer as
  // far as the peak is concerned.
  const chain = homes.map((h, i) => i);
  homes.forEach((h, i) => { if (h.in_place_of != null) chain[i] = chain[h.in_place_of]; });
  const liveAt = m.ops.map(() => []);
  homes.forEach((h, i) => { for (let op = h.first_op; op < h.end_op; op++) liveAt[op].push(i); });
  const heightWithout = skip => liveAt.reduce((most, list) =>
    Math.max(most, covered(list.filter(i => chain[i] !== chain[skip]).map(i => homes[i]))), 0);
  const live = homes.map((h, i) => [h, i]).filter(([h]) => peak.op >= h.first_op && peak.op < h.end_op);
  // For plans with very many homes only what is there at the peak is listed.
  const few = homes.length * live.length < 2e5;
  return live.map(([h, i]) => ({ h, i, without: few ? heightWithout(i) : null }))
    .sort((a, b) => b.h.core_bytes - a.h.core_bytes || a.h.address - b.h.address);
}

function whyHome(m, h) {
  const homes = homesOf(m);
  const how = { written: `written by ${m.ops[h.first_op].name}`, loaded: h.shared ? 'read once for all cores and passed on' : 'loaded from main memory',
    ring: 'copied from other cores', moved: 'copied within the core', summed: 'accumulators of partial sums' }[h.fill];
  return [how, h.in_place_of == null ? null : `takes the place of ${homes[h.in_place_of].name}`,
    h.stored ? 'also stored to main memory' : null, h.passed_to.length ? `passed to ${h.passed_to.map(o => m.ops[o].name).join(', ')}` : null].filter(Boolean).join('; ');
}

function peakTable(m) {
  const parts = peakParts(m), peak = m.plan.scratch.peak;
  if (!parts.length) return null;
  const best = parts.filter(p => p.without != null).sort((a, b) => a.without - b.without)[0];
  const sum = parts.reduce((s, p) => s + p.h.core_bytes, 0), unused = peak.bytes - covered(parts.map(p => p.h));
  return el('div', { id: 'peak' }, el('h3', {}, `The peak, ${fmtBytes(peak.bytes)}, is at `, el('code', {}, m.ops[peak.op].name)),
    el('table', { class: 'list' }, el('thead', {}, el('tr', {}, ['buffer', 'bytes', 'needed without it'].map((t, i) => el('th', { class: i ? 'n' : null }, t)))),
      el('tbody', {}, parts.slice(0, 12).map(p => link(el('tr', { 'data-op': p.h.first_op, tabindex: 0 },
        el('td', {}, p.h.name, ' ', p.h.in_place_of == null ? null : el('span', { class: 'tag' }, 'in place of ' + homesOf(m)[p.h.in_place_of].name)),
        el('td', { class: 'n' }, fmtBytes(p.h.core_bytes)),
        el('td', { class: 'n' }, p.without == null ? '' : p.without < peak.bytes ? fmtBytes(p.without) : 'the same')), m.index, p.h.first_op)))),
    el('p', { class: 'hint' }, parts.length > 12 ? `${parts.length - 12} smaller buffers are not listed. ` : '',
      unused > 0 ? `${fmtBytes(unused)} below the peak are gaps. ` : sum > peak.bytes ? 'Buffers that take each other’s place count once. ' : '',
      best && best.without < peak.bytes ? `Without ${best.h.name} ${fmtBytes(best.without)} would do: that lowers the peak next.`
        : 'No single buffer lowers the peak: several moments are as high.'));
}

// Returns the bytes that homes cover together.
function covered(homes) {
  let end = 0, sum = 0;
  for (const h of [...homes].sort((a, b) => a.address - b.address)) {
    const lo = Math.max(end, h.address), hi = h.address + h.core_bytes;
    sum += Math.max(0, hi - lo);
    end = Math.max(end, hi);
  }
  return sum;
}

function awayTable(m, away) {
  return listTable(['tensor', 'bytes', 'why it is not kept'], n => n === 'bytes', away.map(b => link(el('tr', { 'data-op': b.start, tabindex: 0 },
    el('td', {}, b.name), el('td', { class: 'n' }, fmtBytes(b.core_bytes)), el('td', {}, b.reason || '')), m.index, b.start)));
}

function homesTable(m) {
  return listTable(['buffer', 'address', 'bytes', 'from', 'to', 'why it is there'], n => ['address', 'bytes'].includes(n),
    homesOf(m).map(h => link(el('tr', { 'data-op': h.first_op, tabindex: 0 }, el('td', {}, h.name), el('td', { class: 'n' }, h.address),
      el('td', { class: 'n' }, fmtBytes(h.core_bytes)), el('td', {}, m.ops[h.first_op].name), el('td', {}, m.ops[h.end_op - 1].name), el('td', {}, whyHome(m, h))), m.index, h.first_op)));
}

function makeScratch(m) {
  scratchModel = m;
  scratchCanvas = null;
  const part = document.getElementById('scratch'), body = part.querySelector('.body'), s = m.plan.scratch;
  part.hidden = !s || !(plan.machine || {}).scratch || (!s.homes.length && plan.machine.here);
  if (part.hidden) return;
  const away = (s.buffers || []).filter(b => b.address == null);
  const awayList = away.length ? lazyList('away', `${plural(away.length, 'tensor')} not kept, and why`, () => awayTable(m, away)) : null;
  part.querySelector('h2').replaceChildren('Scratchpad', el('small', {}, `one core’s; all cores that work are alike. Usable: ${fmtBytes(s.capacity)}`));
  if (!s.homes.length) {
    if (awayList) awayList.open = true;
    body.replaceChildren(el('p', { class: 'hint' }, data.left_out.includes('what is in the scratchpads') ? 'What is in the scratchpads was left out of this page.' : 'Nothing is kept in the scratchpads.'), awayList || '');
    return;
  }
  opAxis = makeAxis(m.ops.length);
  scratchByOp = scratchByOp || !m.timeline;
  scratchCanvas = el('canvas', { role: 'img', 'aria-label': 'Scratchpad: address against time. Plus and minus zoom, arrows pan, 0 shows all.' });
  const act = zoomable(scratchCanvas, scratchAxis, pickHome), fills = new Set(homesOf(m).map(homeColour));
  const choice = (byOp, text, title) => el('button', { type: 'button', title, 'aria-pressed': String(scratchByOp === byOp), onclick: () => {
    scratchByOp = byOp;
    makeScratch(m);
    redraw(true);
  } }, text);
  body.replaceChildren(el('div', { class: 'picture' }, el('div', { class: 'tools' },
    m.timeline ? el('span', { class: 'choice' }, choice(false, 'by time', 'With the axis of the timeline'), choice(true, 'by op', 'All ops equally wide')) : null,
    scratchByOp ? el('button', { type: 'button', onclick: act.all, title: 'Show all (0)' }, 'all') : null,
    el('span', { class: 'keys' }, 'written by', [...kindNames.map(k => [k, k]), ['ring', 'copied from other cores'], ['wait', 'loaded or moved']].filter(([k]) => fills.has(k))
      .map(([k, text]) => el('span', { class: 'key' }, el('i', { style: { background: `var(--${k})` } }), text)), homesOf(m).some(h => h.in_place_of != null)
      ? el('span', { class: 'key' }, el('i', { class: 'dotted' }), 'in place of another') : null)),
  scratchCanvas), el('div', { class: 'two' }, peakTable(m) || el('div'), el('div', {},
    lazyList('homes', 'All buffers as a table', () => homesTable(m)), awayList || '')));
}

// The colour of a home: that of the op that writes it, or of a copy.
function homeColour(h) {
  return h.fill === 'written' || h.fill === 'summed' ? scratchModel.ops[h.first_op].kind : h.fill === 'ring' ? 'ring' : 'wait';
}

function homeRect(h, top) {
  const scale = (SCRATCH_HEIGHT - SCRATCH_TOP - SCRATCH_BOTTOM) / top, axis = scratchAxis(), m = scratchModel;
  const x0 = Math.max(axis.left, axis.x(opBegin(m, h.first_op))), x1 = Math.min(axis.left + axis.width, axis.x(opEnd(m, h.end_op - 1)));
  const y1 = SCRATCH_HEIGHT - SCRATCH_BOTTOM - h.address * scale, y0 = y1 - h.core_bytes * scale;
  return { x: x0, y: y0, w: x1 - x0, h: y1 - y0 };
}

// The highest address of the picture: the capacity, unless that leaves most of
// the picture empty.
function scratchTop(m) {
  const s = m.plan.scratch;
  return s.peak.bytes * 3 > s.capacity ? Math.max(s.capacity, s.peak.bytes) : s.peak.bytes * 1.15;
}

// Draws the axis of addresses and the names of ops or the times below.
function drawScratchAxes(c, m, width, top) {
  const axis = scratchAxis(), base = SCRATCH_HEIGHT - SCRATCH_BOTTOM, scale = (base - SCRATCH_TOP) / top;
  c.fillStyle = colour('dim');
  c.strokeStyle = colour('grid');
  c.textAlign = 'right';
  const unit = 2 ** Math.floor(Math.log2(top / 4));
  for (let a = 0; a <= top; a += unit) {
    const y = Math.round(base - a * scale) + 0.5;
    c.beginPath();
    c.moveTo(axis.left, y);
    c.lineTo(width, y);
    c.stroke();
    c.fillText(fmtBytes(a), axis.left - 6, y);
  }
  c.textAlign = 'left';
  if (!scratchByOp) {
    drawAxis(c, axis, timeEnd, base, SCRATCH_TOP, fmtTime);
    return;
  }
  const column = axis.scale();
  for (let op = Math.max(0, Math.floor(axis.first)); op < Math.min(m.ops.length, axis.last) && column > 26; op++)
    fitText(c, m.ops[op].name, axis.x(op) + 3, SCRATCH_HEIGHT - 7, column - 5);
}

function drawHome(c, m, h, r, now) {
  const kind = homeColour(h), bright = now.op == null || (now.op >= h.first_op && now.op < h.end_op);
  // What lies below does not shine through.
  c.fillStyle = colour('card');
  c.fillRect(r.x, r.y, Math.max(1, r.w - 1), r.h);
  c.globalAlpha = bright ? 1 : 0.4;
  c.fillStyle = colour(kind);
  c.fillRect(r.x, r.y, Math.max(1, r.w - (r.w > 3 ? 1 : 0)), Math.max(1.5, r.h - (r.h > 4 ? 1 : 0)));
  c.globalAlpha = 1;
  if (r.h > 11 && r.w > 30) {
    c.fillStyle = bright ? colour('on-' + kind) : colour('text');
    fitText(c, `${h.name}  ${fmtBytes(h.core_bytes)}`, r.x + 5, r.y + Math.min(r.h / 2, 10), r.w - 8);
  }
  if (h.in_place_of == null || r.w < 4) return;
  c.strokeStyle = colour('text');
  c.setLineDash([2, 2]);
  c.beginPath();
  c.moveTo(r.x + 0.5, r.y);
  c.lineTo(r.x + 0.5, r.y + r.h);
  c.stroke();
  c.setLineDash([]);
}

function drawCapacity(c, m, width, top) {
  const axis = scratchAxis(), base = SCRATCH_HEIGHT - SCRATCH_BOTTOM, y = base - m.plan.scratch.capacity * (base - SCRATCH_TOP) / top;
  c.strokeStyle = colour('bad');
  c.fillStyle = colour('dim');
  if (y < SCRATCH_TOP - 2) {
    fitText(c, `↑ usable are ${fmtBytes(m.plan.scratch.capacity)}`, axis.left + 4, 10, 300);
    return;
  }
  c.setLineDash([5, 3]);
  c.beginPath();
  c.moveTo(axis.left, y);
  c.lineTo(width, y);
  c.stroke();
  c.setLineDash([]);
  fitText(c, `usable ${fmtBytes(m.plan.scratch.capacity)}`, axis.left + 4, y - 8, 200);
}

function drawScratch() {
  const m = models[shown().m];
  if (m !== scratchModel) makeScratch(m);
  if (!scratchCanvas) { note('scratch', !document.getElementById('scratch').hidden && shown().op != null); return; }
  const width = scratchCanvas.clientWidth, c = context(scratchCanvas, width, SCRATCH_HEIGHT), top = scratchTop(m);
  const homes = homesOf(m), now = shown(), axis = scratchAxis(), end = axis.left + axis.width;
  if (scratchByOp) {
    axis.left = timeCanvas ? timeAxis.left : 64;
    axis.width = width - axis.left - 2;
  }
  drawScratchAxes(c, m, width, top);
  if (now.op != null) { // as a column
    c.fillStyle = colour('mark');
    const x = Math.max(axis.left, axis.x(opBegin(m, now.op)));
    c.fillRect(x, SCRATCH_TOP - 4, Math.max(1.5, Math.min(end, axis.x(opEnd(m, now.op))) - x), SCRATCH_HEIGHT - SCRATCH_BOTTOM - SCRATCH_TOP + 4);
  }
  // Homes that are narrower than a pixel are drawn once per pixel and address.
  const drawnTo = new Map(), lit = [];
  for (const h of homes) {
    const r = homeRect(h, top);
    if (r.w < 0 || r.x > end || r.x + r.w < axis.left) continue;
    for (const s of [selected, hovered])
      if (s.op != null && s.m === m.index && (h.first_op === s.op || h.readers.includes(s.op))) lit.push([s, r]);
    if (r.w < 1 && r.x + r.w - (drawnTo.get(h.address) || -9) < 0.7) continue;
    drawnTo.set(h.address, r.x + r.w);
    drawHome(c, m, h, r, now);
  }
  drawCapacity(c, m, width, top);
  for (const [s, r] of lit) {
    c.strokeStyle = colour(s === selected ? 'mark-line' : 'text');
    c.lineWidth = s === selected ? 2.5 : 1.5;
    c.strokeRect(r.x, r.y, Math.max(2, r.w), Math.max(2, r.h));
  }
  c.lineWidth = 1;
  note('scratch', now.op != null);
}
views.push({ part: 'scratch', draw: drawScratch, moves: true });
views.push({ part: 'buffers', draw: () => markRows('#scratch', (s, tr) => s.m === scratchModel.index && s.op === +tr.dataset.op) });

function pickHome(e, click) {
  const m = scratchModel, top = scratchTop(m), axis = scratchAxis(), at = axis.at(e.offsetX);
  if (e.offsetX < axis.left) { showTip(e, ''); hover({}); return; }
  // The last one, which is drawn above the others.
  const hit = homesOf(m).filter(h => {
    const r = homeRect(h, top);
    return e.offsetX >= r.x && e.offsetX < r.x + r.w && e.offsetY >= r.y - 1 && e.offsetY < r.y + Math.max(3, r.h);
  }).pop();
  if (!hit) {
    showTip(e, '');
    hover({});
    const op = scratchByOp ? Math.floor(at) : m.opStart.findIndex((t, i) => at >= t && at < t + m.opUs[i]);
    if (click) select(op >= 0 && op < m.ops.length ? { m: m.index, op } : { op: null });
    return;
  }
  showTip(e, `${hit.name}: ${fmtBytes(hit.core_bytes)} at ${hit.address}\nfrom ${m.ops[hit.first_op].name} to ${m.ops[hit.end_op - 1].name}\n${whyHome(m, hit)}`);
  if (click) select({ m: m.index, op: hit.first_op });
  else hover({ m: m.index, op: hit.first_op });
}
