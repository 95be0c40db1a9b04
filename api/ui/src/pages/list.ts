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
];
