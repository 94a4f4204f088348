'use strict';
// The page's own script: the table of rollouts, and the details of one, which
// are unpacked when they are looked at. All that records hold is untrusted and
// goes in as text.
const rows = JSON.parse(document.getElementById('rows').textContent) || [];
const byId = new Map(rows.map(r => [r.id, r]));
const $ = id => document.getElementById(id);

function el(tag, props, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k === 'class') e.className = v; else if (k === 'style') e.style.cssText = v; else e[k] = v;
  }
  for (const kid of kids) if (kid !== null && kid !== undefined && kid !== '') e.append(kid);
  return e;
}
const num = n => Number(n).toLocaleString('en');
const secs = s => s < 1 ? Math.round(s * 1000) + 'ms' : s < 60 ? s.toFixed(1) + 's' : Math.floor(s / 60) + 'm' + Math.round(s % 60) + 's';

// --- the table of all rollouts

const columns = [
  ['instance', r => r.instance], ['outcome', r => r.outcome + (r.code ? ' ' + r.code : '')], ['reward', r => r.class ? '' : r.reward],
  ['time', r => r.seconds, secs], ['turns', r => r.turns], ['trained', r => r.trained, num], ['length', r => r.length, num],
  ['sequences', r => r.segments], ['split by', r => r.splits], ['attempt', r => r.attempt], ['mode', r => r.mode], ['started', r => r.start, s => s.slice(0, 19).replace('T', ' ')],
];
const chunk = 100; // table rows made at once
let shown = rows, made = 0, sorted = -1, up = true;

function head() {
  const tr = $('all').tHead.rows[0];
  columns.forEach(([name], i) => tr.append(el('th', {textContent: name, onclick() {
    up = sorted === i ? !up : true; sorted = i; list();
  }})));
}
function list() {
  const words = $('find').value.toLowerCase().split(/\s+/).filter(w => w);
  shown = rows.filter(r => {
    const text = [r.instance, r.outcome, r.class, r.code, r.stage, r.splits, r.mode, r.message].join(' ').toLowerCase();
    return words.every(w => text.includes(w));
  });
  if (sorted >= 0) {
    const key = columns[sorted][1];
    shown.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (up ? 1 : -1));
  }
  $('all').tBodies[0].replaceChildren();
  made = 0;
  $('found').textContent = num(shown.length) + ' of ' + num(rows.length);
  grow();
}
function grow() {
  const body = $('all').tBodies[0];
  for (const r of shown.slice(made, made + chunk)) {
    const tr = el('tr');
    columns.forEach(([name, key, show], i) => {
      const text = show ? show(key(r)) : String(key(r));
      const td = el('td', {class: typeof key(r) === 'number' ? 'n' : ''});
      if (i === 0) td.append(el('a', {href: '#r=' + r.id, textContent: text})); else td.textContent = text;
      if (i === 1) { td.title = r.message; if (r.class) td.className = 'bad'; else if (r.outcome === 'solved') td.className = 'good'; }
      tr.append(td);
    });
    body.append(tr);
  }
  made = Math.min(made + chunk, shown.length);
  $('more').replaceChildren(made < shown.length ? el('button', {textContent: 'show more', onclick: grow}) : '');
}
if (rows.length) {
  head(); list();
  $('find').oninput = list;
  new IntersectionObserver(e => { if (e[0].isIntersecting && made < shown.length) grow(); }).observe($('more'));
}

// --- one rollout

let current = null; // {id, rec}

async function unpack(id) {
  const packed = $('d' + id);
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed.textContent), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}
const views = {conversation, tree, tokens, time: timing, patch, grading, row: rowView};

