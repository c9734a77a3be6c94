'use strict';
// The data of the page and what all pictures need of it. `data.plan` is what
// `divvy plan --json` prints. The other scripts are behind this one in the same
// scope; main.js, the last, starts the page.

const data = JSON.parse(document.getElementById('data').textContent);

// Details that were left out of a large page. Groups have the names of ops, whose
// other fields stay unknown.
function unknownOp(name) {
  return { name, kind: 'unknown', vars: [], write: { tensor: name, index: [] }, reads: [], body: null, flops: 0, bytes: 0 };
}
for (const p of [data.plan, ...(data.plan.ranks || []), data.other].filter(Boolean)) {
  p.ops = p.ops || (p.groups || []).flatMap(g => g.ops.map(unknownOp));
  p.tensors = p.tensors || [];
  if (p.scratch) p.scratch = { buffers: [], homes: [], ...p.scratch };
}

// A model is a plan that runs on cores: the plan itself or, for a team of
// ranks, the plan of each class of equal ranks.
const models = (data.plan.ranks || [null]).map((rank, i) => {
  const plan = rank || data.plan;
  const measured = !rank && data.measured && data.measured.timeline;
  return {
    index: i, plan, ranks: rank ? rank.ranks : null,
    ops: plan.ops || [], groups: plan.groups || [],
    timeline: measured || plan.timeline || null,
    path: rank ? `ranks.${i}` : '',
  };
});

// Fields that the pictures look up often.
for (const m of models) {
  m.opNamed = new Map(m.ops.map((o, i) => [o.name, i]));
  m.tensors = new Map((m.plan.tensors || []).map(t => [t.name, t]));
  m.groupOf = new Array(m.ops.length).fill(-1);
  m.opUs = new Array(m.ops.length).fill(null);
  m.opStart = new Array(m.ops.length).fill(null);
  let op = 0;
  m.groups.forEach((g, gi) => {
    g.first = op;
    let at = m.timeline ? m.timeline.groups[gi].start_us : 0;
    for (let k = 0; k < g.ops.length; k++, op++) {
      m.groupOf[op] = gi;
      if (!m.timeline) continue;
      m.opStart[op] = at;
      m.opUs[op] = m.timeline.groups[gi].op_us[k];
      at += m.opUs[op];
    }
    g.end = op;
    g.main = g.first; // the op that takes longest
    for (let k = g.first; k < g.end; k++) if (m.opUs[k] > m.opUs[g.main]) g.main = k;
  });
}

const plan = data.plan;
const isTeam = !!plan.ranks;

// -- Numbers as text -----------------------------------------------------------

function digits(x, n) {
  if (x === 0) return '0';
  const d = Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(x))));
  return x.toFixed(Math.min(d, 6)).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}
function fmtTime(us) {
  if (us == null) return '–';
  if (us >= 1e6) return digits(us / 1e6, 4) + ' s';
  if (us >= 1e3) return digits(us / 1e3, 4) + ' ms';
  if (us >= 0.1 || us === 0) return digits(us, 4) + ' µs';
  return digits(us * 1e3, 3) + ' ns';
}
function fmtBytes(b) {
  if (b == null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  while (b >= 1024 && u < 4) { b /= 1024; u++; }
  return digits(b, u ? 4 : 15) + ' ' + units[u];
}
// Shows a number of operations: 1.5 G.
function fmtCount(x) {
  const units = ['', 'K', 'M', 'G', 'T', 'P'];
  let u = 0;
  while (x >= 1000 && u < 5) { x /= 1000; u++; }
  return digits(x, 3) + ' ' + units[u];
}
const fmtFlop = x => fmtCount(x) + 'flop';
const fmtShare = x => digits(100 * x, 3) + ' %';
const fmtBox = box => box.map(([lo, hi]) => `${lo}..${hi}`).join(' × ') || 'one element';
const baseName = p => (p.file || 'a program').split('/').pop();
const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

// -- Elements ------------------------------------------------------------------

// Makes an element; texts become text nodes, so that nothing in them is markup.
function el(tag, attributes, ...children) {
  const svg = ['svg', 'g', 'line', 'circle', 'text', 'path', 'rect', 'polyline', 'title'];
  const e = svg.includes(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag)
    : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {}))
    if (k === 'style') Object.assign(e.style, v);
    else if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v != null && v !== false) e.setAttribute(k, v === true ? '' : v);
  for (const c of children.flat())
    if (c != null) e.append(c);
  return e;
}

