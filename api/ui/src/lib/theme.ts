import { effect, signal } from '@preact/signals';

const key = 'halite.theme';

export type Theme = 'auto' | 'light' | 'dark';

function stored(): Theme {
  const value = localStorage.getItem(key);
  return value === 'light' || value === 'dark' ? value : 'auto';
}

export const theme = signal<Theme>(stored());

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
  localStorage.setItem(key, theme.value);
}