async function route() {
  const at = new URLSearchParams(location.hash.slice(1));
  const one = $('one');
  if (!at.has('r')) { one.hidden = true; $('run').hidden = false; current = null; return; }
  const id = Number(at.get('r')), r = byId.get(id);
  $('run').hidden = true; one.hidden = false;
  if (!r) { one.replaceChildren(el('p', {}, el('a', {href: '#', textContent: '← all rollouts'})), el('p', {textContent: 'There is no such rollout in this page.'})); return; }
  if (!current || current.id !== id) {
    one.replaceChildren(el('p', {textContent: 'Unpacking …'}));
    try { current = {id, rec: await unpack(id)}; }
    catch (e) { one.replaceChildren(el('p', {class: 'bad', textContent: 'The details could not be unpacked: ' + e})); return; }
    scrollTo(0, 0);
  }
  const view = at.get('v') in views ? at.get('v') : 'conversation';
  const nav = el('nav', {}, ...Object.keys(views).map(v => el('a', {href: `#r=${id}&v=${v}`, class: v === view ? 'on' : '', textContent: v})));
  const body = el('div', {id: 'view'});
  one.replaceChildren(el('p', {}, el('a', {href: '#', textContent: '← all rollouts'})), summary(r), nav, body);
  if (!current.rec) { body.append(el('p', {textContent: 'The details were left out of this page for its size: make it with a higher -max-mb, or of one run with -id.'})); return; }
  if (current.rec.omitted) body.append(el('p', {class: 'warn', textContent: 'The record was not kept whole: it was too big, or held what JSON cannot. It was written without: ' + current.rec.omitted.join(', ')}));
  views[view](current.rec, body, at);
  document.documentElement.dataset.view = view;
}
function summary(r) {
  const rec = current.rec, box = el('header', {}, el('h1', {textContent: r.instance}));
  box.append(el('p', {}, el('b', {class: r.class ? 'bad' : r.outcome === 'solved' ? 'good' : '', textContent: r.outcome || 'no outcome'}),
    ` · reward ${r.reward} · ${secs(r.seconds)} · ${r.turns} turns · ${r.segments} sequences · ${num(r.trained)} trained tokens · attempt ${r.attempt} · ${r.mode} · `, el('code', {textContent: rec ? rec.session : ''})));
  if (r.class) box.append(el('p', {class: 'bad', textContent: `${r.class}: ${r.code} in ${r.stage || 'no stage'}: ${rec && rec.failure ? rec.failure.message : r.message}`}));
  return box;
}

// path returns the indices of the messages from a first one to at.
function path(rec, at) {
  const up = [];
  for (; at >= 0; at = rec.messages[at].parent) up.push(at);
  return up.reverse();
}
function leafOf(rec, seg) {
  const turns = seg.turns || [];
  return turns.length ? (rec.messages || []).findIndex(m => m.turn === turns[turns.length - 1].id) : -1;
}
function picker(rec, at, view) {
  const segs = rec.segments || [];
  const i = Math.min(Math.max(Number(at.get('s') || 0), 0), Math.max(segs.length - 1, 0));
  const p = el('p', {});
  if (segs.length > 1) p.append('sequence ', ...segs.flatMap((s, k) => [el('a', {href: `#r=${current.id}&v=${view}&s=${k}`, textContent: `${k} ${s.label}`, style: k === i ? 'font-weight:700' : ''}), ' · ']));
  return [i, p];
}

function conversation(rec, body, at) {
  const [i, p] = picker(rec, at, 'conversation');
  body.append(p);
  const seg = (rec.segments || [])[i], messages = rec.messages || [];
  const leaf = seg ? leafOf(rec, seg) : messages.length - 1;
  if (leaf < 0) { body.append(el('p', {textContent: 'The record holds no conversation: the rollout ended before the first turn, or its adapter keeps none.'})); return; }
  const turns = new Map((rec.turns || []).map(t => [t.id, t]));
  lazily(body, path(rec, leaf), 40, k => message(messages[k], turns));
}
function message(m, turns) {
  const t = turns.get(m.turn);
  const box = el('article', {class: 'msg ' + m.role});
  box.append(el('header', {textContent: m.role + (m.turn ? ` · turn ${m.turn}` : '') + (t ? ` · ${num(t.prompt_tokens)} prompt (${num(t.cached_tokens)} cached), ${num(t.output_tokens)} sampled, ${t.finish}, ${secs(t.seconds)}${t.ill_formed ? ', ill-formed' : ''}` : '')}));
  if (m.reasoning) box.append(el('pre', {class: 'think', textContent: m.reasoning}));
  if (m.content) box.append(el('pre', {textContent: m.content}));
  for (const c of m.calls || []) box.append(el('pre', {class: 'call', textContent: c.name + ' ' + pretty(c.arguments)}));
  return box;
}
function pretty(json) {
  try { return Object.entries(JSON.parse(json)).map(([k, v]) => `${k}: ${typeof v === 'string' ? v : JSON.stringify(v)}`).join('\n'); } catch { return json; }
}
// lazily makes n elements at once, more when their end comes into sight.
function lazily(into, items, n, make) {
  let done = 0;
  const end = el('p');
  into.append(end);
  const grow = () => {
    end.before(...items.slice(done, done + n).map(make));
    done += n;
    if (done >= items.length) { watch.disconnect(); end.remove(); }
    else end.textContent = num(items.length - done) + ' more …';
  };
  const watch = new IntersectionObserver(e => { while (done < items.length && e[0].isIntersecting) { grow(); if (end.getBoundingClientRect().top > innerHeight + 400) break; } }, {rootMargin: '400px'});
  grow();
  if (done < items.length) watch.observe(end);
}

