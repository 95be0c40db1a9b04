import { get } from '../lib/api';
import { time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';

interface Sender {
  address: string;
  userAgent: string;
  protocol: string;
  version: string;
  requests: number;
  accepted: { samples: number; histograms: number; exemplars: number };
  refusedRequests: Record<string, number>;
  refusedSamples: Record<string, number>;
  lastRefusal?: { time: string; status: number; message: string };
  lastTime: string;
}

interface Cluster {
  tenant?: string;
  cluster: string;
  elected: string;
  electedTime: string;
  elections: number;
  replicas: { replica: string; lastTime: string }[];
}

interface SendersData {
  senders: Sender[];
  evicted: number;
  haClusters: Cluster[];
}

/** Senders lists who writes, and what the server refused. */
export function Senders() {
  const load = useLoad(async (signal) => (await get<SendersData>('status/senders', {}, signal)).data, [], 5000);
  const d = load.data;
  return (
    <>
      <h1>Senders</h1>
      <p>These senders have written since the server started.</p>
      {load.error && <ErrorBox error={load.error} />}
      {!d && !load.error && <p class="quiet">Loading …</p>}
      {d && <SenderTable list={d.senders} />}
      {d && d.evicted > 0 && <p class="quiet">The server has evicted {whole(d.evicted)} less recent ones.</p>}
      {d && d.haClusters.length > 0 && <Clusters list={d.haClusters} />}
    </>
  );
}

function SenderTable({ list }: { list: Sender[] }) {
  return (
    <Table caption="Senders" param="sort" rows={list} empty="Nobody has written yet." columns={[
      { title: 'Address', value: (s) => s.address, show: (s) => <>{s.address}<br /><span class="quiet">{s.userAgent}</span></> },
      { title: 'Protocol', value: (s) => s.protocol },
      { title: 'Requests', value: (s) => s.requests, show: (s) => whole(s.requests), numeric: true },
      { title: 'Samples', value: (s) => s.accepted.samples, show: (s) => whole(s.accepted.samples), numeric: true },
      { title: 'Refused', value: (s) => sum(s.refusedRequests) + sum(s.refusedSamples), show: refusals },
      { title: 'Last request', value: (s) => Date.parse(s.lastTime), show: (s) => time(Date.parse(s.lastTime)) },
    ]} />
  );
}

function sum(counts: Record<string, number>): number {
  return Object.values(counts).reduce((a, b) => a + b, 0);
}

function refusals(s: Sender) {
  const lines = [
    ...Object.entries(s.refusedRequests).map(([reason, n]) => `${whole(n)} requests: ${reason}`),
    ...Object.entries(s.refusedSamples).map(([reason, n]) => `${whole(n)} samples: ${reason}`),
  ];
  if (!lines.length) return 'nothing';
  return (
    <details>
      <summary>{lines.join(', ')}</summary>
      {s.lastRefusal && <p>{time(Date.parse(s.lastRefusal.time))}, status {s.lastRefusal.status}: <code>{s.lastRefusal.message}</code></p>}
    </details>
  );
}

function Clusters({ list }: { list: Cluster[] }) {
  return (
    <Table caption="HA pairs" rows={list} columns={[
      { title: 'Cluster', value: (c) => (c.tenant ? `${c.tenant}/` : '') + c.cluster },
      { title: 'Elected', value: (c) => c.elected },
      { title: 'Since', value: (c) => Date.parse(c.electedTime), show: (c) => time(Date.parse(c.electedTime)) },
      { title: 'Elections', value: (c) => c.elections, numeric: true },
      { title: 'Replicas', value: (c) => c.replicas.map((r) => r.replica).join(', ') },
    ]} />
  );
}
