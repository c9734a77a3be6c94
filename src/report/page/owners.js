// Who owns what: each tensor of the shown op as a grid, coloured by the core
// that has its parts; operands before and after they change hands.

const ownersCache = new Map();
let ownersKey = null, ownersCards = [];

// Returns the dims of a tensor that the picture shows, rows first: those that
// are cut, then the longest.
function shownDims(shape, boxes) {
  const cuts = shape.map((_, d) => new Set(boxes.map(b => b.box[d].join())).size);
  const order = shape.map((_, d) => d).sort((a, b) => (cuts[b] > 1) - (cuts[a] > 1) || shape[b] - shape[a] || b - a);
  const two = order.slice(0, 2).sort((a, b) => a - b);
  return { row: two.length > 1 ? two[0] : null, col: two.length > 1 ? two[1] : two[0],
    hidden: order.slice(2).filter(d => cuts[d] > 1) };
}

// Returns who last wrote a tensor before an op.
function writerBefore(m, opIndex, tensor) {
  for (let i = opIndex - 1; i >= 0; i--) if (m.ops[i].write.tensor === tensor) return i;
  return -1;
}

function boxesOf(m, op, access) {
  const key = `${m.index}/${op}/${access.tensor}/${access.index.join()}`;
  if (!ownersCache.has(key)) {
    if (ownersCache.size > 200) ownersCache.clear();
    ownersCache.set(key, coreBoxes(m, op, access));
  }
  return ownersCache.get(key);
}

// Returns how many cores have a box after that is in none of those that they
// had before.
function coresThatReceive(before, after) {
  const had = new Map(), cores = new Set();
  for (const { core, box } of before) had.set(core, [...(had.get(core) || []), box]);
  const inside = (a, b) => a.every(([lo, hi], d) => lo >= b[d][0] && hi <= b[d][1]);
  for (const { core, box } of after)
    if (!cores.has(core) && !(had.get(core) || []).some(b => inside(box, b))) cores.add(core);
  return cores.size;
}

function makeOwners(m, op) {
  const body = document.querySelector('#owners .body'), head = document.querySelector('#owners h2');
  ownersCards = [];
  if (op == null) {
    head.replaceChildren('Who owns what');
    body.replaceChildren(el('p', { class: 'hint' }, 'Select an op to see which core has which part of its tensors.'));
    return;
  }
  const o = m.ops[op], items = [];
  head.replaceChildren('Who owns what', el('small', {}, 'of the tensors of ', el('b', {}, o.name), isTeam ? `, on ${m.ranks.length > 1 ? 'each of the ranks' : 'rank'} ${m.ranks.join(', ')}` : ''));
  const reads = o.reads.filter((r, i, l) => l.findIndex(x => x.tensor === r.tensor && x.index.join() === r.index.join()) === i);
  // Of several reads of one tensor the first is drawn, as the box of them all.
  const byTensor = new Map();
  for (const r of reads) byTensor.set(r.tensor, [...(byTensor.get(r.tensor) || []), r]);
  for (const [tensor, list] of byTensor) {
    const now = joined(list.map(r => boxesOf(m, op, r)));
    const w = writerBefore(m, op, tensor);
    const before = w >= 0 && m.ops[w].divide ? boxesOf(m, w, m.ops[w].write) : null;
    const moved = before && now && m.plan.cores > 1 ? coresThatReceive(before, now) : 0;
    if (moved) items.push({ tensor, boxes: before, title: `${tensor}, before`, text: `as ${m.ops[w].name} left it` });
    items.push({ tensor, boxes: now, title: tensor + (moved ? ', after' : ''), text: `as ${o.name} reads it`, moved,
      halo: list.length > 1 });
  }
  items.push({ tensor: o.write.tensor, boxes: boxesOf(m, op, o.write), title: o.write.tensor, text: `as ${o.name} writes it` });
  const cards = items.slice(0, 8).map(makeCard.bind(null, m));
  body.replaceChildren(el('div', { class: 'cards' }, cards), items.length > 8 ? el('p', { class: 'hint' }, `${items.length - 8} more operands are not drawn.`) : '',
    el('div', { class: 'keys', id: 'core-key' }));
}

