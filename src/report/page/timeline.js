// The timeline: cores against time. Cores (and ranks) that do the same are one
// row with a count.

const MOST_PIECES = 4000; // ops x tiles of a group that are drawn one by one

// Returns the rows of a model: cores that do the same in all groups, with their
// numbers as `ranges` of [first, count].
function coreRows(m) {
  const starts = new Set([0, m.plan.cores]);
  for (const g of m.timeline.groups)
    for (const l of g.lanes) {
      starts.add(l.core);
      starts.add(l.core + l.cores);
    }
  const at = [...starts].sort((a, b) => a - b), rows = new Map();
  for (let i = 0; i + 1 < at.length; i++) {
    const does = m.timeline.groups.map(g => { const l = laneOf(g, at[i]); return l ? `${l.tiles}/${l.busy}` : ''; }).join();
    const row = rows.get(does) || { m, core: at[i], cores: 0, ranges: [] };
    row.cores += at[i + 1] - at[i];
    row.ranges.push([at[i], at[i + 1] - at[i]]);
    rows.set(does, row);
  }
  return [...rows.values()];
}
const laneOf = (g, core) => g.lanes.find(l => core >= l.core && core < l.core + l.cores);
const hasCore = (r, core) => r.ranges.some(([first, n]) => core >= first && core < first + n);
const rangesText = (r, most) => r.ranges.slice(0, most).map(([first, n]) => (n === 1 ? first : `${first}–${first + n - 1}`)).join(', ') + (r.ranges.length > most ? ' …' : '');

// Adds what the cores of a row do, as {start, us, op, kind}, in order of time.
function fillRow(row) {
  const m = row.m;
  row.pieces = [];
  m.timeline.groups.forEach((g, gi) => {
    const lane = laneOf(g, row.core);
    let at = g.start_us;
    if (lane && g.us > 0) {
      const n = m.groups[gi].end - m.groups[gi].first;
      const rounds = lane.tiles * n <= MOST_PIECES / Math.max(1, m.groups.length / 20) ? lane.tiles : 1;
      for (let r = 0; r < rounds; r++)
        for (let k = 0; k < n; k++) {
          const us = g.op_us[k] * lane.busy / rounds;
          row.pieces.push({ start: at, us, op: m.groups[gi].first + k, tile: r, rounds, tiles: lane.tiles });
          at += us;
        }
    }
    const end = g.start_us + g.us;
    if (end - at > 1e-9 * g.us) row.pieces.push({ start: at, us: end - at, op: null, group: gi, idle: !lane });
  });
}

// Returns where a tensor changes hands: {m, from, to, tensor, kind}, by ops.
function handOvers(m) {
  const s = m.plan.scratch || {}, out = [];
  for (const h of s.homes || []) {
    if (h.fill === 'ring') out.push({ m, from: s.homes[h.from].first_op, to: h.first_op, tensor: h.name });
    for (const op of h.passed_to) out.push({ m, from: h.first_op, to: op, tensor: h.name });
  }
  return out;
}

const timed = models.filter(m => m.timeline);
const timeRows = timed.flatMap(coreRows);
timeRows.forEach(fillRow);
const arrows = timed.flatMap(handOvers);
for (const a of arrows) a.row = timeRows.findIndex(r => r.m === a.m);
const timeEnd = Math.max(...timed.map(m => m.timeline.us), 1e-9);
const timeAxis = makeAxis(timeEnd);

let timeCanvas = null, timeHeight = 0, rowHeight = 22;
const TOP = 38, BOTTOM = 20; // groups and marks

for (const m of timed)
  m.messageOps = m.ops.map((o, i) => [o, i]).filter(([o]) => o.kind === 'extern' && o.name.startsWith('messages')).map(([, i]) => i);

function rowLabel(r, most) {
  const cores = r.cores === 1 ? `core ${r.core}` : `${rangesText(r, most || 2)}  ×${r.cores}`;
  if (!r.m.ranks) return cores;
  const n = r.m.ranks.length, rank = n === 1 ? `rank ${r.m.ranks[0]}` : `ranks ${r.m.ranks[0]} … ×${n}`;
  return r.core === 0 && r.cores === r.m.plan.cores ? rank : `${rank}, ${cores}`;
}

