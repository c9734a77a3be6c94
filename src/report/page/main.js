// Starts the page: title, keys, light and dark, the selection of the address.

function makeTitle() {
  const name = baseName(plan), ok = plan.check === 'ok';
  document.title = `${name} on ${plan.target}, divvy`;
  document.getElementById('title').append(name, el('span', {}, ` on ${plan.target}, ${isTeam ? plural(plan.dist.team, 'rank') + ', each ' : ''}${plural(models[0].plan.cores, 'core')}`));
  const v = document.getElementById('verdict');
  v.className = ok ? 'ok' : 'failed';
  v.textContent = ok ? '✓ plan proved' : `✗ check: ${plan.check}`;
  v.title = ok ? 'Every element is written once, every read finds its writer' : 'The checker refused this plan';
  document.getElementById('nav').append(...[...document.querySelectorAll('#pictures > section')].filter(s => !s.hidden)
    .map(s => el('a', { href: '#', onclick: e => { e.preventDefault(); s.scrollIntoView({ behavior: 'smooth' }); } }, s.querySelector('h2').firstChild.textContent)));
}

function makeFoot() {
  const d = plan.digests || {}, lines = [];
  if (data.left_out.length)
    document.querySelector('main').prepend(el('p', { class: 'warn', id: 'left-out' }, `Left out, so that the page is not larger: ${data.left_out.join('; ')}.`));
  lines.push(el('p', {}, `divvy ${data.version}`, data.command ? [' by ', el('code', {}, data.command)] : null),
    el('p', {}, 'program ', el('code', {}, d.program), ' · target ', el('code', {}, d.target),
      ' · options ', el('code', {}, data.options_digest || 'unknown, the plan was read'), ' · plan ', el('code', {}, d.plan)),
    el('p', {}, 'Params: ', Object.entries(plan.params || {}).map(([k, v]) => `${k} = ${v}`).join(', ') || 'none'));
  document.getElementById('foot').replaceChildren(...lines);
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  colours.clear();
  redraw(true);
}

function step(by) {
  const m = models[selected.m];
  if (!m.ops.length) return;
  const op = selected.op == null ? (by > 0 ? 0 : m.ops.length - 1) : Math.max(0, Math.min(m.ops.length - 1, selected.op + by));
  select({ op });
}

document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  const act = { ArrowDown: () => step(1), ArrowUp: () => step(-1), Escape: () => select({ op: null, core: null, pair: null }) }[e.key];
  if (act) { e.preventDefault(); act(); }
});
const darkWish = matchMedia('(prefers-color-scheme: dark)');
darkWish.addEventListener('change', e => setTheme(e.matches));
document.getElementById('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme !== 'dark'));
let themeBeforePrint = false;
addEventListener('beforeprint', () => {
  themeBeforePrint = document.documentElement.dataset.theme === 'dark';
  setTheme(false);
  document.querySelectorAll('details').forEach(d => {
    d.dataset.was = d.open ? 1 : '';
    d.open = true;
    if (d.make) d.make();
  });
  printing = true;
  drawnState = null;
  drawNow();
});
addEventListener('afterprint', () => {
  printing = false;
  document.querySelectorAll('details').forEach(d => { d.open = !!d.dataset.was; });
  setTheme(themeBeforePrint);
});
addEventListener('resize', () => redraw(true));
addEventListener('hashchange', () => { readAnchor(); redraw(); });

// The head shows the model that is shown elsewhere.
let headModel = null;
views.push({ part: 'head', draw: () => {
  if (headModel !== selected.m) { headModel = selected.m; drawHead(); }
} });

document.documentElement.dataset.theme = darkWish.matches ? 'dark' : 'light';
readAnchor();
// Without an anchor the op that takes longest is selected, so that the pictures
// show something.
if (!location.hash) {
  const us = models[0].opUs;
  selected.op = us.length ? us.reduce((b, t, i) => (t > us[b] ? i : b), 0) : null;
  const most = messages.reduce((b, x) => (!b || x.bytes > b.bytes ? x : b), null);
  selected.pair = most && [most.from, most.to];
}
makeTimeline();
makeRanks();
makeCompare();
drawNow();
makeTitle();
makeFoot();
