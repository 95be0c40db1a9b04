import type { ComponentType } from 'preact';
import { Overview } from './overview';
import { QueryPage } from '../query/page';

/** Page is one entry of the navigation. */
export interface Page {
  path: string;
  title: string;
  /** server is set for pages about the whole server, which restricted users may not see. */
  server: boolean;
  load: () => Promise<ComponentType>;
}

/** pages are all pages, the first one being the default. */
export const pages: Page[] = [
  { path: '', title: 'Overview', server: true, load: async () => Overview },
  { path: 'query', title: 'Query', server: false, load: async () => QueryPage },
  { path: 'explore', title: 'Explore', server: false, load: async () => (await import('./explore')).Explore },
  { path: 'keymap', title: 'Key map', server: false, load: async () => (await import('../keymap/page')).KeyMapPage },
  { path: 'cardinality', title: 'Cardinality', server: true, load: async () => (await import('./cardinality')).Cardinality },
  { path: 'tablets', title: 'Tablets', server: true, load: async () => (await import('./tablets')).Tablets },
  { path: 'retention', title: 'Retention', server: true, load: async () => (await import('./retention')).Retention },
  { path: 'queries', title: 'Queries', server: true, load: async () => (await import('./queries')).Queries },
  { path: 'senders', title: 'Senders', server: true, load: async () => (await import('./senders')).Senders },
  { path: 'status', title: 'Status', server: true, load: async () => (await import('./status')).Status },
];