function makeTimeline() {
  const part = document.getElementById('timeline'), body = part.querySelector('.body');
  if (!timed.length) {
    body.replaceChildren(el('p', { class: 'hint' }, 'This plan has no times: it was read, and its machine has no predicted time.'));
    return;
  }
  rowHeight = Math.max(5, Math.min(26, Math.floor(380 / timeRows.length)));
  timeHeight = TOP + rowHeight * timeRows.length + BOTTOM;
  timeCanvas = el('canvas', { role: 'img', 'aria-label': 'Timeline: cores against time. Plus and minus zoom, arrows pan, 0 shows all.' });
  const kinds = kindNames.filter(k => timed.some(m => m.ops.some(o => o.kind === k)));
  const act = zoomable(timeCanvas, () => timeAxis, pickTime);
  body.replaceChildren(
    el('div', { class: 'tools' },
      el('button', { type: 'button', onclick: () => act.zoom(0.5), title: 'Zoom in (+)' }, '+'),
      el('button', { type: 'button', onclick: () => act.zoom(2), title: 'Zoom out (−)' }, '−'),
      el('button', { type: 'button', onclick: act.all, title: 'Show all (0)' }, 'all'),
      el('span', { class: 'keys' }, kinds.map(k => el('span', { class: 'key' }, el('i', { style: { background: `var(--${k})` } }), k)),
        el('span', { class: 'key' }, el('i', { class: 'hatch' }), 'waits'),
        arrows.length || isTeam ? el('span', { class: 'key' }, el('i', { style: { background: 'var(--ring)' } }), isTeam ? 'messages' : 'changes hands') : null),
      models.length > 1 ? el('select', { id: 'model', 'aria-label': 'Ranks that the other pictures show', onchange: e => select({ m: +e.target.value }) },
        models.map(m => el('option', { value: m.index }, m.ranks.length > 1 ? `ranks ${m.ranks.slice(0, 6).join(', ')}${m.ranks.length > 6 ? ' …' : ''}` : `rank ${m.ranks[0]}`))) : null),
    timeCanvas, lazyList('groups', 'All groups as a table', groupTable));
  part.querySelector('h2').replaceChildren('Timeline', el('small', {},
    `${timed[0].timeline.basis} times; ${isTeam ? 'equal ranks' : 'cores that do the same'} are one row`),
  el('span', { class: 'hint' }, 'drag to pan; zoom by wheel after a click, or with Ctrl'));
}

function groupTable() {
  const rows = timed.flatMap(m => m.groups.map((g, gi) => {
    const t = m.timeline.groups[gi];
    const row = el('tr', { 'data-op': g.main, 'data-m': m.index, tabindex: 0 }, isTeam ? el('td', { class: 'n' }, m.ranks.join(' ')) : null,
      el('td', { class: 'n' }, gi), el('td', {}, g.ops.slice(0, 8).join(' ') + (g.ops.length > 8 ? ` … ${g.ops.length} ops` : '')),
      el('td', { class: 'n' }, g.tiles), el('td', { class: 'n' }, t.times === 1 ? '' : '×' + t.times),
      el('td', { class: 'n' }, fmtTime(t.start_us)), el('td', { class: 'n' }, fmtTime(t.us)),
      el('td', { class: 'n' }, fmtShare(t.us / (m.timeline.us || 1))), el('td', {}, g.price ? g.price.limit : ''),
      el('td', { class: 'n' }, g.work ? fmtBytes(g.work.memory_bytes) : ''));
    return link(row, m.index, g.main);
  }));
  const names = [isTeam ? 'ranks' : null, 'group', 'ops', 'tiles', 'runs', 'begins', 'time', 'share', 'limit', 'main memory'].filter(Boolean);
  return listTable(names, n => !['ops', 'limit'].includes(n), rows);
}

function drawAxis(c, axis, end, y, height, fmt) {
  const step = niceStep((axis.last - axis.first), axis.width / 110);
  c.fillStyle = colour('dim');
  c.strokeStyle = colour('grid');
  c.textAlign = 'center';
  for (let t = Math.ceil(axis.first / step) * step; t <= axis.last; t += step) {
    const x = Math.round(axis.x(t)) + 0.5;
    c.beginPath();
    c.moveTo(x, height);
    c.lineTo(x, y);
    c.stroke();
    const text = fmt(t), half = c.measureText(text).width / 2;
    if (x - half > axis.left - 30) c.fillText(text, Math.min(x, axis.left + axis.width - half), y + 10);
  }
  c.textAlign = 'left';
}