// Joins the boxes of several reads per tile: the smallest box around them.
function joined(lists) {
  if (lists.some(l => !l)) return null;
  return lists[0].map((x, i) => ({ core: x.core, box: x.box.map((r, d) => [Math.min(...lists.map(l => l[i].box[d][0])), Math.max(...lists.map(l => l[i].box[d][1]))]) }));
}

function makeCard(m, item) {
  const t = m.tensors.get(item.tensor), tags = [];
  if (item.moved) tags.push(el('span', { class: 'tag warm' }, `changes hands on ${plural(item.moved, 'core')}`));
  if (item.halo) tags.push(el('span', { class: 'tag' }, 'with halo'));
  const facts = `${t.dtype} [${t.shape.join(', ')}], ${t.role}`;
  const title = el('h3', {}, item.title, ' ', el('span', { class: 'tag' }, item.text), ' ', tags);
  if (!item.boxes || !item.boxes.length)
    return el('div', { class: 'card' }, title, el('p', { class: 'hint' }, facts), el('p', { class: 'hint' }, 'Its parts are not known here.'));
  if (!t.shape.length) return el('div', { class: 'card' }, title, el('p', { class: 'hint' }, facts + ': one element'));
  const dims = shownDims(t.shape, item.boxes);
  const rows = dims.row == null ? 1 : t.shape[dims.row], cols = t.shape[dims.col];
  // The longer side has a fixed length; the shorter one stays readable.
  const long = 200, ratio = Math.max(rows, cols) / Math.min(rows, cols), short = Math.max(dims.row == null ? 34 : 100, long / ratio);
  const width = cols >= rows ? long : short, height = dims.row == null ? 34 : cols >= rows ? short : long;
  const hiddenAt = dims.hidden.map(d => [d, item.boxes[0].box[d].join()]);
  const drawn = item.boxes.filter(b => hiddenAt.every(([d, k]) => b.box[d].join() === k));
  const parts = new Map();
  for (const b of drawn) {
    const k = JSON.stringify(b.box);
    if (!parts.has(k)) parts.set(k, { box: b.box, cores: new Set() });
    parts.get(k).cores.add(b.core);
  }
  const whole = new Set(item.boxes.map(b => JSON.stringify(b.box))).size === 1 && item.boxes.length > 1;
  const canvas = el('canvas', { style: { width: width + 'px' }, role: 'img', 'aria-label': `${item.title}: which core has which part` });
  const card = { m, canvas, drawn, parts: [...parts.values()], dims, shape: t.shape, width, height, rows, cols, whole, tensor: item.tensor };
  canvas.addEventListener('pointermove', e => pickOwner(card, e, false));
  canvas.addEventListener('pointerleave', () => { showTip(null, ''); hover({}); });
  canvas.addEventListener('click', e => pickOwner(card, e, true));
  ownersCards.push(card);
  const shares = [...parts.values()].map(p => p.cores.size), least = Math.min(...shares), most = Math.max(...shares);
  const notes = [!whole && most > 1 ? `each part on ${least === most ? most : `${least} to ${most}`} cores` : null, whole ? `all ${item.boxes.length} cores have the same part` : null,
    hiddenAt.length ? `shown: ${hiddenAt.map(([d, k]) => `dim ${d} at ${k.replace(',', '..')}`).join(', ')}` : null].filter(Boolean).join('; ');
  return el('div', { class: 'card' }, title, canvas, el('p', { class: 'hint' }, facts, notes ? el('br') : null, notes));
}

function boxRect(card, box) {
  const [c0, c1] = box[card.dims.col], [r0, r1] = card.dims.row == null ? [0, 1] : box[card.dims.row];
  const fx = card.width / card.cols, fy = card.height / card.rows;
  return { x: c0 * fx, y: r0 * fy, w: (c1 - c0) * fx, h: (r1 - r0) * fy };
}