const kindNames = ['contraction', 'reduction', 'pointwise', 'move', 'extern', 'unknown'];

// Returns a field of the plan's JSON by its path, as "price.us".
const field = path => path.split('.').reduce((o, k) => (o == null ? o : o[k]), plan);

// Shows a number of the plan's JSON: its path and exact value stay with it.
function num(path, fmt) {
  const v = field(path);
  return el('span', { 'data-json': path, 'data-value': v, title: String(v) }, fmt(v));
}

// -- Which box of its tensors a tile has ---------------------------------------

// Parses an index, such as "2*i+j-1", as {base, coef}; null if it is read from
// a tensor.
function parseIndex(text) {
  const out = { base: 0, coef: {} };
  if (/[[\]]/.test(text)) return null;
  for (const [, sign, number, name] of
    text.replace(/\s/g, '').matchAll(/([+-]?)(\d+(?!\w))?\*?([A-Za-z_]\w*)?/g)) {
    if (number == null && name == null) continue;
    const n = (sign === '-' ? -1 : 1) * (number == null ? 1 : +number);
    if (name == null) out.base += n;
    else out.coef[name] = (out.coef[name] || 0) + n;
  }
  return out;
}

// Returns the range of each variable of an op in one of its tiles.
function tileRanges(op, tile) {
  const ranges = {}, splits = Object.entries(op.divide ? op.divide.splits : {});
  for (const v of op.vars) ranges[v.name] = [v.begin, v.end];
  for (let k = splits.length - 1; k >= 0; k--) {
    const [name, n] = splits[k], r = ranges[name], size = op.divide.slice_sizes[name];
    const slot = tile % n;
    tile = Math.floor(tile / n);
    ranges[name] = [r[0] + slot * size, Math.min(r[1], r[0] + (slot + 1) * size)];
  }
  return ranges;
}

// Returns the box lo..hi per dim of a tensor that an access touches.
function accessBox(m, access, ranges) {
  const shape = m.tensors.get(access.tensor).shape;
  return access.index.map((text, d) => {
    const x = parseIndex(text);
    if (!x) return [0, shape[d]];
    let lo = x.base, hi = x.base;
    for (const [name, c] of Object.entries(x.coef)) {
      const r = ranges[name];
      if (!r) return [0, shape[d]];
      lo += c * (c > 0 ? r[0] : r[1] - 1);
      hi += c * (c > 0 ? r[1] - 1 : r[0]);
    }
    return [Math.max(0, lo), Math.min(shape[d], hi + 1)];
  });
}

// Numbers the cores of a grid row by row, without its holes.
function coreNumbers() {
  const map = new Map(), grid = (plan.machine || {}).core_grid || [0, 0];
  const holes = (plan.machine || {}).holes || [];
  for (let y = 0; y < grid[1]; y++)
    for (let x = 0; x < grid[0]; x++)
      if (!holes.some(h => x >= h[0] && x <= h[2] && y >= h[1] && y <= h[3]))
        map.set(`${x},${y}`, map.size);
  return map;
}
const gridCores = coreNumbers();

// Returns which core has which boxes of an access of an op, as a list of
// {core, box}; null if the page does not know.
function coreBoxes(m, opIndex, access) {
  const op = m.ops[opIndex], gi = m.groupOf[opIndex];
  if (gi < 0 || !op.divide) return null;
  const grid = (m.plan.grid || []).find(g => g.group === gi);
  if (grid && op.write.tensor === grid.tensor) return gridBoxes(m, op, grid, access);
  const deals = m.groups[gi].cores, out = [];
  if (!deals) return null;
  for (const d of deals)
    for (let t = 0; t < d.tiles && out.length < 20000; t++)
      out.push({ core: d.core, box: accessBox(m, access, tileRanges(op, d.first_tile + t)) });
  return out;
}

