// Between ranks: the bytes that each rank sends to each other, and the boxes of
// their messages on the tensor that they are parts of.

const dist = plan.dist || null;
const messages = !dist ? [] : dist.all_messages || (dist.messages || []).map(x => ({ from: x.from == null ? dist.rank : x.from, to: x.to == null ? dist.rank : x.to, ...x }));
// The messages of each exchange, which is of one tensor before one op.
const exchanges = [...messages.reduce((map, x) => map.set(`${x.op} ${x.tensor}`, [...(map.get(`${x.op} ${x.tensor}`) || []), x]), new Map()).values()];
const matrixCells = new Map();

// A number of bytes for a small cell, as 2.7K.
function shortBytes(b) {
  const units = ['', 'K', 'M', 'G', 'T'];
  let u = 0;
  while (b >= 1000 && u < 4) { b /= 1024; u++; }
  return digits(b, 2) + units[u];
}

function makeRanks() {
  const part = document.getElementById('ranks'), body = part.querySelector('.body');
  part.hidden = !dist;
  if (!dist) return;
  const sums = new Map();
  for (const x of messages) sums.set(`${x.from}-${x.to}`, (sums.get(`${x.from}-${x.to}`) || 0) + x.bytes);
  const most = Math.max(1, ...sums.values()), n = dist.team;
  part.querySelector('h2').replaceChildren('Between ranks', el('small', {}, `a grid of ${dist.grid.join(' × ')}; bytes of one exchange each, rows send to columns`));
  if (n > 64) {
    body.replaceChildren(el('p', { class: 'hint' }, `For ${n} ranks the messages of rank ${dist.rank} are listed: ${plural(messages.length, 'message')}, ${fmtBytes(dist.bytes_sent)} sent.`), messageList(messages));
    return;
  }
  const table = el('table', { class: 'matrix' }, el('thead', {}, el('tr', {}, el('th', {}, 'from \\ to'), [...Array(n).keys()].map(r => el('th', {}, r)))),
    el('tbody', {}, [...Array(n).keys()].map(from => el('tr', {}, el('th', {}, from), [...Array(n).keys()].map(to => {
      const bytes = sums.get(`${from}-${to}`) || 0;
      if (!bytes) return el('td', {}, from === to ? '·' : '');
      const share = Math.round(18 + 70 * bytes / most);
      const td = el('td', { class: 'some', tabindex: 0, 'data-pair': `${from}-${to}`, title: `${from} to ${to}: ${bytes} bytes`,
        style: { background: `color-mix(in srgb, var(--ring) ${share}%, var(--card))` } }, shortBytes(bytes));
      const act = () => select({ pair: [from, to] });
      td.addEventListener('click', act);
      td.addEventListener('keydown', k => { if (k.key === 'Enter') act(); });
      matrixCells.set(`${from}-${to}`, td);
      return td;
    })))));
  body.replaceChildren(el('div', { id: 'ranks-two' }, el('div', { class: 'wide' }, table), el('div', { id: 'message' })));
}

function messageList(list) {
  return el('table', { class: 'list' }, el('thead', {}, el('tr', {}, ['tensor', 'before op', 'box', 'bytes'].map(t => el('th', {}, t)))),
    el('tbody', {}, list.slice(0, 60).map(x => el('tr', {}, el('td', {}, x.tensor), el('td', {}, x.op),
      el('td', {}, fmtBox(x.box.map(([o, s]) => [o, o + s]))), el('td', { class: 'n' }, fmtBytes(x.bytes))))));
}

// Draws the parts of a tensor that ranks own, and the boxes of messages.
function messagePicture(tensor, list, from, to) {
  const shape = plan.tensors.find(t => t.name === tensor).shape, owners = (dist.owners || {})[tensor];
  if (!owners || shape.length === 0) return null;
  const boxes = owners.map((b, rank) => ({ core: rank, box: b.map(([o, s]) => [o, o + s]) }));
  const dims = shownDims(shape, boxes), rows = dims.row == null ? 1 : shape[dims.row], cols = shape[dims.col];
  const W = 300, H = dims.row == null ? 40 : Math.max(60, Math.min(240, W * rows / cols));
  const rect = box => {
    const [c0, c1] = box[dims.col], [r0, r1] = dims.row == null ? [0, 1] : box[dims.row];
    return { x: W * c0 / cols, y: H * r0 / rows, width: W * (c1 - c0) / cols, height: H * (r1 - r0) / rows };
  };
  const svg = el('svg', { viewBox: `-2 -2 ${W + 4} ${H + 4}`, style: { maxWidth: W + 'px' }, role: 'img', 'aria-label': `${tensor}: parts of ranks and boxes of messages` });
  for (const { core, box } of boxes) {
    const r = rect(box), own = core === from || core === to;
    svg.append(el('rect', { ...r, fill: own ? coreColour(core, dist.team).fill : 'var(--faint)', 'fill-opacity': own ? 0.75 : 1, stroke: 'var(--card)' }),
      el('text', { x: r.x + r.width / 2, y: r.y + r.height / 2 + 4, 'text-anchor': 'middle', style: own ? { fill: coreColour(core, dist.team).ink } : {} }, core));
  }
  for (const x of list) {
    const r = rect(x.box.map(([o, s]) => [o, o + s]));
    // A box of few rows would be thinner than a line.
    const w = Math.max(3, r.width), h = Math.max(3, r.height);
    svg.append(el('rect', { x: r.x - (w - r.width) / 2, y: r.y - (h - r.height) / 2, width: w, height: h, fill: 'var(--ring)' }));
  }
  return el('div', {}, el('h3', {}, tensor), svg);
}

let messageKey = null;
function drawRanks() {
  if (!dist) return;
  const pair = selected.pair, key = pair ? pair.join('-') : null, line = lineOfShown();
  for (const [k, td] of matrixCells) {
    td.classList.toggle('sel', k === key);
    // Fade what the shown op does not exchange.
    const [from, to] = k.split('-').map(Number);
    td.style.opacity = line == null || messages.some(x => x.from === from && x.to === to && opLines.get(x.op) === line) ? 1 : 0.35;
  }
  note('ranks', shown().op != null);
  const host = document.getElementById('message');
  if (!host || key === messageKey) return;
  messageKey = key;
  if (!pair) {
    host.replaceChildren(el('p', { class: 'hint' }, 'Select a cell to see the boxes that travel.'));
    return;
  }
  const list = messages.filter(x => x.from === pair[0] && x.to === pair[1]);
  host.replaceChildren(el('h3', {}, `rank ${pair[0]} to rank ${pair[1]}`), ...[...new Set(list.map(x => x.tensor))].slice(0, 4)
    .map(t => messagePicture(t, list.filter(x => x.tensor === t), pair[0], pair[1]) || ''), messageList(list));
}
views.push({ part: 'ranks', draw: drawRanks });

// Ops of the team's program by line of the text, to link them with the ops of
// ranks, which compute parts of them.
const opLines = new Map((plan.ops || []).map(o => [o.name, o.line || null]));
function lineOfShown() {
  const s = shown();
  return s.op == null ? null : models[s.m].ops[s.op].line || null;
}
