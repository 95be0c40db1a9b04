/** perSecond turns the counts of columns into rates. timesMs has the starts of the columns, and the end of the last one. */
export function perSecond(counts: number[], timesMs: number[]): number[] {
  return counts.map((n, i) => (n * 1000) / (timesMs[i + 1] - timesMs[i]));
}
