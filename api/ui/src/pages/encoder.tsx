import { useEffect, useState } from 'preact/hooks';
import { post } from '../lib/api';
import { bytes, time } from '../lib/format';
import { useLoad } from '../lib/load';
import { route, setParam } from '../lib/route';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';

interface Part {
  kind: string;
  text: string;
  name?: string;
  value: string;
  promoted?: boolean;
  reversed?: boolean;
}

interface Key {
  table: string;
  family: string;
  key: string;
  sizeBytes: number;
  parts: Part[];
  salt: number;
  saltFrom: string[];
  tagsHash?: string;
  hourStartMs: number;
  offsetMs: number;
  rule: { pattern: string; salts: number };
  generations: { fromMs: number; toMs?: number; pattern: string; salts: number }[];
}

interface Encoded {
  timeMs: number;
  now: Key;
  other?: Key;
}

const example = 'up{instance="www.example.com", job="node"}';
const settleMs = 300;

/** Encoder shows the row key of a series while the user writes it, also under other schema rules. */
export function Encoder() {
  const p = route.value.params;
  const text = p.get('series') ?? '';
  const at = p.get('at') ?? '';
  const rules = p.get('rules') ?? '';
  const input = JSON.stringify({ series: text || example, time: at.trim(), rules: rules.trim() });
  const [settled, setSettled] = useState(input);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(input), settleMs);
    return () => clearTimeout(timer);
  }, [input]);
  const load = useLoad(async (signal) => (await post<Encoded>('status/encode_key', JSON.parse(settled), signal)).data, [settled]);
  return (
    <>
      <h2>Row key of a series</h2>
      <div class="fields">
        <label>Series <input class="mono" value={text} placeholder={example} spellcheck={false} onInput={(e) => setParam('series', e.currentTarget.value, true)} /></label>
        <label>Time, as RFC 3339 or unix seconds; now if empty <input class="mono" value={at} placeholder={new Date().toISOString().slice(0, 19) + 'Z'} onInput={(e) => setParam('at', e.currentTarget.value, true)} /></label>
        <label>Other schema rules to compare with, as JSON
          <textarea class="mono" rows={2} spellcheck={false} value={rules} placeholder='[{"pattern": "up", "salts": 4, "promoted": ["job"], "basis": "promoted"}]'
            onInput={(e) => setParam('rules', e.currentTarget.value, true)} />
        </label>
      </div>
      {load.error && <ErrorBox error={load.error} />}
      {load.data && <OneKey title="Under the rules in force" k={load.data.now} />}
      {load.data?.other && <OneKey title="Under the other rules" k={load.data.other} />}
    </>
  );
}

function OneKey({ title, k }: { title: string; k: Key }) {
  const basis = k.saltFrom.length === 0 ? 'There is one salt.'
    : k.saltFrom[0] === '' ? 'The metric and all labels decide it.' : `The metric and ${k.saltFrom.join(', ')} decide it.`;
  return (
    <section class="card" aria-label={title}>
      <h3>{title}</h3>
      <p class="key mono">{k.parts.map((part, n) => <span key={n} class={`part ${part.kind}`}>{part.text}</span>)}</p>
      <p>
        Table <code>{k.table}</code>, {bytes(k.sizeBytes)}. Salt {k.salt} of {k.rule.salts}: {basis} The rule is <code>{k.rule.pattern}</code>. The row holds the
        hour from {time(k.hourStartMs)}; the sample is {k.offsetMs / 1000} s into it.
        {k.tagsHash && ' The labels are too long for a key, so it holds their hash.'}
      </p>
      <Table caption={`Parts of the key: ${title.toLowerCase()}`} hideCaption rows={k.parts} columns={[
        { title: 'Part', value: (part) => part.kind, show: (part) => part.kind + (part.promoted ? ', promoted' : '') + (part.reversed ? ', reversed' : '') },
        { title: 'In the key', value: (part) => part.text, show: (part) => <code>{part.text}</code> },
        { title: 'Means', value: (part) => part.value, show: (part) => (part.name ? `${part.name}=${part.value}` : part.kind === 'tag' ? 'no labels' : part.value) },
      ]} />
      {k.generations.length > 1 && (
        <Table caption="Rules of this metric over time" rows={k.generations} columns={[
          { title: 'From', value: (g) => g.fromMs, show: (g) => (g.fromMs ? time(g.fromMs) : 'always') },
          { title: 'Until', value: (g) => g.toMs ?? Infinity, show: (g) => (g.toMs ? time(g.toMs) : 'no end') },
          { title: 'Pattern', value: (g) => g.pattern, show: (g) => <code>{g.pattern}</code> },
          { title: 'Salts', value: (g) => g.salts, numeric: true },
        ]} />
      )}
    </section>
  );
}
