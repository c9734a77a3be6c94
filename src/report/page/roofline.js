// The roofline: what the groups compute per second against what they compute
// per byte of main memory, below what the machine can do.

let roofModel = null, roofDots = [];

// Returns the roofs in operations and bytes per second.
function roofs(m) {
  const t = plan.machine || {}, measured = data.measured || {}, list = [];
  if (measured.peak_gflops) return { bandwidth: (measured.copy_gb_per_s || 0) * 1e9, list: [{ name: 'measured peak', rate: measured.peak_gflops * 1e9 }], measured: true };
  if (t.mac_rate) list.push({ name: 'matrix products', rate: 2 * t.mac_rate * m.plan.cores });
  if (t.vector_rate) list.push({ name: 'other ops', rate: t.vector_rate * m.plan.cores });
  return { bandwidth: t.memory_bandwidth || 0, list };
}

// Returns the groups as points: operations per byte and per second.
function roofPoints(m) {
  return m.groups.map((g, gi) => {
    const ops = m.ops.slice(g.first, g.end), t = m.timeline && m.timeline.groups[gi];
    const flops = ops.reduce((s, o) => s + o.flops, 0) * (t ? t.times : 1);
    const inside = new Set(ops.map(o => o.write.tensor));
    // Without a count of the traffic, what the group reads and writes counts.
    const bytes = g.work ? g.work.memory_bytes * t.times
      : ops.reduce((s, o) => s + o.bytes, 0) * (t ? t.times : 1);
    const main = ops.reduce((b, o, k) => ((m.opUs[g.first + k] || 0) > (m.opUs[g.first + b] || 0) ? k : b), 0);
    return { gi, op: g.first + main, kind: ops[main].kind, name: g.ops.length > 1 ? `${g.ops[0]} … ${g.ops[g.ops.length - 1]}` : g.ops[0],
      us: t ? t.us : 0, flops, bytes, inside, x: bytes > 0 ? flops / bytes : null, y: t && t.us > 0 ? flops / (t.us * 1e-6) : null };
  }).filter(p => p.x > 0 && p.y > 0);
}

