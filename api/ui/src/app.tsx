import { useEffect, useErrorBoundary, useLayoutEffect, useState } from 'preact/hooks';
import type { ComponentType } from 'preact';
import { ApiError, get } from './lib/api';
import { type Self, attempts, authorization, refused, self, tenant } from './lib/session';
import { route } from './lib/route';
import { pages, seen } from './pages/list';
import { ErrorBox } from './parts/errorbox';
import { LogIn } from './parts/login';
import { Header } from './parts/header';

/** retryMs is the time until the page sends another request to a server that did not answer. */
const retryMs = 3000;

/** App is the whole interface: the header, the log-in if the server wants one, and the page of the URL. */
export function App() {
  const credentials = authorization.value + tenant.value;
  const [fault, setFault] = useState<Error | null>(null);
  const [tries, setTries] = useState(0);
  useLayoutEffect(() => {
    let current = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    get<Self>('status/self').then(
      (response) => {
        if (!current) return;
        self.value = response.data;
        refused.value = '';
        setFault(null);
      },
      (error) => {
        if (!current) return;
        const status = error instanceof ApiError ? error.status : 0;
        // The user is known, but may not read. Another log-in could help.
        if (status === 403) refused.value = error.message;
        if (status === 0 || status >= 500) timer = setTimeout(() => setTries((n) => n + 1), retryMs);
        setFault(error);
      },
    );
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [credentials, attempts.value, tries]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <Header />
      <main id="main" tabIndex={-1}>
        {refused.value ? <LogIn /> : <Content fault={fault} />}
      </main>
    </>
  );
}

function skip(event: Event) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function Content({ fault }: { fault: Error | null }) {
  const [shown, setShown] = useState<{ path: string; Page: ComponentType } | null>(null);
  const [broken, setBroken] = useState<Error | null>(null);
  const [crash, resetCrash] = useErrorBoundary();
  const path = route.value.page;
  // A restricted user has no overview, so the first page is the next one.
  const page = path === '' && self.value ? seen()[0] : pages.find((p) => p.path === path);
  useEffect(() => {
    document.title = `${page?.title ?? 'Not found'} · Halite`;
    let current = true;
    setBroken(null);
    page?.load().then(
      (Page) => current && setShown({ path: page.path, Page }),
      () => current && setBroken(new Error('The page did not load. If the server is running, it may have a new version: reload the browser tab.')),
    );
    return () => { current = false; };
  }, [page]);
  useEffect(() => resetCrash(), [route.value]);
  if (fault && !self.value) return <ErrorBox error={fault} />;
  if (!self.value) return <p class="quiet">Loading …</p>;
  if (!page) return <ErrorBox error={new Error(`There is no page “${path}”. The links above lead to all pages.`)} />;
  if (crash) return <ErrorBox error={new Error(`The page has a fault: ${crash.message}. Reload the browser tab, or choose another page.`)} />;
  if (broken) return <ErrorBox error={broken} />;
  if (shown?.path !== page.path) return <p class="quiet">Loading …</p>;
  return <shown.Page />;
}
