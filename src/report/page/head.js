// The head: the numbers of the whole plan, what limits it, and what would
// change it most.

function fact(name, value, noteText, share) {
  return el('div', { class: 'fact' }, el('div', { class: 'name' }, name),
    el('div', { class: 'value' }, value),
    share == null ? null : el('div', { class: 'meter' },
      el('i', { style: { width: Math.min(100, 100 * share) + '%' } })),
    noteText == null ? null : el('div', { class: 'note' }, noteText));
}

// Says in one sentence what limits the plan.
function limitSentence(m) {
  const byLimit = { compute: 0, memory: 0, ring: 0, launch: 0 };
  if (!m.plan.price) {
    if (isTeam && !m.timeline) return 'This machine has no predicted time.';
    if (!m.timeline) return 'The plan was read, and this machine has no predicted time.';
    const gi = m.timeline.groups.reduce((b, g, i, l) => (g.us > l[b].us ? i : b), 0), ops = m.groups[gi] ? m.groups[gi].ops : [];
    const share = m.timeline.us ? fmtShare(m.timeline.groups[gi].us / m.timeline.us) : '0 %';
    const name = ops.slice(0, 4).join(', ') + (ops.length > 4 ? ' …' : '');
    const roof = roofs(m), point = roofPoints(m).find(p => p.gi === gi);
    if (!roof.measured || !roof.bandwidth || !point) return `Group ${gi} (${name}) takes ${share} of the ${m.timeline.basis} time.`;
    const peak = roof.list[0].rate, memory = point.x * roof.bandwidth;
    return `${memory < peak ? 'Main memory' : 'Arithmetic'} limits it: group ${gi} (${name}) takes ${share} of the time and reaches ${
      fmtShare(point.y / Math.min(peak, memory))} of that limit.`;
  }
  m.groups.forEach((g, i) => {
    const times = m.plan.timeline.groups[i].times;
    byLimit[g.price.limit] += times * (g.price.us - g.price.launch_us);
    byLimit.launch += times * g.price.launch_us;
  });
  const [name, us] = Object.entries(byLimit).sort((a, b) => b[1] - a[1])[0];
  const what = { compute: 'Arithmetic limits it', memory: 'Main memory limits it', ring: 'The ring between cores limits it',
    launch: 'Starting ops and waiting for each other limit it' }[name];
  return `${what}: ${fmtShare(us / m.plan.price.us)} of the time is spent on that, in ${
    plural(name === 'launch' ? m.groups.length : m.groups.filter(g => g.price.limit === name).length, 'group')} of ${m.groups.length}.`;
}

function changesList() {
  if (!data.changes) return null;
  const price = plan.price, list = data.changes.list;
  if (!list) return el('p', { class: 'hint' }, price
    ? 'What would change it most is not known: the program is too large to be planned again for this page, or the plan does not contain it.'
    : 'What would change it most is not known, because this machine has no predicted time.');
  // A plan that was read may be another one than divvy makes: the changes count
  // against that.
  const again = list.find(c => c.kind === 'again'), base = Math.min(price.us, again ? again.us : Infinity);
  const best = list.filter(c => c.us < (c === again ? price.us : base) * (1 - 5e-4)).slice(0, 3);
  const intro = el('h3', {}, 'What would change it most ', el('small', {}, `the best of ${plural(list.length, 'plan')} made for comparison`));
  if (!best.length) return el('div', {}, intro, el('p', {}, 'Nothing that was tried makes it faster.'));
  return el('div', {}, intro, el('ol', {}, best.map(c => {
    const li = el('li', { 'data-change': c.kind, 'data-op': c.op, tabindex: c.op == null ? null : 0 }, `${c.what}: `, el('b', {}, fmtTime(c.us)),
      ` (−${fmtShare(1 - c.us / price.us)}), ${fmtBytes(c.memory_bytes)} of main memory`);
    return c.op == null ? li : link(li, 0, c.op);
  })));
}

// What the predicted time of all groups consists of. The parts overlap: while a
// group computes, it also reads and writes main memory.
function priceBars(m) {
  const p = m.plan.price, path = (m.path ? m.path + '.' : '') + 'price.';
  const parts = [['arithmetic', 'compute_us', 'compute'], ['main memory', 'memory_us', 'memory'],
    ['ring', 'ring_us', 'ring'], ['starting, waiting', 'launch_us', 'wait']].filter(([, k]) => k !== 'ring_us' || plan.machine.ring);
  return el('div', { class: 'bars' }, parts.flatMap(([name, k, c]) => [el('span', { class: 'name' }, name),
    el('span', { class: 'bar' }, el('i', { style: { width: Math.min(100, 100 * p[k] / (p.us || 1)) + '%', background: `var(--${c})` } })),
    el('span', { class: 'n' }, num(path + k, fmtTime))]));
}

function drawHead() {
  const m = models[selected.m], at = p => (m.path ? m.path + '.' : '') + p, s = m.plan.scratch;
  const of = isTeam ? `, rank ${m.ranks[0]}` : '', facts = [];
  if (m.plan.price) {
    const p = m.plan.price;
    facts.push(fact('Predicted time' + of, num(at('price.us'), fmtTime),
      el('span', {}, 'no plan takes less than ', num(at('price.least_us'), fmtTime)), p.least_us / p.us));
  } else if (m.plan.timeline) {
    facts.push(fact('Estimated time' + of, num(at('timeline.us'), fmtTime), 'by the costs of its divisions'));
  }
  if (data.measured && data.measured.seconds)
    facts.push(fact('Measured time', fmtTime(1e6 * data.measured.seconds), `executor ${data.measured.executor}`));
  else if (data.measured && data.measured.counted_us)
    facts.push(fact('By what was counted', fmtTime(data.measured.counted_us), 'while it was simulated'));
  if (s) {
    facts.push(fact('Main memory' + of, num(at('scratch.hbm_bytes'), fmtBytes),
      el('span', {}, 'the least possible is ', num(at('scratch.least_bytes'), fmtBytes)),
      s.hbm_bytes ? s.least_bytes / s.hbm_bytes : 1));
    if (m.plan.timeline) facts.push(fact('Cores busy' + of, num(at('timeline.cores_busy'), fmtShare), `of ${plural(m.plan.cores, 'core')}`, m.plan.timeline.cores_busy));
    if (s.homes.length || !plan.machine.here) facts.push(fact('Peak of a scratchpad', num(at('scratch.peak.bytes'), fmtBytes),
      el('span', {}, 'of ', num(at('scratch.capacity'), fmtBytes)), s.capacity ? s.peak.bytes / s.capacity : 0));
    if (plan.machine.ring) facts.push(fact('Between cores', num(at('scratch.ring_bytes'), fmtBytes), 'along the ring'));
  }
  if (isTeam) facts.push(fact('Between ranks', plan.dist.all_bytes == null ? num('dist.bytes_sent', fmtBytes) : num('dist.all_bytes', fmtBytes),
    `${plural(plan.dist.team, 'rank')}, once each exchange`));
  const host = document.getElementById('head');
  host.replaceChildren(el('div', { class: 'facts' }, facts),
    el('div', { class: 'say' }, el('div', {}, el('p', { id: 'limit' }, limitSentence(m)), m.plan.price ? priceBars(m) : null),
      el('div', { id: 'changes' }, isTeam ? null : changesList())));
}
