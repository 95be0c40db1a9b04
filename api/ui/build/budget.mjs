// Fails if the interface is too large. Sizes are of gzip. Usage: node build/budget.mjs DIST
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const assets = join(process.argv[2], 'assets');
const kib = 1024;
const names = readdirSync(assets).filter((n) => n.endsWith('.gz'));
const size = (list) => list.reduce((sum, n) => sum + statSync(join(assets, n)).size, 0);
const index = gunzipSync(readFileSync(join(process.argv[2], 'index.html.gz'))).toString();
const first = names.filter((n) => index.includes(n.slice(0, -3)));
const parts = [
  ['the shell with the query page', size(first), 60 * kib],
  ['the editor', size(names.filter((n) => n.startsWith('codemirror-'))), 155 * kib],
  ['everything', size(names), 320 * kib],
];
let over = false;
for (const [name, bytes, most] of parts) {
  over ||= bytes > most || bytes === 0;
  console.log(`${name}: ${(bytes / kib).toFixed(1)} KiB of ${most / kib} KiB`);
}
if (over) {
  console.error('The web interface is over its budget, or a part has another name.');
  process.exit(1);
}