function tree(rec, body) {
  const segs = rec.segments || [], messages = rec.messages || [];
  const t = el('table', {}, el('tr', {}, ...['', 'label', 'tokens', 'trained', 'branches off', 'why', 'where', 'flags'].map(h => el('th', {textContent: h}))));
  segs.forEach((s, i) => t.append(el('tr', {},
    el('td', {}, el('a', {class: 'seg', style: 'color:#fff', href: `#r=${current.id}&v=tokens&s=${i}`, textContent: i})),
    el('td', {textContent: s.label + (s.untrained ? ` (not trained: ${s.untrained})` : '')}), el('td', {class: 'n', textContent: num((s.tokens || []).length)}),
    el('td', {class: 'n', textContent: num(s.owned)}), el('td', {textContent: s.split ? (s.parent < 0 ? 'starts anew' : `${s.parent} at token ${num(s.branch)}`) : ''}),
    el('td', {textContent: s.split ? s.split.cause : ''}), el('td', {textContent: where(s.split)}), el('td', {textContent: (s.flags || []).join(' ')}))));
  body.append(segs.length ? t : el('p', {textContent: 'There are no token sequences.'}));
  const kids = new Map();
  messages.forEach((m, i) => { if (!kids.has(m.parent)) kids.set(m.parent, []); kids.get(m.parent).push(i); });
  const ends = new Map();
  segs.forEach((s, i) => { const at = leafOf(rec, s); if (at >= 0) ends.set(at, [...ends.get(at) || [], i]); });
  body.append(el('h2', {textContent: 'Messages'}));
  const walk = (first, ul) => { // along a line without recursion, into branches with it
    for (let at = first; ;) {
      const m = messages[at];
      const say = [m.content || m.reasoning, ...(m.calls || []).map(c => c.name + ' ' + c.arguments)].filter(x => x).join(' → ').slice(0, 160);
      const li = el('li', {}, el('b', {textContent: m.role + ' '}), say.replace(/\s+/g, ' '));
      if (m.superseded) li.append(' ', el('i', {textContent: '(asked again, not used)'}));
      for (const s of ends.get(at) || []) li.append(' ', el('span', {class: 'seg', textContent: 'sequence ' + s}));
      ul.append(li);
      const next = kids.get(at) || [];
      if (next.length === 0) return;
      if (next.length === 1) { at = next[0]; continue; }
      ul.append(el('li', {class: 'fork', textContent: `${next.length} branches`}));
      for (const k of next) { const sub = el('ul', {class: 'tree'}); ul.append(sub); walk(k, sub); }
      return;
    }
  };
  for (const k of kids.get(-1) || []) { const ul = el('ul', {class: 'tree'}); body.append(ul, el('hr')); walk(k, ul); }
}
function where(s) {
  if (!s) return '';
  return [s.field && `${s.field}`, s.message >= 0 && `message ${s.message}`, `token ${num(s.token)}`, s.after && `after turn ${s.after}`, `first turn ${s.turn}`].filter(x => x).join(', ');
}

