// Who owns what: each tensor of the shown op as a grid, coloured by the core
// that has its parts; operands before and after they change hands; for teams
// also the parts of ranks, with what the shown rank wants of others.

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

const CARD = { width: 184, height: 150, short: 96, flat: 34 };

// Returns the size of a picture of rows x cols elements: it fits into a card, and
// its shorter side stays readable.
function cardSize(rows, cols, flat) {
  if (flat) return { width: CARD.width, height: CARD.flat };
  const scale = Math.min(CARD.width / cols, CARD.height / rows);
  return { width: Math.max(CARD.short, cols * scale), height: Math.max(CARD.short, rows * scale) };
}

// Returns a height for all cards of a model, so that what is below does not move
// while the pointer goes from op to op.
function ownersHeight(m) {
  let most = CARD.flat;
  const tensors = [...m.tensors.values(), ...(isTeam ? plan.tensors : [])];
  for (const { shape } of tensors)
    for (let row = 0; row < shape.length; row++)
      for (let col = row + 1; col < shape.length; col++) most = Math.max(most, cardSize(shape[row], shape[col]).height);
  return most + 92;
}

function makeOwners(m, op) {
  const body = document.querySelector('#owners .body'), head = document.querySelector('#owners h2');
  ownersCards = [];
  body.style.height = ownersHeight(m) + 'px';
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
  if (isTeam) cards.unshift(...rankCards(m, o));
  body.replaceChildren(el('div', { class: 'cards' }, cards), items.length > 8 ? el('p', { class: 'hint' }, `${items.length - 8} more operands are not drawn.`) : '');
  head.append(coreKey(isTeam ? dist.team : m.plan.cores, isTeam ? 'rank' : 'core'));
}

// The colours of cores or ranks, from the first to the last.
function coreKey(n, word) {
  if (n < 2) return '';
  const stops = [...Array(9).keys()].map(i => coreColour(i * (n - 1) / 8, n).fill).join(', ');
  return el('span', { class: 'keys' }, el('span', { class: 'key' }, `${word} 0 `, el('i', { class: 'ramp', style: { background: `linear-gradient(90deg, ${stops})` } }), ` ${n - 1}`),
    el('span', { class: 'key' }, el('i', { class: 'shared' }), `of several ${word}s`),
    el('span', { class: 'key' }, el('i', { class: 'wanted' }), isTeam ? 'wanted by this rank' : 'halo, shared with others'));
}

// The parts of ranks of the team's tensors that an op uses, and the boxes that
// the shown rank wants of others.
function rankCards(m, o) {
  const rank = m.ranks[0];
  return [...new Set([o.write.tensor, ...o.reads.map(r => r.tensor)])].flatMap(name => {
    const owners = (dist.owners || {})[name], t = plan.tensors.find(x => x.name === name);
    if (!owners || !t || !t.shape.length) return [];
    const boxes = owners.map((b, core) => ({ core, box: b.map(([lo, n]) => [lo, lo + n]) }));
    const wants = messages.filter(x => x.to === rank && x.tensor === name).map(x => x.box.map(([lo, n]) => [lo, lo + n]));
    return [makeCard(m, { tensor: name, t, boxes, n: dist.team, wants, word: 'rank', title: name, text: 'owned by ranks' })];
  });
}

// Joins the boxes of several reads per tile: the smallest box around them.
function joined(lists) {
  if (lists.some(l => !l)) return null;
  return lists[0].map((x, i) => ({ core: x.core, box: x.box.map((r, d) => [Math.min(...lists.map(l => l[i].box[d][0])), Math.max(...lists.map(l => l[i].box[d][1]))]) }));
}

