import { get } from '../lib/api';
import { bytes, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { route } from '../lib/route';
import { Bar } from '../parts/bar';
import { ErrorBox } from '../parts/errorbox';
import { SearchField } from '../parts/search';
import { Table } from '../parts/table';

/** Status shows build, runtime, limits, flags and configuration. */
export function Status() {
  const load = useLoad(async (signal) => {
    const [about, build, runtime, limits, flags, config] = await Promise.all([
      get<{ name: string; version: string }>('status/overview', {}, signal),
      get<Record<string, string>>('status/buildinfo', {}, signal), get<Record<string, unknown>>('status/runtimeinfo', {}, signal),
      get<LimitsData>('status/limits', {}, signal), get<Record<string, string>>('status/flags', {}, signal),
      get<{ yaml: string }>('status/config', {}, signal),
    ]);
    // The build information has the version of Prometheus, because Prometheus clients read it.
    const { version, ...rest } = build.data;
    return { build: { [about.data.name]: about.data.version, 'API of Prometheus': version, ...rest }, runtime: runtime.data, limits: limits.data, flags: flags.data, config: config.data.yaml };
  }, []);
  if (load.error) return <ErrorBox error={load.error} />;
  if (!load.data) return <p class="quiet">Loading …</p>;
  const d = load.data;
  return (
    <>
      <h1>Status</h1>
      <div class="columns">
        <Pairs caption="Build" pairs={d.build} />
        <Pairs caption="Runtime" pairs={d.runtime} />
      </div>
      <Limits d={d.limits} />
      <Flags flags={d.flags} />
      <h2>Configuration file</h2>
      {d.config.trim() ? <pre tabIndex={0}>{d.config}</pre> : <p class="quiet">The server has no configuration file, or it is empty.</p>}
    </>
  );
}

function Pairs({ caption, pairs }: { caption: string; pairs: Record<string, unknown> }) {
  return (
    <Table caption={caption} rows={Object.entries(pairs)} columns={[
      { title: 'Name', value: ([name]) => name },
      { title: 'Value', value: ([, value]) => String(value) || '–' },
    ]} />
  );
}

interface Use {
  used: number;
  warn: number;
  max: number;
  dryRun: boolean;
}

interface LimitsData {
  series: Use;
  memoryBytes: Use;
  samplesPerSecond: Use;
  metrics: (Use & { metric: string; pattern: string })[];
  refused: { metric: string; samples: number }[];
}

function Limits({ d }: { d: LimitsData }) {
  const rows = [
    { name: 'Active series', show: whole, use: d.series },
    { name: 'Memory of series', show: bytes, use: d.memoryBytes },
    { name: 'Samples a second', show: whole, use: d.samplesPerSecond },
    ...d.metrics.map((m) => ({ name: `Series of ${m.metric}`, show: whole, use: m })),
  ];
  const most = (r: (typeof rows)[number]) => (r.use.max ? r.show(r.use.max) + (r.use.dryRun ? ' (dry run)' : '') : 'no limit');
  return (
    <>
      <h2>Limits</h2>
      <Table caption="Use of the limits" rows={rows} columns={[
        { title: 'Limit', value: (r) => r.name },
        { title: 'Used', value: (r) => r.use.used, show: (r) => r.show(r.use.used), numeric: true },
        { title: 'Maximum', value: (r) => r.use.max, show: most, numeric: true },
        { title: 'Share', value: (r) => (r.use.max ? r.use.used / r.use.max : 0), show: (r) => (r.use.max ? <Bar share={r.use.used / r.use.max} label={`Use of ${r.name}`} /> : '–') },
      ]} />
      {d.refused.length > 0 && (
        <Table caption="Samples that limits refused" rows={d.refused} columns={[
          { title: 'Metric', value: (r) => r.metric },
          { title: 'Samples', value: (r) => r.samples, show: (r) => whole(r.samples), numeric: true },
        ]} />
      )}
    </>
  );
}

function Flags({ flags }: { flags: Record<string, string> }) {
  const search = (route.value.params.get('flag') ?? '').toLowerCase();
  const rows = Object.entries(flags).filter((f) => f.join(' ').toLowerCase().includes(search)).sort();
  return (
    <>
      <h2>Flags</h2>
      <div class="bar"><SearchField name="flag" label="Search" /></div>
      <Table caption="Flags" param="sort" rows={rows} most={1000} empty="No flag contains this." columns={[
        { title: 'Flag', value: ([name]) => name, show: ([name]) => <code>--{name}</code> },
        { title: 'Value', value: ([, value]) => value, show: ([, value]) => <code>{value || '""'}</code> },
      ]} />
    </>
  );
}