// Returns the first piece that ends behind a time.
function firstPiece(pieces, time) {
  let lo = 0, hi = pieces.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (pieces[mid].start + pieces[mid].us <= time) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

function drawGroups(c, m) {
  let lastX = -1;
  c.strokeStyle = colour('line');
  for (let gi = 0; gi < m.groups.length; gi++) {
    const g = m.timeline.groups[gi];
    if (g.start_us + g.us < timeAxis.first || g.start_us > timeAxis.last) continue;
    const x0 = Math.max(timeAxis.left, timeAxis.x(g.start_us)), x1 = Math.min(timeAxis.left + timeAxis.width, timeAxis.x(g.start_us + g.us));
    if (x1 - lastX < 1) continue;
    lastX = x1;
    c.fillStyle = colour('faint');
    c.fillRect(x0, 2, Math.max(0.5, x1 - x0 - 1), TOP - 8);
    if (x1 - x0 < 24) continue;
    c.fillStyle = colour('text');
    const names = m.groups[gi].ops;
    fitText(c, names.length > 1 ? `${names[0]} … ${names[names.length - 1]}` : names[0], x0 + 5, 10, x1 - x0 - 10);
    c.fillStyle = colour('dim');
    fitText(c, (g.times > 1 ? `×${g.times}  ` : '') + fmtTime(g.us) + (m.groups[gi].price ? `, ${m.groups[gi].price.limit}` : ''), x0 + 5, 23, x1 - x0 - 10);
  }
}

function drawRow(c, r, y) {
  const h = rowHeight - (rowHeight > 8 ? 2 : 1), end = timeAxis.left + timeAxis.width;
  let lastX = timeAxis.left - 1, lastColour = null;
  const core = shownCore(), dimmed = core != null && r.m.index === shown().m && !hasCore(r, core);
  c.globalAlpha = dimmed ? 0.35 : 1;
  let named = -1;
  for (let i = firstPiece(r.pieces, timeAxis.first); i < r.pieces.length; i++) {
    const p = r.pieces[i];
    if (p.start > timeAxis.last) break;
    const x0 = Math.max(timeAxis.left, timeAxis.x(p.start)), x1 = Math.min(end, timeAxis.x(p.start + p.us));
    if (x1 - lastX < 0.7 && x1 < end - 1) continue;
    const from = Math.max(lastX, x0);
    lastX = x1;
    if (p.op == null) {
      named = -1;
      if (x1 - from > 1) hatch(c, from, y, x1 - from, h, colour('wait'));
      lastColour = null;
      continue;
    }
    const op = r.m.ops[p.op], gap = x1 - x0 > 4 ? 1 : 0;
    if (op.kind !== lastColour) c.fillStyle = kindColour(op);
    lastColour = op.kind;
    c.fillRect(from, y, Math.max(0.7, x1 - from - gap), h);
    // Of tiles of one op that follow each other, the first has its name.
    if (x1 - x0 > 18 && h >= 11 && named !== p.op) {
      c.fillStyle = colour('on-' + op.kind);
      fitText(c, op.name, x0 + 4, y + h / 2 + 0.5, x1 - x0 - 8);
      lastColour = null;
      named = p.op;
    }
  }
  c.globalAlpha = 1;
}

// Draws a frame around all that one op does.
function frameOp(c, m, op, ink, width) {
  let found = false;
  timeRows.forEach((r, ri) => {
    if (r.m.index !== m || models[m].opStart[op] == null) return;
    const g = r.m.timeline.groups[r.m.groupOf[op]];
    let from = null, to = 0;
    const frame = () => {
      if (from == null) return;
      c.strokeStyle = ink;
      c.lineWidth = width;
      if (to - from < 1) {
        // What is too narrow for a frame is pointed at from above.
        c.fillStyle = ink;
        c.beginPath();
        c.moveTo(from - 5, TOP - 6);
        c.lineTo(from + 5, TOP - 6);
        c.lineTo(from, TOP);
        c.fill();
      }
      c.strokeRect(from - 0.5, TOP + ri * rowHeight - 0.5, Math.max(3, to - from), rowHeight - 1);
      c.lineWidth = 1;
      found = true;
    };
    for (let i = firstPiece(r.pieces, Math.max(g.start_us, timeAxis.first)); i < r.pieces.length; i++) {
      const p = r.pieces[i];
      if (p.start > Math.min(g.start_us + g.us, timeAxis.last)) break;
      if (p.op !== op) continue;
      const x0 = Math.max(timeAxis.left, timeAxis.x(p.start)), x1 = Math.min(timeAxis.left + timeAxis.width, timeAxis.x(p.start + p.us));
      // Tiles that follow each other directly have one frame.
      if (from == null || x0 > to + 0.5) {
        frame();
        from = x0;
      }
      to = x1;
    }
    frame();
  });
  return found;
}

function drawArrows(c) {
  c.strokeStyle = c.fillStyle = colour('ring');
  c.lineWidth = 1.2;
  let last = -9;
  for (const a of arrows) {
    const x0 = timeAxis.x(a.m.opStart[a.from] + a.m.opUs[a.from]), x1 = timeAxis.x(a.m.opStart[a.to]);
    if (x1 < timeAxis.left || x0 > timeAxis.left + timeAxis.width) continue;
    const y = TOP + a.row * rowHeight - 3, shownNow = shown().m === a.m.index && [a.from, a.to].includes(shown().op);
    // Of arrows that end at the same point, one is drawn.
    if (Math.abs(x1 - last) < 2 && !shownNow) continue;
    last = x1;
    c.globalAlpha = shown().op == null || shownNow ? 1 : 0.25;
    c.beginPath();
    c.moveTo(Math.max(timeAxis.left, x0), y);
    c.bezierCurveTo(x0 + 6, y - 9, x1 - 6, y - 9, x1, y);
    c.stroke();
    c.beginPath();
    c.moveTo(x1, y + 2);
    c.lineTo(x1 - 4, y - 4);
    c.lineTo(x1 + 4, y - 4);
    c.fill();
  }
  c.globalAlpha = 1;
  c.lineWidth = 1;
}

// Returns the ops of a rank's program that send and wait for each exchange of the
// team's program, as pairs [send, wait]; none if the rank does more than that,
// such as adding partial sums.
function exchangesOf(m) {
  const out = [];
  for (let k = 0; k + 1 < m.messageOps.length; k += 2) out.push([m.messageOps[k], m.messageOps[k + 1]]);
  return m.messageOps.length === 2 * exchanges.length ? out : [];
}

// Marks where ranks send and wait for messages, and draws an arrow from rank to
// rank for the messages that are selected.
function drawMessages(c) {
  c.fillStyle = c.strokeStyle = colour('ring');
  timeRows.forEach((r, ri) => {
    if (!r.m.ranks || !hasCore(r, 0)) return;
    for (const i of r.m.messageOps) {
      const x = timeAxis.x(r.m.opStart[i]), y = TOP + ri * rowHeight;
      if (x < timeAxis.left - 1 || x > timeAxis.left + timeAxis.width + 1) continue;
      c.beginPath();
      c.moveTo(x - 5, y - 1);
      c.lineTo(x + 5, y - 1);
      c.lineTo(x, y + Math.min(8, rowHeight / 2));
      c.fill();
    }
  });
  if (!selected.pair) return;
  const [from, to] = selected.pair.map(rank => timeRows.findIndex(r => r.m.ranks && r.m.ranks.includes(rank) && hasCore(r, 0)));
  if (from < 0 || to < 0) return;
  const sends = exchangesOf(timeRows[from].m), waits = exchangesOf(timeRows[to].m);
  c.lineWidth = 1.8;
  for (let k = 0; k < Math.min(sends.length, waits.length, 400); k++) {
    if (!exchanges[k].some(x => x.from === selected.pair[0] && x.to === selected.pair[1])) continue;
    const x0 = timeAxis.x(timeRows[from].m.opStart[sends[k][0]]), x1 = timeAxis.x(timeRows[to].m.opStart[waits[k][1]]);
    const y0 = TOP + (from + 0.5) * rowHeight, y1 = TOP + (to + 0.5) * rowHeight, down = Math.sign(y1 - y0) || 1;
    if (x1 < timeAxis.left || x0 > timeAxis.left + timeAxis.width) continue;
    c.beginPath();
    c.moveTo(Math.max(timeAxis.left, x0), y0);
    c.lineTo(x1, y1);
    c.stroke();
    c.beginPath();
    c.arc(Math.max(timeAxis.left, x0), y0, 3, 0, 7);
    c.moveTo(x1 + 1, y1 + 2 * down);
    c.lineTo(x1 - 8, y1 - 3 * down);
    c.lineTo(x1 - 2, y1 - 7 * down);
    c.fill();
  }
  c.lineWidth = 1;
}

function drawTimeline() {
  if (!timeCanvas) { note('timeline', false); return; }
  const width = timeCanvas.clientWidth;
  const c = context(timeCanvas, width, timeHeight);
  const labels = rowHeight >= 10 ? Math.min(170, timeRows.reduce((w, r) => Math.max(w, textWidth(c, rowLabel(r)) + 12), 64)) : 64;
  timeAxis.left = labels;
  timeAxis.width = width - labels - 2;
  drawAxis(c, timeAxis, timeEnd, TOP + rowHeight * timeRows.length, TOP, fmtTime);
  drawGroups(c, isTeam ? models[shown().m].timeline ? models[shown().m] : timed[0] : timed[0]);
  timeRows.forEach((r, i) => {
    const y = TOP + i * rowHeight;
    c.fillStyle = colour(isTeam && r.m.index === shown().m ? 'text' : 'dim');
    if (rowHeight >= 10) fitText(c, rowLabel(r), 0, y + rowHeight / 2, labels - 6);
    drawRow(c, r, y);
  });
  drawArrows(c);
  drawMessages(c);
  const choice = document.getElementById('model');
  if (choice) choice.value = selected.m;
  let found = false;
  if (selected.op != null) found = frameOp(c, selected.m, selected.op, colour('mark-line'), 2.5) || found;
  if (hovered.op != null) found = frameOp(c, hovered.m, hovered.op, colour('text'), 1.5) || found;
  note('timeline', found || selected.op != null);
}
views.push({ part: 'timeline', draw: drawTimeline, moves: true });
views.push({ part: 'groups', draw: () => markRows('#groups', (s, tr) => s.m === +tr.dataset.m && models[s.m].groupOf[s.op] === models[s.m].groupOf[tr.dataset.op]) });

function pickTime(e, click) {
  const ri = Math.floor((e.offsetY - TOP) / rowHeight), t = timeAxis.at(e.offsetX), r = timeRows[ri] || null;
  if (e.offsetY < TOP && e.offsetX >= timeAxis.left) return pickGroup(e, t, click);
  const p = r && e.offsetX >= timeAxis.left ? r.pieces[firstPiece(r.pieces, t)] : null;
  if (!p || p.start > t) {
    // The label of a row selects its rank or its first core.
    const label = r && e.offsetX < timeAxis.left;
    showTip(e, label ? rowLabel(r, 40) : '');
    hover({});
    if (click && label && isTeam) select({ m: r.m.index, op: null, core: null });
    else if (click) select(label ? { core: selected.core === r.core ? null : r.core } : { op: null, core: null });
    return;
  }
  const who = r.m.ranks ? rowLabel(r, 8) : `${r.cores > 1 ? 'cores' : 'core'} ${rangesText(r, 8)}`;
  if (p.op == null) {
    showTip(e, `${who}\n${p.idle ? 'no tile of this group' : 'waits'} for ${fmtTime(p.us)}`);
    hover({});
    return;
  }
  const op = r.m.ops[p.op];
  showTip(e, `${op.name} (${op.kind})\n${who}${p.tiles > 1 ? `, ${p.rounds > 1 ? `tile ${p.tile + 1} of ${p.tiles}` : `${p.tiles} tiles`}` : ''}\n${fmtTime(p.us)} from ${fmtTime(p.start)}`);
  if (click) select({ m: r.m.index, op: p.op, core: null });
  else hover({ m: r.m.index, op: p.op });
}

// Groups are listed above the rows, in those of the shown ranks.
function pickGroup(e, t, click) {
  const m = isTeam && models[shown().m].timeline ? models[shown().m] : timed[0], gi = m.timeline.groups.findIndex(g => t >= g.start_us && t < g.start_us + g.us);
  if (gi < 0) { showTip(e, ''); hover({}); return; }
  const g = m.groups[gi], span = m.timeline.groups[gi];
  showTip(e, `group ${gi}: ${g.ops.slice(0, 8).join(', ')}${g.ops.length > 8 ? ' …' : ''}\n${plural(g.tiles, 'tile')}${span.times > 1 ? `, ${span.times} times` : ''}\n${fmtTime(span.us)} from ${fmtTime(span.start_us)}${g.price ? `, limited by ${g.price.limit}` : ''}`);
  if (click) select({ m: m.index, op: g.main, core: null });
  else hover({ m: m.index, op: g.main });
}