// Does the same for groups whose tiles go to the cores of a grid.
function gridBoxes(m, op, grid, access) {
  const [mt, nt] = grid.grid_tiles, out = [];
  const rows = plan.machine.tile_rows, cols = plan.machine.tile_cols;
  const dims = op.write.index.length, shape = m.tensors.get(op.write.tensor).shape;
  const push = (core, i, j) => {
    const ranges = {};
    for (const v of op.vars) ranges[v.name] = [v.begin, v.end];
    const set = (d, lo, hi) => { if (d >= 0) ranges[op.write.index[d]] = [lo, Math.min(hi, shape[d])]; };
    set(dims - 2, i * rows, (i + 1) * rows);
    set(dims - 1, j * cols, (j + 1) * cols);
    out.push({ core, box: accessBox(m, access, ranges) });
  };
  for (const r of grid.rows) {
    const core = gridCores.get(r.core_xy.join(','));
    if (r.start_count)
      for (let k = 0; k < r.start_count[1] && out.length < 20000; k++) {
        const at = (r.start_count[0] + k) % (mt * nt);
        const tile = grid.sequence ? grid.sequence[at] : at;
        push(core, Math.floor(tile / nt), tile % nt);
      }
    else if (r.box_mn)
      for (let i = r.box_mn[0]; i < r.box_mn[1]; i++)
        for (let j = r.box_mn[2]; j < r.box_mn[3]; j++) push(core, i, j);
    else if (r.shard)
      for (let i = 0; i < grid.local_shape_tiles[0]; i++)
        for (let j = 0; j < grid.local_shape_tiles[1]; j++)
          push(core, r.shard[0] * grid.local_shape_tiles[0] + i, r.shard[1] * grid.local_shape_tiles[1] + j);
  }
  return out;
}

// -- Selection -----------------------------------------------------------------

// What is selected by click, and what the pointer is on. `m` is the number of a
// model, `op` of an op of it.
const selected = { m: 0, op: null, core: null, pair: null };
const hovered = { m: 0, op: null, core: null };
const views = []; // {part, draw, moves}

let drawWanted = false;
let drawnState = null;
// Draws what has changed before the next frame: all parts if the selection has,
// else those that zoom and pan, which have `moves` set. `all` says that all
// parts look different, as after a change of the theme.
function redraw(all) {
  if (all === true) drawnState = null;
  if (drawWanted) return;
  drawWanted = true;
  requestAnimationFrame(drawNow);
}
function drawNow() {
  const state = JSON.stringify([selected, hovered]), changed = state !== drawnState;
  drawWanted = false;
  drawnState = state;
  for (const v of views) if (changed || v.moves) v.draw();
}
function select(what) {
  if ('m' in what && what.m !== selected.m) Object.assign(selected, { op: null, core: null });
  Object.assign(selected, what);
  const words = [];
  if (isTeam) words.push(`m=${selected.m}`);
  if (selected.op != null) words.push(`op=${selected.op}`);
  if (selected.core != null) words.push(`core=${selected.core}`);
  if (selected.pair) words.push(`pair=${selected.pair.join('-')}`);
  history.replaceState(null, '', '#' + words.join('&'));
  redraw();
}
function readAnchor() {
  const words = Object.fromEntries(location.hash.slice(1).split('&').map(w => w.split('=')));
  const number = (w, end) => (/^\d+$/.test(words[w] || '') && +words[w] < end ? +words[w] : null);
  selected.m = number('m', models.length) || 0;
  selected.op = number('op', models[selected.m].ops.length);
  selected.core = number('core', plan.cores);
  const pair = /^(\d+)-(\d+)$/.exec(words.pair || '');
  selected.pair = pair ? [+pair[1], +pair[2]] : null;
}
function hover(what) {
  const next = Object.assign({ m: selected.m, op: null, core: null }, what);
  if (next.m === hovered.m && next.op === hovered.op && next.core === hovered.core) return;
  Object.assign(hovered, next);
  redraw();
}
// The op that pictures show: the one under the pointer, else the selected one.
function shown() {
  return hovered.op != null ? { m: hovered.m, op: hovered.op } : { m: selected.m, op: selected.op };
}
function shownCore() { return hovered.core != null ? hovered.core : selected.core; }

