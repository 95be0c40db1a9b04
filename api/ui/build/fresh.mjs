// Fails if the committed files are not those that the sources give. Usage: node build/fresh.mjs COMMITTED BUILT
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';

const [committed, built] = process.argv.slice(2);

function list(folder, base = folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? list(path, base) : [relative(base, path)];
  });
}

const wanted = list(built).flatMap((name) => [name + '.br', name + '.gz']).sort();
const present = list(committed).sort();
const faults = [
  ...wanted.filter((n) => !present.includes(n)).map((n) => `${n} is missing`),
  ...present.filter((n) => !wanted.includes(n)).map((n) => `${n} is left over`),
];
for (const name of wanted.filter((n) => present.includes(n))) {
  const packed = readFileSync(join(committed, name));
  const text = name.endsWith('.br') ? brotliDecompressSync(packed) : gunzipSync(packed);
  if (!text.equals(readFileSync(join(built, name.slice(0, -3))))) faults.push(`${name} differs`);
}
if (faults.length) {
  console.error(`api/ui/dist is not fresh: ${faults.join(', ')}. Run npm ci && npm run build in api/ui, and commit dist.`);
  process.exit(1);
}
