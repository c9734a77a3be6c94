// The scratchpad: address against ops, and what its peak is made of.

let scratchCanvas = null, scratchModel = null, scratchAxis = null;
const SCRATCH_HEIGHT = 260, SCRATCH_TOP = 24;

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
  return el('div', {}, el('h3', {}, `The peak, ${fmtBytes(peak.bytes)}, is at `, el('code', {}, m.ops[peak.op].name)),
    el('table', { class: 'list' }, el('thead', {}, el('tr', {}, ['buffer', 'bytes', 'without it'].map((t, i) => el('th', { class: i ? 'n' : null }, t)))),
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

function makeScratch(m) {
  scratchModel = m;
  scratchCanvas = null;
  const part = document.getElementById('scratch'), body = part.querySelector('.body'), s = m.plan.scratch;
  part.hidden = !s || !(plan.machine || {}).scratch || (!s.homes.length && plan.machine.here);
  if (part.hidden) return;
  const away = (s.buffers || []).filter(b => b.address == null);
  const awayList = away.length ? el('details', {}, el('summary', {}, `${plural(away.length, 'tensor')} not kept, and why`),
    el('div', { class: 'scroll' }, el('table', { class: 'list' }, el('tbody', {}, away.slice(0, 1000).map(b => link(el('tr', { 'data-op': b.start, tabindex: 0 },
      el('td', {}, b.name), el('td', { class: 'n' }, fmtBytes(b.core_bytes)), el('td', {}, b.reason || '')), m.index, b.start)))))) : null;
  part.querySelector('h2').replaceChildren('Scratchpad', el('small', {}, `one core’s; all cores that work are alike. Usable: ${fmtBytes(s.capacity)}`));
  if (!s.homes.length) {
    if (awayList) awayList.open = true;
    body.replaceChildren(el('p', { class: 'hint' }, 'Nothing is kept in the scratchpads.'), awayList || '');
    return;
  }
  scratchAxis = makeAxis(m.ops.length);
  scratchCanvas = el('canvas', { role: 'img', 'aria-label': 'Scratchpad: address against ops. Plus and minus zoom, arrows pan, 0 shows all.' });
  const act = zoomable(scratchCanvas, scratchAxis, redraw, pickHome);
  const list = el('details', {}, el('summary', {}, 'All buffers as a table'), el('div', { class: 'scroll' }, el('table', { class: 'list' },
    el('thead', {}, el('tr', {}, ['buffer', 'address', 'bytes', 'from', 'to', 'why it is there'].map((t, i) => el('th', { class: i === 1 || i === 2 ? 'n' : null }, t)))),
    el('tbody', {}, s.homes.slice(0, 1000).map(h => link(el('tr', { 'data-op': h.first_op, tabindex: 0 }, el('td', {}, h.name), el('td', { class: 'n' }, h.address),
      el('td', { class: 'n' }, fmtBytes(h.core_bytes)), el('td', {}, m.ops[h.first_op].name), el('td', {}, m.ops[h.end_op - 1].name), el('td', {}, whyHome(m, h))), m.index, h.first_op))))));
  body.replaceChildren(el('div', { class: 'two' }, el('div', {}, scratchCanvas, el('div', { class: 'tools' },
    el('button', { type: 'button', onclick: act.all, title: 'Show all (0)' }, 'all'), el('span', { class: 'hint' }, 'ops from left to right; addresses from bottom to top'))), peakTable(m) || ''),
  list, awayList || '');
}

function homeRect(h, top) {
  const scale = (SCRATCH_HEIGHT - SCRATCH_TOP - 16) / top;
  const x0 = Math.max(scratchAxis.left, scratchAxis.x(h.first_op)), x1 = Math.min(scratchAxis.left + scratchAxis.width, scratchAxis.x(h.end_op));
  const y1 = SCRATCH_HEIGHT - 16 - h.address * scale, y0 = y1 - h.core_bytes * scale;
  return { x: x0, y: y0, w: x1 - x0, h: y1 - y0 };
}

// The highest address of the picture: the capacity, unless that leaves most of
// the picture empty.
function scratchTop(m) {
  const s = m.plan.scratch;
  return s.peak.bytes * 3 > s.capacity ? Math.max(s.capacity, s.peak.bytes) : s.peak.bytes * 1.15;
}

function drawScratch() {
  const m = models[shown().m];
  if (m !== scratchModel) makeScratch(m);
  if (!scratchCanvas) { note('scratch', !document.getElementById('scratch').hidden && shown().op != null); return; }
  const width = scratchCanvas.clientWidth, c = context(scratchCanvas, width, SCRATCH_HEIGHT), top = scratchTop(m);
  const homes = homesOf(m), now = shown();
  scratchAxis.left = 62;
  scratchAxis.width = width - 64;
  const scale = (SCRATCH_HEIGHT - SCRATCH_TOP - 16) / top, base = SCRATCH_HEIGHT - 16;
  c.fillStyle = colour('dim');
  c.strokeStyle = colour('grid');
  c.textAlign = 'right';
  const unit = 2 ** Math.floor(Math.log2(top / 4));
  for (let a = 0; a <= top; a += unit) {
    const y = Math.round(base - a * scale) + 0.5;
    c.beginPath();
    c.moveTo(scratchAxis.left, y);
    c.lineTo(width, y);
    c.stroke();
    c.fillText(fmtBytes(a), scratchAxis.left - 6, y);
  }
  c.textAlign = 'left';
  // The op that is shown, as a column, and the names of ops where they fit.
  if (now.op != null) {
    c.fillStyle = colour('mark');
    const x = Math.max(scratchAxis.left, scratchAxis.x(now.op));
    c.fillRect(x, SCRATCH_TOP - 4, Math.max(1.5, Math.min(width, scratchAxis.x(now.op + 1)) - x), base - SCRATCH_TOP + 4);
  }
  const column = scratchAxis.scale();
  c.fillStyle = colour('dim');
  for (let op = Math.max(0, Math.floor(scratchAxis.first)); op < Math.min(m.ops.length, scratchAxis.last) && column > 26; op++)
    fitText(c, m.ops[op].name, scratchAxis.x(op) + 3, SCRATCH_HEIGHT - 6, column - 5);
  homes.forEach(h => {
    const r = homeRect(h, top);
    if (r.w <= 0) return;
    const maker = h.fill === 'written' || h.fill === 'summed' ? m.ops[h.first_op] : null;
    const near = now.op != null && now.op >= h.first_op && now.op < h.end_op;
    // What lies below does not shine through.
    c.fillStyle = colour('card');
    c.fillRect(r.x + 0.5, r.y, Math.max(1, r.w - 1), r.h);
    c.globalAlpha = now.op == null || near ? 1 : 0.45;
    c.fillStyle = maker ? kindColour(maker) : h.fill === 'ring' ? colour('ring') : colour('wait');
    c.fillRect(r.x + 0.5, r.y, Math.max(1, r.w - 1), Math.max(1.5, r.h - (r.h > 4 ? 1 : 0)));
    if (r.h > 11) {
      c.fillStyle = maker ? colour('on-' + maker.kind) : h.fill === 'ring' ? '#fff' : colour('text');
      fitText(c, `${h.name}  ${fmtBytes(h.core_bytes)}`, r.x + 5, r.y + Math.min(r.h / 2, 10), r.w - 8);
    }
    c.globalAlpha = 1;
    if (h.in_place_of != null && r.w > 3) {
      c.strokeStyle = colour('text');
      c.setLineDash([2, 2]);
      c.beginPath();
      c.moveTo(r.x + 1, r.y);
      c.lineTo(r.x + 1, r.y + r.h);
      c.stroke();
      c.setLineDash([]);
    }
  });
  const limit = base - m.plan.scratch.capacity * scale;
  c.strokeStyle = colour('bad');
  c.fillStyle = colour('dim');
  if (limit >= SCRATCH_TOP - 2) {
    c.setLineDash([5, 3]);
    c.beginPath();
    c.moveTo(scratchAxis.left, limit);
    c.lineTo(width, limit);
    c.stroke();
    c.setLineDash([]);
    fitText(c, `usable ${fmtBytes(m.plan.scratch.capacity)}`, scratchAxis.left + 4, limit - 8, 200);
  } else
    fitText(c, `usable is ${fmtBytes(m.plan.scratch.capacity)}, far above`, scratchAxis.left + 4, 8, 300);
  for (const [s, ink, w] of [[selected, 'mark-line', 2.5], [hovered, 'text', 1.5]])
    if (s.op != null && s.m === m.index)
      homes.filter(h => h.first_op === s.op || h.readers.includes(s.op)).forEach(h => {
        const r = homeRect(h, top);
        if (r.w <= 0) return;
        c.strokeStyle = colour(ink);
        c.lineWidth = w;
        c.strokeRect(r.x, r.y, r.w, Math.max(2, r.h));
        c.lineWidth = 1;
      });
  note('scratch', now.op != null);
  document.querySelectorAll('#scratch tr[data-op]').forEach(tr => {
    tr.classList.toggle('hov', hovered.op != null && +tr.dataset.op === hovered.op);
    tr.classList.toggle('sel', selected.op != null && +tr.dataset.op === selected.op);
  });
}
views.push({ part: 'scratch', draw: drawScratch });

function pickHome(e, click) {
  const m = scratchModel, top = scratchTop(m);
  // The last one, which is drawn above the others.
  const hit = homesOf(m).filter(h => {
    const r = homeRect(h, top);
    return e.offsetX >= r.x && e.offsetX < r.x + r.w && e.offsetY >= r.y - 1 && e.offsetY < r.y + Math.max(3, r.h);
  }).pop();
  const op = Math.floor(scratchAxis.at(e.offsetX));
  if (!hit) {
    showTip(e, '');
    hover({});
    if (click) select(op >= 0 && op < m.ops.length && e.offsetX > scratchAxis.left ? { m: m.index, op } : { op: null });
    return;
  }
  showTip(e, `${hit.name}: ${fmtBytes(hit.core_bytes)} at ${hit.address}\nfrom ${m.ops[hit.first_op].name} to ${m.ops[hit.end_op - 1].name}\n${whyHome(m, hit)}`);
  if (click) select({ m: m.index, op: hit.first_op });
  else hover({ m: m.index, op: hit.first_op });
}