function makeCard(m, item) {
  const t = item.t || m.tensors.get(item.tensor);
  if (!t) return el('div', { class: 'card' }, el('h3', {}, item.title), el('p', { class: 'hint' }, 'left out of this page'));
  const facts = `${t.dtype} [${t.shape.join(', ')}], ${t.role}`;
  const title = el('div', {}, el('h3', { title: item.title }, item.title), el('p', { class: 'tags hint', title: item.text }, item.text));
  if (!item.boxes || !item.boxes.length)
    return el('div', { class: 'card' }, title, el('p', { class: 'hint' }, facts), el('p', { class: 'hint' }, 'Its parts are not known here.'));
  if (!t.shape.length) return el('div', { class: 'card' }, title, el('p', { class: 'hint' }, facts + ': one element'));
  const dims = shownDims(t.shape, item.boxes);
  const rows = dims.row == null ? 1 : t.shape[dims.row], cols = t.shape[dims.col];
  const { width, height } = cardSize(rows, cols, dims.row == null);
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
  const card = { m, canvas, drawn, parts: [...parts.values()], dims, shape: t.shape, width, height, rows, cols, whole, tensor: item.tensor,
    n: item.n || m.plan.cores, wants: item.wants || [], word: item.word || 'core' };
  canvas.addEventListener('pointermove', e => pickOwner(card, e, false));
  canvas.addEventListener('pointerleave', () => { showTip(null, ''); hover({}); });
  canvas.addEventListener('click', e => pickOwner(card, e, true));
  ownersCards.push(card);
  const shares = [...parts.values()].map(p => p.cores.size), least = Math.min(...shares), most = Math.max(...shares);
  const notes = [item.moved ? el('span', { class: 'tag warm' }, `changes hands on ${plural(item.moved, 'core')}`) : null,
    item.halo ? el('span', { class: 'tag' }, 'with halo') : null,
    card.wants.length ? `rank ${m.ranks[0]} wants ${card.wants.length === 1 ? '1 box' : card.wants.length + ' boxes'}` : null, !whole && most > 1 ? `each part on ${least === most ? most : `${least} to ${most}`} ${card.word}s` : null, whole ? `all ${item.boxes.length} ${card.word}s have the same part` : null,
    hiddenAt.length ? `shown: ${hiddenAt.map(([d, k]) => `dim ${d} at ${k.replace(',', '..')}`).join(', ')}` : null].filter(Boolean);
  return el('div', { class: 'card' }, title, canvas, el('p', { class: 'hint' }, facts), el('p', { class: 'hint notes' }, notes.flatMap((n, i) => (i ? ['; ', n] : [n]))));
}

function boxRect(card, box) {
  const [c0, c1] = box[card.dims.col], [r0, r1] = card.dims.row == null ? [0, 1] : box[card.dims.row];
  const fx = card.width / card.cols, fy = card.height / card.rows;
  return { x: c0 * fx, y: r0 * fy, w: (c1 - c0) * fx, h: (r1 - r0) * fy };
}

function drawOwners() {
  const now = shown(), m = models[now.m], key = `${now.m}/${now.op}`;
  if (key !== ownersKey) { ownersKey = key; makeOwners(m, now.op); }
  for (const card of ownersCards) {
    const core = card.word === 'rank' ? m.ranks[0] : shownCore(), n = card.n;
    const c = context(card.canvas, card.width, card.height);
    for (const { box, cores } of card.parts) {
      const r = boxRect(card, box), one = cores.size === 1 ? [...cores][0] : null;
      // Parts that several cores have show how many these are.
      const ink = one != null ? coreColour(one, n) : { fill: colour('faint'), ink: colour('text') };
      const text = card.whole ? `every ${card.word}` : one != null ? String(one) : `×${cores.size}`;
      c.globalAlpha = core != null && card.word === 'core' && !cores.has(core) ? 0.55 : 1;
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
          for (const want of card.wants) {
            const q = boxRect(card, want), x = Math.min(q.x, card.width - 3), y = Math.min(q.y, card.height - 3);
            c.fillStyle = colour('ring');
            c.fillRect(x, y, Math.max(3, q.w), Math.max(3, q.h));
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
  showTip(e, `${card.tensor} [${fmtBox(hits[0].box)}]\n${card.whole ? `every ${card.word}` : cores.length > 4 ? plural(cores.length, card.word) : cores.map(c => `${card.word} ${c}`).join(', ')}`);
  if (card.whole) return;
  if (card.word === 'rank') { // a click shows the plan of this rank
    if (click) select({ m: models.findIndex(x => x.ranks.includes(cores[0])) });
    return;
  }
  if (click) select({ core: selected.core === cores[0] ? null : cores[0] });
  else if (selected.op != null) hover({ m: selected.m, op: selected.op, core: cores[0] });
  else hover({ m: hovered.m, op: hovered.op, core: cores[0] });
}
