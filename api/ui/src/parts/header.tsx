import { useEffect, useRef } from 'preact/hooks';
import { authorization, logOut, refused, self } from '../lib/session';
import { route } from '../lib/route';
import { nextTheme, theme } from '../lib/theme';
import { seen } from '../pages/list';

/** Header has the navigation, the theme and the user. */
export function Header() {
  const pages = self.value ? seen() : [];
  const first = pages[0]?.path ?? '';
  const active = route.value.page || first;
  const nav = useRef<HTMLElement>(null);
  // In a narrow window the list of pages scrolls sideways.
  useEffect(() => nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' }), [active, pages.length]);
  return (
    <header class="top">
      <a class="brand" href="#/">
        <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
          <path d="M16 2 29 9.5v13L16 30 3 22.500v-13z" fill="#1f6f8b" />
          <path d="M16 2 29 9.500 16 17 3 9.500z" fill="#7fc8d8" />
          <path d="M16 17v13L3 22.500v-13z" fill="#3a9bb5" />
        </svg>
        <span>Halite</span>
      </a>
      <nav aria-label="Pages" ref={nav}>
        {pages.map((p) => (
          <a key={p.path} href={`#/${p.path}`} aria-current={p.path === active ? 'page' : undefined}>{p.title}</a>
        ))}
      </nav>
      <div class="user">
        {self.value?.name && <span class="quiet" title={`Scopes: ${self.value.scopes.join(', ')}`}>{self.value.name}</span>}
        {authorization.value && !refused.value && <button type="button" onClick={logOut}>Log out</button>}
        <button type="button" class="plain" onClick={nextTheme} title="Change the colours">
          <span aria-hidden="true">{theme.value === 'dark' ? '☾' : theme.value === 'light' ? '☀' : '◐'}</span>
          <span class="hidden">Colours: {theme.value}</span>
        </button>
      </div>
    </header>
  );
}
