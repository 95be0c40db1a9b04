import { signal } from '@preact/signals';

/** Self is the logged-in principal, as the server reports it. */
export interface Self {
  name: string;
  scopes: string[];
  restricted: boolean;
  tenants: string[];
  readsSeries: boolean;
  adminApi: boolean;
}

/** authorization is the header of that name. It lives in memory only, so a reload of the page forgets it. */
export const authorization = signal('');

/** tenant chooses one of the user's tenants, or several with | between them. */
export const tenant = signal('');

/** refused is why the server wants a log-in, or "". */
export const refused = signal('');

/** attempts counts log-ins. A log-in with the same token also counts, because the server may know the token by now. */
export const attempts = signal(0);

/** self is null until the server has answered. */
export const self = signal<Self | null>(null);

/** logIn takes a bearer token. */
export function logInByToken(token: string): void {
  authorization.value = token && `Bearer ${token}`;
}

/** logInByPassword takes a user and a password. */
export function logInByPassword(user: string, password: string): void {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  authorization.value = 'Basic ' + btoa(String.fromCharCode(...bytes));
}

/** logOut forgets the token or password. */
export function logOut(): void {
  authorization.value = '';
  tenant.value = '';
  self.value = null;
}

/** seesSeries says whether the user may read series. On a server with tenants it needs one for that. */
export function seesSeries(): boolean {
  return !!self.value?.readsSeries;
}

/** seesServer says whether the user may see pages about the whole server. */
export function seesServer(): boolean {
  const s = self.value;
  return !!s && s.scopes.includes('read') && !s.restricted && s.tenants.length === 0;
}

/** seesKeys says whether the user may see row keys. A tenant sees its own; a user with matchers sees none. */
export function seesKeys(): boolean {
  const s = self.value;
  return !!s && s.scopes.includes('read') && !s.restricted;
}

/** administers says whether the user may change the server. */
export function administers(): boolean {
  const s = self.value;
  return !!s && s.adminApi && s.scopes.includes('admin') && !s.restricted && s.tenants.length === 0;
}
