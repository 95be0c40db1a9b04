/** Metrics are the sums of the server's own metrics, by name and by name with labels as in the text format. */
export class Metrics {
  private readonly sums = new Map<string, number>();
  private readonly lines = new Map<string, number>();

  constructor(text: string, readonly atMs: number) {
    for (const line of text.split('\n')) {
      if (!line || line[0] === '#') continue;
      const at = line.lastIndexOf(' ');
      const key = line.slice(0, at);
      const value = Number(line.slice(at + 1));
      const name = key.split('{', 1)[0];
      this.lines.set(key, value);
      this.sums.set(name, (this.sums.get(name) ?? 0) + value);
    }
  }

  sum(name: string): number | undefined {
    return this.sums.get(name);
  }

  line(key: string): number | undefined {
    return this.lines.get(key);
  }

  /** rate is the growth a second since earlier metrics; undefined if there are none. */
  rate(name: string, earlier?: Metrics): number | undefined {
    const now = this.sum(name);
    const then = earlier?.sum(name);
    if (now === undefined || then === undefined || !earlier || this.atMs <= earlier.atMs) return undefined;
    return Math.max(0, now - then) / ((this.atMs - earlier.atMs) / 1000);
  }
}
