import { useRef } from 'preact/hooks';
import { get, text } from '../lib/api';
import { useLoad } from '../lib/load';
import { Metrics } from '../lib/metrics';
import { bytes, number, seconds, time, whole } from '../lib/format';
import { Copyable } from '../parts/copy';
import { ErrorBox } from '../parts/errorbox';
import { type Tile, Tiles } from '../parts/tiles';

interface Refusal {
  what: string;
  why: string;
  from: string;
  example?: string;
  atMs: number;
  line?: string;
  where?: string;
}

interface OverviewData {
  name: string;
  version: string;
  apiVersion: string;
  docsUrl: string;
  ready: boolean;
  reason?: string;
  arriving: boolean;
  waiting: boolean;
  refused: Refusal[];
  url: string;
}

const pollMs = 5000;

/** firstPollMs is shorter, because rates need two polls. */
const firstPollMs = 1000;

/** Overview says whether samples arrive, what was refused, and how to connect. */
export function Overview() {
  const load = useLoad(async (signal) => (await get<OverviewData>('status/overview', {}, signal)).data, [], pollMs);
  const d = load.data;
  return (
    <>
      <h1>{d ? d.name : 'Halite'} <small class="quiet">{d?.version}</small></h1>
      {load.error && <ErrorBox error={load.error} />}
      {d && !load.error && <State d={d} />}
      <Figures />
      {d && d.refused.length > 0 && <Refusals list={d.refused} />}
      {d && <Connect d={d} />}
    </>
  );
}

function State({ d }: { d: OverviewData }) {
  if (!d.ready) return <p class="state warn">The server is not ready: {d.reason}.</p>;
  const arriving = d.arriving ? ', and samples are arriving' : '';
  if (d.refused.length) return <p class="state bad">The server is ready{arriving}, but it refused data in the past hour. The reasons are below.</p>;
  if (d.waiting) {
    return <p class="state warn">The server is ready. No sender has sent samples in the past hour. The section Connect shows how to send some.</p>;
  }
  return <p class="state good">The server is ready{arriving}.</p>;
}

function Figures() {
  const before = useRef<Metrics | undefined>(undefined);
  const load = useLoad(async (signal) => {
    const now = new Metrics(await text('metrics', signal), Date.now());
    const earlier = before.current;
    before.current = now;
    return { now, earlier };
  }, [], before.current ? pollMs : firstPollMs);
  if (!load.data) return load.error ? <ErrorBox error={load.error} /> : <p class="quiet">Loading …</p>;
  return <Tiles tiles={tilesOf(load.data.now, load.data.earlier)} />;
}

function tilesOf(now: Metrics, earlier?: Metrics): Tile[] {
  const rate = (name: string) => {
    const r = now.rate(name, earlier);
    return r === undefined ? '…' : number(r);
  };
  const figure = (name: string, show: (n: number) => string) => {
    const v = now.sum(name);
    return v === undefined ? '–' : show(v);
  };
  const rejected = now.sum('tsdb_ingest_rejected_total') ?? 0;
  const lag = now.sum('tsdb_rollup_lag_seconds');
  return [
    { name: 'Samples a second', value: rate('tsdb_ingest_samples_total'), hint: `${figure('tsdb_ingest_samples_total', number)} since the start` },
    { name: 'Active series', value: figure('tsdb_ingest_series', whole), hint: `${figure('tsdb_ingest_series_created_total', number)} new since the start` },
    { name: 'Disk', value: figure('tsdb_pebble_disk_bytes', bytes), hint: `log ${figure('tsdb_wal_size_bytes', bytes)}` },
    { name: 'Memory', value: figure('process_resident_memory_bytes', bytes), hint: `head ${figure('tsdb_ingest_head_bytes', bytes)}` },
    { name: 'Queries a second', value: rate('tsdb_query_duration_seconds_count'), hint: `${figure('tsdb_query_active', whole)} running, ${figure('tsdb_query_queued', whole)} waiting` },
    { name: 'Lag of rollups', value: lag === undefined ? '–' : seconds(lag), hint: 'closed days without aggregates' },
    { name: 'Refused samples', value: whole(rejected), hint: 'since the start', bad: rejected > 0 },
  ];
}

function Refusals({ list }: { list: Refusal[] }) {
  return (
    <section>
      <h2>What the server refused in the past hour</h2>
      {list.map((r) => (
        <article class="card" key={r.what + r.why}>
          <p><strong>{r.what}</strong>: {r.why}.</p>
          <p class="quiet">Last at {time(r.atMs)} from {r.from}{r.example && ':'}</p>
          {r.example && <pre tabIndex={0}>{r.example}</pre>}
          {r.line && <p>To fix it, add this to {r.where}:</p>}
          {r.line && <Copyable label="configuration that fixes it" text={r.line} />}
        </article>
      ))}
    </section>
  );
}

function Connect({ d }: { d: OverviewData }) {
  return (
    <section>
      <h2>Connect</h2>
      <div class="columns">
        <div>
          <h3>Send samples from Prometheus</h3>
          <p>Add this to <code>prometheus.yml</code> and reload Prometheus:</p>
          <Copyable label="remote write of Prometheus" text={`remote_write:\n  - url: ${d.url}/api/v1/write`} />
        </div>
        <div>
          <h3>Look at them in Grafana</h3>
          <p>Add a data source of type Prometheus with this URL:</p>
          <Copyable label="URL of the data source" text={d.url} />
        </div>
        <div>
          <h3>Draw a query in the terminal</h3>
          <p>The command is part of the server:</p>
          <Copyable label="command" text={`tsdb graph --url ${d.url} up`} />
        </div>
      </div>
      <p>
        The server also takes OpenTelemetry, InfluxDB, OpenTSDB and other formats.
        See the <a href={d.docsUrl} rel="noreferrer">documentation of the HTTP API</a>, which is that of Prometheus {d.apiVersion}.
      </p>
    </section>
  );
}
