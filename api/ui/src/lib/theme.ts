import { effect, signal } from '@preact/signals';
import { keep, stored } from './storage';

const key = 'halite.theme';

export type Theme = 'auto' | 'light' | 'dark';

function chosen(): Theme {
  const value = stored(key);
  return value === 'light' || value === 'dark' ? value : 'auto';
}

export const theme = signal<Theme>(chosen());

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(prefersDark.matches);
prefersDark.addEventListener('change', (e) => (systemDark.value = e.matches));

const printing = signal(false);
addEventListener('beforeprint', () => (printing.value = true));
addEventListener('afterprint', () => (printing.value = false));

/** dark says whether the page is dark now. On paper it is light, because browsers print light text without its dark ground. */
export function dark(): boolean {
  if (printing.value) return false;
  return theme.value === 'auto' ? systemDark.value : theme.value === 'dark';
}

effect(() => {
  document.documentElement.dataset.theme = dark() ? 'dark' : 'light';
});

/** nextTheme goes from auto to light, to dark, and back. */
export function nextTheme(): void {
  theme.value = theme.value === 'auto' ? 'light' : theme.value === 'light' ? 'dark' : 'auto';
  keep(key, theme.value);
}
