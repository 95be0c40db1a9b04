import { get } from '../lib/api';
import { number, quote, time } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf } from '../lib/route';
import { Copyable } from '../parts/copy';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import type { Point } from './page';
import { type CellDetail, metrics } from './types';

const tagsOf = (k: { tags?: Record<string, string> | null }) => Object.entries(k.tags ?? {}).map((t) => t.join('=')).join(', ');

/** CellBox shows all counts of the cell that the user pinned. */
export function CellBox({ point, close }: { point: Point | null; close: () => void }) {
  const load = useLoad(async (signal) => (point
    ? (await get<CellDetail>('keyviz/cell', { t: point.at, key: point.start }, signal)).data : null), [point]);
  if (!point) return null;
  const d = load.data;
  const metric = d?.labels?.find((l) => l.startsWith('metric:'))?.slice('metric:'.length);
  return (
    <section class="card" aria-label="Details of a cell">
      <div class="bar">
        <strong>Cell at {time(point.at * 1000)}</strong>
        {metric && <a href={hashOf('query', { expr: `{__name__=${quote(metric)}}`, tab: 'table' })}>Query this metric</a>}
        {metric && <a href={hashOf('explore', { metric })}>Explore this metric</a>}
        <button type="button" class="push" onClick={close}>Close</button>
      </div>
      {load.error && <ErrorBox error={load.error} />}
      {d && !d.found && <p class="quiet">The server has no counts of this cell.</p>}
      {d?.found && (
        <>
          <p>{d.labels?.join(' ')}</p>
          <Copyable label="key" text={d.key ?? ''} />
          <Table caption="Counts" rows={Object.entries(d.counts ?? {})} columns={[
            { title: 'Load', value: ([name]) => metrics[name] ?? name },
            { title: 'Count', value: ([, n]) => n, show: ([, n]) => number(n), numeric: true },
          ]} />
          <Table caption="Sampled keys" rows={d.keys ?? []} empty="No key was sampled." most={10} columns={[
            { title: 'Key', value: (k) => k.key, show: (k) => <code>{k.key}</code> },
            { title: 'Tags', value: tagsOf, show: (k) => <span class="tags">{tagsOf(k)}</span> },
          ]} />
        </>
      )}
    </section>
  );
}