// Marks a part with what it shows as hovered and selected.
function note(part, found) {
  const s = document.getElementById(part);
  const set = (k, v) => { if (v == null) delete s.dataset[k]; else s.dataset[k] = v; };
  set('hovered', found ? hovered.op : null);
  set('selected', found ? selected.op : null);
}

// Makes an element show and select an op.
function link(e, m, op) {
  e.addEventListener('pointerenter', () => hover({ m, op }));
  e.addEventListener('pointerleave', () => hover({}));
  e.addEventListener('click', () => select({ m, op }));
  e.addEventListener('keydown', k => {
    if (k.key === 'Enter' || k.key === ' ') { k.preventDefault(); select({ m, op }); }
  });
  return e;
}

const tip = document.getElementById('tip');
function showTip(event, text) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const r = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - r.width - 8)) + 'px';
  tip.style.top = (event.clientY + 18 + r.height > innerHeight ? event.clientY - r.height - 10
    : event.clientY + 18) + 'px';
}

// -- Canvases ------------------------------------------------------------------

let printing = false;
const colours = new Map(); // by name, of the present theme
function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim());
  return colours.get(name);
}
function kindColour(op) { return colour(op.kind); }

// The colour of a core: a ramp from dark blue to yellow (cividis), which people
// with any colour vision can order.
const ramp = [[0, 32, 77], [44, 62, 107], [87, 92, 109], [124, 123, 120], [163, 157, 116], [208, 193, 89], [255, 234, 70]];
function coreColour(i, n) {
  const x = n > 1 ? (i / (n - 1)) * (ramp.length - 1) : 1;
  const k = Math.min(Math.floor(x), ramp.length - 2);
  const c = ramp[k].map((a, d) => Math.round(a + (ramp[k + 1][d] - a) * (x - k)));
  return { fill: `rgb(${c.join(',')})`, ink: c[0] * 0.3 + c[1] * 0.6 + c[2] * 0.1 > 120 ? '#111' : '#fff' };
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// Sizes a canvas for the screen and returns its context, in CSS pixels.
function context(canvas, width, height) {
  const ratio = Math.max(window.devicePixelRatio || 1, printing ? 3 : 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + 'px';
  }
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = FONT;
  c.textBaseline = 'middle';
  return c;
}

// Draws a text where it fits, shortened if only a part of it does.
const textWidths = new Map();
function textWidth(c, text) {
  let w = textWidths.get(text);
  if (w == null) {
    if (textWidths.size > 50000) textWidths.clear();
    textWidths.set(text, w = c.measureText(text).width);
  }
  return w;
}
function fitText(c, text, x, y, width) {
  if (width < 8) return;
  const all = textWidth(c, text);
  if (all > width) {
    const fits = Math.floor(text.length * width / all) - 1;
    if (fits < 4) return;
    text = text.slice(0, fits) + '…';
  }
  c.fillText(text, x, y);
}

function hatch(c, x, y, w, h, ink) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.strokeStyle = ink;
  c.lineWidth = 1;
  c.beginPath();
  for (let k = Math.floor((x - h) / 5) * 5; k < x + w; k += 5) {
    c.moveTo(k, y + h);
    c.lineTo(k + h, y);
  }
  c.stroke();
  c.restore();
}