function tokens(rec, body, at) {
  const [i, p] = picker(rec, at, 'tokens');
  body.append(p);
  const s = (rec.segments || [])[i];
  if (!s || !s.tokens) { body.append(el('p', {textContent: 'The record holds no tokens.'})); return; }
  const pieces = rec.pieces || {}, first = s.prompt_len;
  const kind = new Array(s.tokens.length).fill('c'), turnAt = new Array(s.tokens.length).fill('');
  for (const t of s.turns || []) for (let k = t.prompt_tokens; k < Math.min(t.prompt_tokens + t.output_tokens, kind.length); k++) { kind[k] = 'm'; turnAt[k] = t.id; }
  (s.loss_mask || []).forEach((m, k) => { if (m) kind[first + k] = 't'; });
  const version = new Map();
  let last = null;
  for (const v of s.versions || []) { if (v.version !== last) version.set(v.from, v.version); last = v.version; }
  const n = {t: 0, c: 0, m: 0};
  for (const k of kind) n[k]++;
  body.append(el('p', {class: 'key'}, el('span', {class: 'tok t', textContent: num(n.t) + ' trained'}), el('span', {class: 'tok c', textContent: num(n.c) + ' context'}), el('span', {class: 'tok m', textContent: num(n.m) + ' sampled, masked here'}),
    `weights: ${[...version].map(([k, v]) => `${v} from token ${num(k)}`).join(', ') || 'unknown'}`, s.untrained ? el('b', {class: 'bad', textContent: ` not trained: ${s.untrained}`}) : ''));
  const box = el('div', {class: 'tokens'});
  body.append(box);
  const step = 1500;
  const sampled = kind.findIndex(k => k !== 'c');
  const begin = sampled > 2 * step ? sampled - 300 : 0; // a long prompt is shown when it is asked for
  const starts = (from, to) => Array.from({length: Math.ceil((to - from) / step)}, (_, i) => from + i * step);
  const make = end => from => {
    const part = el('span');
    for (let k = from; k < Math.min(from + step, end); k++) {
      if (version.has(k)) part.append(el('span', {class: 'ver', textContent: 'weights ' + version.get(k)}));
      const id = s.tokens[k], text = pieces[id] === undefined ? '⟨' + id + '⟩' : pieces[id];
      const span = el('span', {class: 'tok ' + kind[k], textContent: text.replaceAll('\n', '⏎\n')});
      span.dataset.k = k;
      if (kind[k] === 't') span.style.setProperty('--p', Math.round(100 * Math.min(1, -(s.log_probs || [])[k - first] / 4)) + '%');
      part.append(span);
    }
    return part;
  };
  if (begin) {
    const prompt = el('span');
    box.append(prompt);
    prompt.append(el('button', {textContent: `show the ${num(begin)} tokens of context before`, onclick() { prompt.replaceChildren(); lazily(prompt, starts(0, begin), 1, make(begin)); }}));
  }
  lazily(box, starts(begin, kind.length), 1, make(kind.length));
  box.onmousemove = e => {
    const k = e.target.dataset && e.target.dataset.k;
    tip.hidden = k === undefined;
    if (k === undefined) return;
    const lp = kind[k] === 'c' ? 'not sampled here' : 'logprob ' + ((s.log_probs || [])[k - first] ?? 'none');
    const v = (s.versions || []).find(v => v.from <= k && k < v.to);
    tip.textContent = `token ${k}, id ${s.tokens[k]}\n${lp}\n${{t: 'trained', c: 'context', m: 'sampled, masked'}[kind[k]]}${turnAt[k] ? ', turn ' + turnAt[k] : ''}${v ? '\nweights ' + v.version : ''}`;
    tip.style.left = Math.min(e.clientX + 12, innerWidth - 260) + 'px'; tip.style.top = e.clientY + 16 + 'px';
  };
  box.onmouseleave = () => { tip.hidden = true; };
}
const tip = $('tip');

function timing(rec, body) {
  const all = [...(rec.stages || []).map(s => ({...s, name: s.stage + (s.role === 'grader' ? ' (grader)' : '')})), ...(rec.turns || []).map((t, k) => ({...t, name: `turn ${k + 1}${t.kind === 'main' ? '' : ' ' + t.kind}`, turn: true}))];
  all.sort((a, b) => a.start < b.start ? -1 : 1);
  if (!all.length) { body.append(el('p', {textContent: 'No stage was begun.'})); return; }
  const zero = Date.parse(rec.start), total = Math.max(rec.seconds, 1e-6, ...all.map(s => (Date.parse(s.start) - zero) / 1000 + s.seconds));
  lazily(body, all, 100, s => {
    const left = Math.max(0, (Date.parse(s.start) - zero) / 10 / total), width = 100 * s.seconds / total;
    const d = el('div', {class: 'fall'}, el('span', {textContent: s.name, title: s.id || '', class: s.error ? 'bad' : ''}), el('div', {}, el('i', {class: s.error ? 'bad' : s.turn ? 'good' : 'plain', style: `left:${Math.min(left, 99.8)}%;width:${Math.min(width, 100)}%`})),
      el('b', {textContent: secs(s.seconds)}), el('small', {textContent: s.turn ? `${num(s.prompt_tokens)} → ${num(s.output_tokens)}` : s.sandbox || '', title: s.sandbox || ''}));
    return s.error ? el('div', {}, d, el('p', {class: 'bad', textContent: s.error})) : d;
  });
}