function drawOwners() {
  const now = shown(), m = models[now.m], key = `${now.m}/${now.op}`;
  if (key !== ownersKey) { ownersKey = key; makeOwners(m, now.op); }
  const core = shownCore(), n = m.plan.cores;
  for (const card of ownersCards) {
    const c = context(card.canvas, card.width, card.height);
    for (const { box, cores } of card.parts) {
      const r = boxRect(card, box), one = cores.size === 1 ? [...cores][0] : null;
      // Parts that several cores have show how many these are.
      const ink = one != null ? coreColour(one, n) : { fill: colour('faint'), ink: colour('text') };
      const text = card.whole ? 'every core' : one != null ? String(one) : `×${cores.size}`;
      c.globalAlpha = core != null && !cores.has(core) ? 0.4 : 1;
      c.fillStyle = ink.fill;
      c.fillRect(r.x, r.y, Math.max(0.5, r.w - (r.w > 5 ? 1 : 0)), Math.max(0.5, r.h - (r.h > 5 ? 1 : 0)));
      if (one == null && r.w > 3 && r.h > 3) {
        c.strokeStyle = colour('line');
        c.strokeRect(r.x + 0.5, r.y + 0.5, r.w - 1, r.h - 1);
      }
      if (r.h > 11 && c.measureText(text).width < r.w - 1) {
        c.fillStyle = ink.ink;
        c.textAlign = 'center';
        c.fillText(text, r.x + r.w / 2, r.y + r.h / 2);
        c.textAlign = 'left';
      } else if (r.h > 26 && r.w > 9) {
        c.save();
        c.translate(r.x + r.w / 2, r.y + r.h / 2);
        c.rotate(-Math.PI / 2);
        c.fillStyle = ink.ink;
        c.textAlign = 'center';
        c.fillText(text, 0, 0);
        c.restore();
      }
      c.globalAlpha = 1;
    }
    if (card.drawn.length && core != null)
      for (const { core: k, box } of card.drawn)
        if (k === core) {
          const r = boxRect(card, box);
          // Elements that other cores have as well are its halo.
          for (const other of card.drawn) {
            if (other.core === core || card.whole) continue;
            const q = boxRect(card, other.box), x0 = Math.max(r.x, q.x), y0 = Math.max(r.y, q.y), x1 = Math.min(r.x + r.w, q.x + q.w), y1 = Math.min(r.y + r.h, q.y + q.h);
            if (x1 - x0 > 0 && y1 - y0 > 0) hatch(c, x0, y0, x1 - x0, y1 - y0, colour('ring'));
          }
          c.strokeStyle = colour('ring');
          c.lineWidth = 2;
          c.strokeRect(r.x + 1, r.y + 1, Math.max(2, r.w - 2), Math.max(2, r.h - 2));
          c.lineWidth = 1;
        }
  }
  note('owners', now.op != null);
}
views.push({ part: 'owners', draw: drawOwners });

function pickOwner(card, e, click) {
  const hits = card.drawn.filter(b => {
    const r = boxRect(card, b.box);
    return e.offsetX >= r.x && e.offsetX < r.x + r.w && e.offsetY >= r.y && e.offsetY < r.y + r.h;
  });
  if (!hits.length) { showTip(e, ''); hover({}); return; }
  const cores = [...new Set(hits.map(h => h.core))];
  showTip(e, `${card.tensor} [${fmtBox(hits[0].box)}]\n${card.whole ? 'every core' : cores.length > 4 ? plural(cores.length, 'core') : cores.map(c => `core ${c}`).join(', ')}`);
  if (card.whole) return;
  if (click) select({ core: selected.core === cores[0] ? null : cores[0] });
  else if (selected.op != null) hover({ m: selected.m, op: selected.op, core: cores[0] });
  else hover({ m: hovered.m, op: hovered.op, core: cores[0] });
}
