import { spawn } from 'node:child_process';
import { createServer } from 'node:net';

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** start runs the program on a free port. It is ready when it prints text; with text "", when it answers. */
export async function start(program, args, text) {
  const port = await freePort();
  const child = spawn(program, [...args, `--web.listen-address=127.0.0.1:${port}`], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  let printed = '';
  child.stdout.on('data', (d) => (printed += d));
  const url = `http://127.0.0.1:${port}/`;
  const ready = async () => (text ? printed.includes(text) : (await fetch(url + '-/ready').catch(() => null))?.ok);
  for (const deadline = Date.now() + 60_000; !(await ready()); await new Promise((resolve) => setTimeout(resolve, 50))) {
    if (child.exitCode !== null) throw new Error(`${args[0]} ended with code ${child.exitCode}`);
    if (Date.now() > deadline) throw new Error(`${args[0]} is not ready after 60 s`);
  }
  return {
    url,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