// Lets wheel, drag and keys change the visible part first..last of the axis that
// getAxis returns, which runs from 0 to `end`.
function zoomable(canvas, getAxis, pick) {
  const limit = () => {
    const axis = getAxis();
    const size = Math.min(axis.end, Math.max(axis.last - axis.first, axis.end * 1e-6));
    axis.first = Math.max(0, Math.min(axis.first, axis.end - size));
    axis.last = axis.first + size;
    redraw();
  };
  const all = () => {
    const axis = getAxis();
    axis.first = 0;
    axis.last = axis.end;
    limit();
  };
  const zoom = (factor, at) => {
    const axis = getAxis();
    const p = at == null ? (axis.first + axis.last) / 2 : at;
    axis.first = p + (axis.first - p) * factor;
    axis.last = p + (axis.last - p) * factor;
    limit();
  };
  const pan = share => {
    const axis = getAxis();
    const d = (axis.last - axis.first) * share;
    axis.first += d;
    axis.last += d;
    limit();
  };
  canvas.tabIndex = 0;
  canvas.addEventListener('wheel', e => {
    const zooms = e.ctrlKey || e.metaKey || document.activeElement === canvas;
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
    if (!zooms && !sideways) return;
    e.preventDefault();
    if (sideways) pan((e.deltaX || e.deltaY) / 800);
    else zoom(Math.exp(e.deltaY / 300), getAxis().at(e.offsetX));
  }, { passive: false });
  let drag = null;
  canvas.addEventListener('pointerdown', e => {
    const axis = getAxis();
    drag = { x: e.offsetX, moved: false, first: axis.first, last: axis.last };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener('pointermove', e => {
    if (drag && (drag.moved || Math.abs(e.offsetX - drag.x) > 3)) {
      const axis = getAxis();
      drag.moved = true;
      const d = (drag.x - e.offsetX) / axis.scale();
      axis.first = drag.first + d;
      axis.last = drag.last + d;
      limit();
    } else pick(e, false);
  });
  canvas.addEventListener('pointerup', e => {
    if (drag && !drag.moved) pick(e, true);
    drag = null;
  });
  canvas.addEventListener('pointerleave', () => { showTip(null, ''); hover({}); });
  canvas.addEventListener('keydown', e => {
    const act = { '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1 / 0.7), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
      '0': all, Home: () => pan(-1e9), End: () => pan(1e9) }[e.key];
    if (act) { e.preventDefault(); act(); }
  });
  return { zoom, pan, all };
}

// Returns an axis in which `left` pixels stand for its visible beginning.
function makeAxis(end) {
  return {
    first: 0, last: end, end, left: 0, width: 1,
    scale() { return this.width / (this.last - this.first); },
    x(v) { return this.left + (v - this.first) * this.scale(); },
    at(x) { return this.first + (x - this.left) / this.scale(); },
  };
}

// Returns round steps for about n marks over a length.
function niceStep(length, n) {
  const raw = length / Math.max(n, 1), base = 10 ** Math.floor(Math.log10(raw));
  return base * [1, 2, 5, 10].find(k => k * base >= raw);
}

// -- Tables ----------------------------------------------------------------------

const MOST_ROWS = 2000;

// Makes a table; isNumber says which columns are numbers.
function listTable(names, isNumber, rows) {
  const more = rows.length - MOST_ROWS;
  return el('div', { class: 'scroll' }, el('table', { class: 'list' }, el('thead', {}, el('tr', {}, names.map(t => el('th', { class: isNumber(t) ? 'n' : null }, t)))),
    el('tbody', {}, rows.slice(0, MOST_ROWS))), more > 0 ? el('p', { class: 'hint' }, `${more} more are not listed.`) : null);
}

// Makes a part that is closed at first, and whose content is made when it is
// opened: pages of large plans open sooner.
function lazyList(id, title, make) {
  const part = el('details', { id }, el('summary', {}, title));
  part.make = () => {
    part.make = null;
    part.append(make());
    redraw(true);
  };
  part.addEventListener('toggle', () => { if (part.open && part.make) part.make(); });
  return part;
}

// Marks the rows of a part's tables that show what is pointed at or selected.
function markRows(part, shows) {
  document.querySelectorAll(part + ' tr[data-op]').forEach(tr => {
    tr.classList.toggle('hov', hovered.op != null && shows(hovered, tr));
    tr.classList.toggle('sel', selected.op != null && shows(selected, tr));
  });
}
