import { signal } from '@preact/signals';

/** Route is a page and its state, as the URL has them behind the #. */
export interface Route {
  page: string;
  params: URLSearchParams;
}

export function parseHash(hash: string): Route {
  const text = hash.replace(/^#\/?/, '');
  const at = text.indexOf('?');
  return {
    page: at < 0 ? text : text.slice(0, at),
    params: new URLSearchParams(at < 0 ? '' : text.slice(at + 1)),
  };
}

export function hashOf(page: string, params?: URLSearchParams | Record<string, string>): string {
  const query = new URLSearchParams(params).toString();
  return `#/${page}${query && '?' + query}`;
}

export const route = signal<Route>(parseHash(location.hash));

/** followed is the link that the user has clicked last. */
let followed = '';
addEventListener('click', (event) => {
  followed = (event.target as Element).closest<HTMLAnchorElement>('a[href^="#/"]')?.href ?? '';
});

addEventListener('hashchange', () => {
  route.value = parseHash(location.hash);
  // A link leads to the top of its page. The back button leads to where the user was.
  if (location.href === followed) scrollTo(0, 0);
  followed = '';
});

/** setParams changes the state of the present page. The new state is an entry of the history, unless replace is set. */
export function setParams(params: URLSearchParams, replace = false): void {
  const hash = hashOf(route.value.page, params);
  if (hash === location.hash) return;
  if (replace) history.replaceState(null, '', hash);
  else history.pushState(null, '', hash);
  route.value = { page: route.value.page, params };
}

/** setParam changes one parameter; "" removes it. */
export function setParam(name: string, value: string, replace = false): void {
  const params = new URLSearchParams(route.value.params);
  if (value) params.set(name, value);
  else params.delete(name);
  setParams(params, replace);
}

/** setLists changes parameters that may have several values. */
export function setLists(lists: Record<string, string[]>): void {
  const params = new URLSearchParams(route.value.params);
  for (const [name, values] of Object.entries(lists)) {
    params.delete(name);
    for (const v of values) params.append(name, v);
  }
  setParams(params);
}

addEventListener('popstate', () => {
  route.value = parseHash(location.hash);
});