function bytes(b64) { return new TextDecoder().decode(Uint8Array.from(atob(b64 || ''), c => c.charCodeAt(0))); }
function patch(rec, body) {
  const p = rec.patch;
  if (!p) { body.append(el('p', {textContent: 'No patch was taken.'})); return; }
  const text = bytes(p.Bytes);
  const flags = Object.entries(p.Flags || {}).filter(([, v]) => v).map(([k]) => k);
  body.append(el('p', {textContent: `${(p.Files || []).length} files, ${num(text.length)} characters${flags.length ? '; ' + flags.join(', ') : ''}${(p.Skipped || []).length ? '; left out: ' + p.Skipped.map(s => s.Path + ' (' + s.Reason + ')').join(', ') : ''}`}));
  if (!text) { body.append(el('p', {textContent: 'The patch is empty.'})); return; }
  const box = el('div', {class: 'diff tok'});
  body.append(box);
  lazily(box, text.split('\n'), 500, l => el('div', {class: /^(\+\+\+|---|diff |index |@@)/.test(l) ? 'h' : l[0] === '+' ? 'a' : l[0] === '-' ? 'd' : '', textContent: l || ' '}));
}
function grading(rec, body) {
  const e = rec.evaluation, a = rec.report;
  if (!e) body.append(el('p', {textContent: 'It was not graded.'}));
  else {
    body.append(el('p', {}, el('b', {textContent: `${e.Outcome}, reward ${e.Reward}`}), ` · ${e.Applied ? 'applied cleanly' : 'not applied cleanly'} · exit ${e.ExitCode} · ${secs((e.Duration || 0) / 1e9)}${e.Keep ? '' : ' · not kept'}`), el('p', {textContent: e.Reason || ''}));
    if ((e.Tamper || []).length) body.append(el('p', {class: 'bad', textContent: 'tampering: ' + e.Tamper.join(', ')}));
    for (const [name, b] of [['to be fixed', e.F2P], ['to be kept', e.P2P]]) {
      if (!b) continue;
      const parts = ['Passed', 'Failed', 'Missing'].filter(k => (b[k] || []).length);
      if (parts.length) body.append(el('details', {}, el('summary', {textContent: `tests ${name}: ` + parts.map(k => `${b[k].length} ${k.toLowerCase()}`).join(', ')}), el('pre', {class: 'log', textContent: parts.map(k => k + '\n  ' + b[k].join('\n  ')).join('\n')})));
    }
    body.append(el('h2', {textContent: 'End of the tests’ output'}), el('pre', {class: 'log', textContent: e.LogTail || '(none)'}));
  }
  if (a) body.append(el('h2', {textContent: 'The agent'}), el('p', {textContent: `${a.outcome || 'no outcome'}, exit ${a.exit_code}, ${a.turns} turns by its own count, ${secs(a.seconds)}, version ${a.version || 'unknown'}`}), el('pre', {class: 'log', textContent: a.log || '(no log)'}));
}
function rowView(rec, body) {
  body.append(el('h2', {textContent: 'The row'}), el('pre', {class: 'log', textContent: JSON.stringify(rec.row, null, 1)}),
    el('h2', {textContent: 'The call'}), el('pre', {class: 'log', textContent: JSON.stringify({run_id: rec.run_id, agent: rec.agent, sandbox: rec.sandbox, args: rec.args, params: rec.params, counts: rec.counts, rewrites: rec.rewrites, budget: rec.budget}, null, 1)}));
  const tools = (rec.toolsets || []).flat();
  if (tools.length) body.append(el('h2', {textContent: 'Tools that were offered'}), ...tools.map(t => el('details', {}, el('summary', {textContent: t.name}), el('pre', {class: 'log', textContent: (t.description || '') + '\n\n' + (t.parameters || '')}))));
}

addEventListener('hashchange', route);
document.documentElement.dataset.table = Math.round(performance.now()); // ms until the table stood
addEventListener('DOMContentLoaded', async () => {
  await route();
  document.documentElement.dataset.ready = Math.round(performance.now()); // ms until all was there
});
