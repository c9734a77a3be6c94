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
for (const m of models) {
  m.lines = opsByLine(m);
  m.lineOf = new Array(m.ops.length).fill(-1);
  m.lines.forEach((ops, line) => ops.forEach(op => { m.lineOf[op] = line; }));
}

const CHUNK = 100, LONG = 1000; // lines
let programModel = null, programRows = [];

// The columns are line number, text, and of its ops the number, work and time.
function makeLine(m, i, most) {
  const text = sourceLines[i], ops = m.lines[i], comment = text.indexOf('#'), line = el('div', { class: 'line', 'data-line': i + 1 });
  line.append(el('span', { class: 'no' }, i + 1), el('code', {}, comment < 0 ? text : [text.slice(0, comment),
    el('span', { class: 'comment' }, text.slice(comment))]));
  if (!ops.length) return line;
  const main = ops.reduce((b, o) => ((m.opUs[o] || 0) > (m.opUs[b] || 0) ? o : b), ops[ops.length - 1]);
  const us = ops.reduce((s, o) => s + (m.opUs[o] || 0), 0);
  line.classList.add('has');
  line.setAttribute('role', 'option');
  line.append(el('span', { class: 'n count', title: ops.slice(0, 40).map(o => m.ops[o].name).join(', ') }, ops.length),
    el('span', { class: 'n' }, fmtCount(ops.reduce((s, o) => s + m.ops[o].flops, 0))),
    el('span', { class: 'n us' }, m.timeline ? fmtTime(us) : '',
      us ? el('i', { style: { width: 100 * us / most + '%', background: `var(--${m.ops[main].kind})` } }) : null));
  return link(line, m.index, main);
}

function makeProgram(m) {
  programModel = m;
  const sums = m.lines.map(ops => ops.reduce((s, i) => s + (m.opUs[i] || 0), 0));
  const most = sums.reduce((a, b) => Math.max(a, b), 1e-300);
  programRows = sourceLines.map((_, i) => makeLine(m, i, most));
  const some = m.lines.some(ops => ops.length > 1), body = document.querySelector('#program .body');
  body.classList.toggle('counts', some);
  // Of a long text, browsers lay out and draw only those chunks that are visible.
  const long = programRows.length > LONG;
  const chunks = [];
  for (let i = 0; i < programRows.length; i += CHUNK) {
    const rows = programRows.slice(i, i + CHUNK);
    chunks.push(el('div', { class: long ? 'chunk' : null, role: 'presentation', style: { containIntrinsicSize: `auto ${20 * rows.length}px` } }, rows));
  }
  body.replaceChildren(el('div', { class: 'line titles' }, ['', '', 'ops', 'flop', m.timeline ? 'time' : ''].map(t => el('span', { class: t === 'ops' ? 'n count' : 'n' }, t))),
    el('div', { id: 'lines', role: 'listbox', tabindex: 0, 'aria-label': 'Statements of the program; arrows go from op to op' }, chunks));
  document.querySelector('#program h2').replaceChildren('Program',
    el('small', {}, `${plural(m.ops.length, 'op')} in ${plural(m.groups.length, 'group')}${m.timeline ? ', ' + m.timeline.basis + ' times' : ''}`));
}

const marked = { hov: null, sel: null };
function markLine(name, row) {
  if (marked[name] === row) return;
  if (marked[name]) marked[name].classList.remove(name);
  if (row) row.classList.add(name);
  marked[name] = row;
}

function scrollToLine(line) {
  const body = document.querySelector('#program .body'), top = line.getBoundingClientRect().top - body.getBoundingClientRect().top;
  if (top < 20 || top > body.clientHeight - 30) body.scrollTop += top - body.clientHeight / 2;
}

let lastScrolled = null;
function drawProgram() {
  const m = models[shown().m];
  if (m !== programModel) makeProgram(m);
  const row = s => (s.op == null || s.m !== m.index ? null : programRows[m.lineOf[s.op]] || null);
  const h = row(hovered), s = row(selected);
  markLine('hov', h);
  markLine('sel', s);
  note('program', !!(h || s));
  if (s && lastScrolled !== selected.op) {
    scrollToLine(s);
    // Once more, because lines that become visible may be higher than expected.
    requestAnimationFrame(() => scrollToLine(s));
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
    body.replaceChildren(el('p', { class: 'hint' }, 'Point at an op anywhere on this page to see it in all pictures; click to select it. ↑ and ↓ go from op to op, Esc deselects. In the timeline and the scratchpad + and − zoom, ← and → pan, 0 shows all.'));
    return;
  }
  const op = m.ops[oi], g = m.groups[m.groupOf[oi]], d = op.divide, rows = [];
  const add = (name, value) => { if (value != null && value !== '') rows.push(el('dt', {}, name), el('dd', {}, value)); };
  const schedule = (m.plan.schedule || { ops: [] }).ops[oi];
  const buffer = ((m.plan.scratch || { buffers: [] }).buffers || []).find(b => b.name === op.write.tensor);
  title.replaceChildren(`Op ${oi}: ${op.name}`, el('small', {}, op.kind + (op.reducer ? ', ' + op.reducer : '')));
  if (op.body != null) add('computes', el('code', {}, op.body));
  if (m.opUs[oi] != null) add('time', `${fmtTime(m.opUs[oi])}, ${fmtShare(m.opUs[oi] / (m.timeline.us || 1))} of the plan`);
  if (op.bytes) add('work', `${fmtFlop(op.flops)}, ${fmtBytes(op.bytes)} touched`);
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