function makeRoofline(m) {
  roofModel = m;
  roofDots = [];
  const part = document.getElementById('roofline'), body = part.querySelector('.body'), roof = roofs(m);
  const points = roofPoints(m).sort((a, b) => b.us - a.us);
  if (!points.length || (!roof.bandwidth && !roof.list.length)) {
    body.replaceChildren(el('p', { class: 'hint' }, points.length ? 'The rates of this machine are not known; divvy bench --html measures them.' : 'No group has both work and a time.'));
    return;
  }
  const width = 900, height = 330, left = 78, right = 34, top = 14, bottom = 36;
  const highest = Math.max(...roof.list.map(r => r.rate), ...points.map(p => p.y));
  const ridge = roof.bandwidth ? highest / roof.bandwidth : points[0].x;
  const decade = (v, up) => 10 ** (up ? Math.ceil(Math.log10(v) + 1e-9) : Math.floor(Math.log10(v) - 1e-9));
  const x0 = decade(Math.min(...points.map(p => p.x), ridge / 8), false), x1 = decade(Math.max(...points.map(p => p.x), ridge * 3), true);
  const y0 = decade(Math.max(Math.min(...points.map(p => p.y)) / 2, highest * 1e-9), false), y1 = decade(highest, true);
  const X = v => left + (width - left - right) * Math.log(v / x0) / Math.log(x1 / x0);
  const Y = v => height - bottom - (height - top - bottom) * Math.log(Math.max(v, y0) / y0) / Math.log(y1 / y0);
  const svg = el('svg', { viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Roofline of the groups' });
  for (let v = x0; v <= x1 * 1.01; v *= 10)
    svg.append(el('line', { class: 'axis', x1: X(v), x2: X(v), y1: top, y2: height - bottom }), el('text', { class: 'dim', x: X(v), y: height - bottom + 14, 'text-anchor': 'middle' }, fmtCount(v).trim()));
  for (let v = y0; v <= y1 * 1.01; v *= 10)
    svg.append(el('line', { class: 'axis', x1: left, x2: width - right, y1: Y(v), y2: Y(v) }), el('text', { class: 'dim', x: left - 6, y: Y(v) + 4, 'text-anchor': 'end' }, fmtFlop(v) + '/s'));
  svg.append(el('text', { class: 'dim', x: (left + width) / 2, y: height - 4, 'text-anchor': 'middle' }, 'flop per byte of main memory'));
  const stroke = { fill: 'none', stroke: 'var(--dim)', 'stroke-width': 1.5 };
  for (const r of roof.list) {
    const from = roof.bandwidth ? r.rate / roof.bandwidth : x0;
    svg.append(el('line', { ...stroke, x1: X(Math.max(x0, from)), x2: width - right, y1: Y(r.rate), y2: Y(r.rate) }),
      el('text', { x: width - right - 4, y: Y(r.rate) - 5, 'text-anchor': 'end' }, `${r.name}: ${fmtFlop(r.rate)}/s`));
  }
  if (roof.bandwidth) {
    const end = Math.min(x1, highest / roof.bandwidth);
    svg.append(el('line', { ...stroke, x1: X(Math.max(x0, y0 / roof.bandwidth)), y1: Y(Math.max(y0, x0 * roof.bandwidth)), x2: X(end), y2: Y(end * roof.bandwidth) }),
      el('text', { x: X(Math.sqrt(Math.max(x0, y0 / roof.bandwidth) * end)) - 10, y: Y(Math.sqrt(Math.max(y0, x0 * roof.bandwidth) * end * roof.bandwidth)) - 3, 'text-anchor': 'end' }, `${roof.measured ? 'measured copy' : 'main memory'}: ${fmtCount(roof.bandwidth)}B/s`));
  }
  const longest = points[0].us, named = [], labels = [];
  for (const p of points.slice(0, 3000)) {
    const r = 4 + 9 * Math.sqrt(p.us / longest), x = X(p.x), y = Y(p.y);
    const dot = link(el('circle', { class: 'dot', cx: x, cy: y, r, fill: `var(--${p.kind})`, 'fill-opacity': 0.85, tabindex: points.length > 100 ? null : 0, 'data-op': p.op }), m.index, p.op);
    const text = `${p.name}\n${fmtFlop(p.y)}/s, ${digits(p.x, 3)} flop per byte\n${fmtTime(p.us)}`;
    dot.addEventListener('pointermove', e => showTip(e, text));
    dot.addEventListener('pointerleave', () => showTip(null, ''));
    roofDots.push({ dot, gi: p.gi });
    svg.append(dot);
    // Names of the longest groups, where they do not overlap.
    const wide = p.name.length * 6.3, flip = x + r + 4 + wide > width - right, label = { x: flip ? x - r - 4 - wide : x + r + 4, y: y + 4, w: wide };
    if (named.length < 14 && named.every(q => Math.abs(q.y - label.y) > 13 || q.x + q.w < label.x || label.x + label.w < q.x) && label.x > left) {
      named.push(label);
      labels.push(el('text', { x: flip ? x - r - 4 : label.x, y: label.y, 'text-anchor': flip ? 'end' : 'start', 'pointer-events': 'none' }, p.name));
    }
  }
  svg.append(...labels);
  body.replaceChildren(svg);
  part.querySelector('h2').replaceChildren('Roofline', el('small', {}, `a dot is a group, its area the time; ${roof.measured ? 'measured on this machine' : m.timeline.basis + ' times on ' + plan.target}`));
}

function drawRoofline() {
  const m = models[shown().m];
  if (m !== roofModel) makeRoofline(m);
  const is = (s, gi) => s.op != null && s.m === m.index && m.groupOf[s.op] === gi;
  let found = false;
  for (const { dot, gi } of roofDots) {
    const h = is(hovered, gi), s = is(selected, gi);
    dot.classList.toggle('hov', h);
    dot.classList.toggle('sel', s);
    found = found || h || s;
  }
  note('roofline', shown().op != null);
}
views.push({ part: 'roofline', draw: drawRoofline });
