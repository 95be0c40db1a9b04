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

/** dark says whether the page is dark now. */
export function dark(): boolean {
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
