// Two plans side by side: what is different between this plan and another.

// Returns per op what a plan decided, as text.
function decisions(p) {
  const out = new Map(), group = new Map();
  (p.groups || []).forEach(g => g.ops.forEach(n => group.set(n, g.ops)));
  const at = new Map(), us = new Map();
  let i = 0;
  (p.groups || []).forEach((g, gi) => g.ops.forEach((n, k) => us.set(n, p.timeline ? p.timeline.groups[gi].op_us[k] : null)));
  for (const b of (p.scratch || { buffers: [] }).buffers || []) at.set(b.name, b.address == null ? 'main memory' : 'resident');
  for (const h of (p.scratch || { homes: [] }).homes || []) at.set(h.name, 'resident');
  for (const o of p.ops || []) {
    const g = group.get(o.name) || [];
    out.set(o.name, { index: i++, splits: o.divide ? splitText(o.divide.splits) : '', group: g.length > 1 ? `${g[0]} … ${g[g.length - 1]}` : 'alone',
      place: at.get(o.write.tensor) || 'main memory', us: us.get(o.name) });
  }
  return out;
}

function delta(a, b, fmt) {
  if (a == null || b == null) return el('td', { class: 'n' }, '–');
  const d = b - a;
  if (Math.abs(d) <= 1e-9 * Math.abs(a)) return el('td', { class: 'n' }, 'the same');
  return el('td', { class: 'n ' + (d < 0 ? 'better' : 'worse') }, `${d < 0 ? '−' : '+'}${fmt(Math.abs(d))}${a ? ` (${d < 0 ? '−' : '+'}${fmtShare(Math.abs(d / a))})` : ''}`);
}

function makeCompare() {
  const part = document.getElementById('compare'), other = data.other;
  part.hidden = !other;
  if (!other) return;
  const get = (p, path) => path.split('.').reduce((o, k) => (o == null ? o : o[k]), p);
  const facts = [['time', 'timeline.us', fmtTime], ['compute', 'price.compute_us', fmtTime], ['main memory, time', 'price.memory_us', fmtTime],
    ['ring, time', 'price.ring_us', fmtTime], ['launch', 'price.launch_us', fmtTime], ['main memory', 'scratch.hbm_bytes', fmtBytes],
    ['between cores', 'scratch.ring_bytes', fmtBytes], ['peak of a scratchpad', 'scratch.peak.bytes', fmtBytes], ['groups', 'groups.length', String],
    ['cores', 'cores', String], ['bytes between ranks', 'dist.all_bytes', fmtBytes]].filter(([, p]) => get(plan, p) != null || get(other, p) != null);
  const head = names => el('thead', {}, el('tr', {}, names.map(n => el('th', { class: ['A', 'B', 'B against A', 'time'].includes(n) ? 'n' : null }, n))));
  const show = (v, fmt) => el('td', { class: 'n' }, v == null ? '–' : fmt(v));
  const a = decisions(plan), b = decisions(other), rows = [];
  for (const n of new Set([...a.keys(), ...b.keys()])) {
    const x = a.get(n), y = b.get(n);
    const differs = k => !x || !y || x[k] !== y[k];
    if (!['splits', 'group', 'place'].some(differs) && !(x && y && Math.abs((x.us || 0) - (y.us || 0)) > 1e-9 * (x.us || 1))) continue;
    const both = k => el('td', {}, differs(k) ? [el('span', {}, x ? x[k] : '–'), ' → ', el('b', {}, y ? y[k] : '–')] : el('span', { class: 'hint' }, x[k]));
    const row = el('tr', { 'data-op': x ? x.index : null, tabindex: 0 }, el('td', {}, n), both('splits'), both('group'), both('place'), delta(x && x.us, y && y.us, fmtTime));
    rows.push(x && !isTeam ? link(row, 0, x.index) : row);
  }
  part.querySelector('h2').replaceChildren('Side by side', el('small', {}, `A is this plan (${baseName(plan)}, ${plan.target}), B the other one (${baseName(other)}, ${other.target})`));
  part.querySelector('.body').replaceChildren(
    el('table', { class: 'list', id: 'compare-facts' }, head(['', 'A', 'B', 'B against A']), el('tbody', {}, facts.map(([name, p, fmt]) =>
      el('tr', {}, el('td', {}, name), show(get(plan, p), fmt), show(get(other, p), fmt), delta(get(plan, p), get(other, p), fmt))))),
    el('p', { class: 'hint' }, rows.length ? `${plural(rows.length, 'op')} differ${rows.length === 1 ? 's' : ''}:` : 'Every op is divided, grouped and kept alike.'),
    rows.length ? el('div', { class: 'scroll' }, el('table', { class: 'list', id: 'compare-ops' }, head(['op', 'cut into', 'group', 'result', 'time']), el('tbody', {}, rows.slice(0, 2000)))) : '');
}

views.push({ part: 'compare', draw: () => {
  markRows('#compare', (s, tr) => s.op === +tr.dataset.op);
  if (data.other) note('compare', shown().op != null);
} });
