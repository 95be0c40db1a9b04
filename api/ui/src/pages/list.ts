import type { ComponentType } from 'preact';
import { seesKeys, seesSeries, seesServer } from '../lib/session';
import { Overview } from './overview';
import { QueryPage } from '../query/page';

/** Page is one entry of the navigation. */
export interface Page {
  path: string;
  title: string;
  /** shows is what the page shows: series, which everybody may see in part; keys; or the whole server. */
  shows: 'series' | 'keys' | 'server';
  load: () => Promise<ComponentType>;
}

/** pages are all pages, the first one being the default. */
export const pages: Page[] = [
  { path: '', title: 'Overview', shows: 'server', load: async () => Overview },
  { path: 'query', title: 'Query', shows: 'series', load: async () => QueryPage },
  { path: 'explore', title: 'Explore', shows: 'series', load: async () => (await import('./explore')).Explore },
  { path: 'keymap', title: 'Key map', shows: 'keys', load: async () => (await import('../keymap/page')).KeyMapPage },
  { path: 'compare', title: 'Compare keys', shows: 'keys', load: async () => (await import('../keymap/compare')).ComparePage },
  { path: 'cardinality', title: 'Cardinality', shows: 'server', load: async () => (await import('./cardinality')).Cardinality },
  { path: 'tablets', title: 'Tablets', shows: 'server', load: async () => (await import('./tablets')).Tablets },
  { path: 'retention', title: 'Retention', shows: 'server', load: async () => (await import('./retention')).Retention },
  { path: 'queries', title: 'Queries', shows: 'server', load: async () => (await import('../queries/page')).Queries },
  { path: 'doctor', title: 'Doctor', shows: 'server', load: async () => (await import('./doctor')).Doctor },
  { path: 'senders', title: 'Senders', shows: 'server', load: async () => (await import('./senders')).Senders },
  { path: 'status', title: 'Status', shows: 'server', load: async () => (await import('./status')).Status },
];

/** seen are the pages that the user may see. */
export function seen(): Page[] {
  return pages.filter((p) => (p.shows === 'server' ? seesServer() : p.shows === 'keys' ? seesKeys() : seesSeries()));
}
