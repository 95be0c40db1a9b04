import { sample } from './format';

/** download hands a text or a picture to the user as a file. */
export function download(name: string, type: string, content: string | Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** csv prints rows as RFC 4180. A cell that a spreadsheet would take for a formula gets a quote in front. */
export function csv(rows: (string | number)[][]): string {
  return rows.map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

function cell(value: string | number): string {
  let text = typeof value === 'number' ? sample(value) : value;
  if (typeof value === 'string' && /^[=+@\t\r]|^-(?![\d.])/.test(text)) text = "'" + text;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
