// The program's text, and beside each statement the time of its ops; below it
// the facts about the selected op.

// A plan that was read contains its program indented.
const sourceLines = (lines => {
  const indent = Math.min(...lines.filter(l => l.trim()).map(l => l.search(/\S/)));
  return lines.map(l => l.slice(Number.isFinite(indent) ? indent : 0));
})((plan.source || '').replace(/\n$/, '').split('\n'));

// Returns the ops of each line of the text. In a plan that was read, lines are
// found by the name that they define.
function opsByLine(m) {
  const lines = sourceLines.map(() => []), defines = new Map();
  sourceLines.forEach((text, i) => {
    const name = /^\s*(?:extern\s+)?([A-Za-z_]\w*)\s*(?:\[[^=]*\])?\s*(?::\s*\w+\s*)?(?:=|<-)/.exec(text);
    if (name && !/^\s*param\b/.test(text)) defines.set(name[1], [...(defines.get(name[1]) || []), i]);
  });
  let last = null;
  for (let i = m.ops.length - 1; i >= 0; i--) {
    const op = m.ops[i];
    let line = op.line ? op.line - 1 : null;
    if (line == null) {
      const [base, nth] = op.name.split('.');
      const at = defines.get(base);
      line = at ? at[Math.min(at.length - 1, (nth || 1) - 1)] : last;
    }
    last = line;
    if (line != null && lines[line]) lines[line].unshift(i);
  }
  return lines;
}
for (const m of models) m.lines = opsByLine(m);

let programModel = null, programRows = [];

function makeProgram(m) {
  programModel = m;
  programRows = [];
  const sums = m.lines.map(ops => ops.reduce((s, i) => s + (m.opUs[i] || 0), 0));
  const most = Math.max(...sums, 1e-300);
  const rows = sourceLines.map((text, i) => {
    const ops = m.lines[i], comment = text.indexOf('#');
    const code = el('td', { class: 'code mono' }, comment < 0 ? text : [text.slice(0, comment),
      el('span', { class: 'comment' }, text.slice(comment))]);
    const main = ops.reduce((b, o) => ((m.opUs[o] || 0) > (m.opUs[b] || 0) ? o : b), ops[ops.length - 1]);
    if (!ops.length) {
      code.colSpan = 3;
      const plain = el('tr', { 'data-line': i + 1 }, el('td', { class: 'no' }, i + 1), code);
      programRows.push(plain);
      return plain;
    }
    const row = el('tr', { class: 'has', tabindex: 0, 'data-line': i + 1 },
      el('td', { class: 'no' }, i + 1), code,
      el('td', { class: 'us', title: ops.map(o => m.ops[o].name).join(', ') }, m.timeline ? fmtTime(sums[i]) : ''),
      el('td', { class: 'bar' }, sums[i] ? el('i', {
        style: { width: 40 * sums[i] / most + 'px', background: `var(--${m.ops[main].kind})` } }) : ''));
    link(row, m.index, main);
    programRows.push(row);
    return row;
  });
  const body = document.querySelector('#program .body');
  body.replaceChildren(el('table', {}, rows));
  document.querySelector('#program h2').replaceChildren('Program',
    el('small', {}, `${plural(m.ops.length, 'op')} in ${plural(m.groups.length, 'group')}${m.timeline ? ', ' + m.timeline.basis + ' times' : ''}`));
}

let lastScrolled = null;
function drawProgram() {
  const m = models[shown().m];
  if (m !== programModel) makeProgram(m);
  const line = (model, op) => (op == null || model !== m.index ? -1 : m.lines.findIndex(l => l.includes(op)));
  const h = line(hovered.m, hovered.op), s = line(selected.m, selected.op);
  programRows.forEach((r, i) => {
    r.classList.toggle('hov', i === h);
    r.classList.toggle('sel', i === s);
  });
  note('program', h >= 0 || s >= 0);
  if (s >= 0 && lastScrolled !== selected.op) {
    const body = document.querySelector('#program .body'), r = programRows[s];
    if (r.offsetTop < body.scrollTop || r.offsetTop > body.scrollTop + body.clientHeight - 30)
      body.scrollTop = r.offsetTop - body.clientHeight / 2;
  }
  lastScrolled = selected.op;
  drawSelection();
}
views.push({ part: 'program', draw: drawProgram });

const splitText = splits => Object.entries(splits).filter(([, n]) => n > 1).map(([v, n]) => `${v} ${n}`).join(' × ') || 'nothing';

function drawSelection() {
  const { m: mi, op: oi } = shown(), m = models[mi], body = document.querySelector('#selection .body');
  const title = document.querySelector('#selection h2');
  note('selection', oi != null);
  if (oi == null) {
    title.replaceChildren('Selection');
    body.replaceChildren(el('p', { class: 'hint' }, 'Point at an op anywhere on this page to see it in all pictures; click to select it. ↑ and ↓ go from op to op, Esc deselects.'));
    return;
  }
  const op = m.ops[oi], g = m.groups[m.groupOf[oi]], d = op.divide, rows = [];
  const add = (name, value) => { if (value != null && value !== '') rows.push(el('dt', {}, name), el('dd', {}, value)); };
  const schedule = (m.plan.schedule || { ops: [] }).ops[oi];
  const buffer = ((m.plan.scratch || { buffers: [] }).buffers || []).find(b => b.name === op.write.tensor);
  title.replaceChildren(`Op ${oi}: ${op.name}`, el('small', {}, op.kind + (op.reducer ? ', ' + op.reducer : '')));
  add('computes', el('code', {}, op.body));
  if (m.opUs[oi] != null) add('time', `${fmtTime(m.opUs[oi])}, ${fmtShare(m.opUs[oi] / (m.timeline.us || 1))} of the plan`);
  add('work', `${fmtRate(op.flops)}flop, ${fmtBytes(op.bytes)} touched`);
  if (d) {
    add('cut into', `${splitText(d.splits)}: ${plural(d.cores, 'core')}${d.rounds > 1 ? `, ${d.rounds} rounds` : ''}${d.slices === 'uneven' ? ', uneven' : ''}`);
    if (d.reduction_split) add('partial sums', 'over ' + d.reduction_split);
    if (d.runner_up) add('second best', `${splitText(d.runner_up.splits)}, ${fmtTime(d.runner_up.us)} instead of ${fmtTime(d.cost_us)} by itself`);
  }
  if (g) add('group', `${m.groupOf[oi]}, ${plural(g.tiles, 'tile')}${g.price ? `, ${g.price.limit} limits it` : ''}${g.ops.length > 1 ? ', with ' + g.ops.filter(n => n !== op.name).slice(0, 6).join(', ') : ''}`);
  add('reads', op.reads.map(r => r.tensor).filter((n, i, l) => l.indexOf(n) === i).join(', '));
  if (buffer) add('result', buffer.address == null ? `in main memory${buffer.reason ? ': ' + buffer.reason : ''}` : `resident at ${buffer.address}, saves ${fmtBytes(buffer.saved_bytes)}`);
  if (schedule) add('kernel', schedule.text.replace(/^\d+: /, ''));
  body.replaceChildren(el('dl', {}, rows));
}
