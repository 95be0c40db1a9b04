// Replaces each file that Vite wrote by its gzip and brotli forms, which the server embeds.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

function compress(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) {
      compress(path);
      continue;
    }
    const text = readFileSync(path);
    writeFileSync(path + '.gz', gzipSync(text, { level: 9 }));
    writeFileSync(path + '.br', brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
    rmSync(path);
  }
}

compress('dist');
