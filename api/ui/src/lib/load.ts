import { useLayoutEffect, useState } from 'preact/hooks';
import { authorization, tenant } from './session';

/** Load is the state of a request. */
export interface Load<T> {
  data?: T;
  error?: Error;
  loading: boolean;
  reload: () => void;
}

/**
 * useLoad repeats the request if deps change, if the user logs in, and intervalMs after each response. It keeps the previous data until the next response.
 */
export function useLoad<T>(request: (signal: AbortSignal) => Promise<T>, deps: unknown[], intervalMs = 0): Load<T> {
  const [state, setState] = useState<{ data?: T; error?: Error; loading: boolean }>({ loading: true });
  const [runs, setRuns] = useState(0);
  // An effect after the paint would send the request a frame later.
  useLayoutEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    setState((s) => ({ ...s, loading: true }));
    request(abort.signal).then(
      (data) => !abort.signal.aborted && setState({ data, loading: false }),
      (error) => !abort.signal.aborted && setState((s) => ({ data: s.data, error, loading: false })),
    ).then(() => {
      // A timer that runs beside the request would cancel each request that takes longer than the interval.
      if (intervalMs && !abort.signal.aborted) timer = setTimeout(() => setRuns((n) => n + 1), intervalMs);
    });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [...deps, runs, authorization.value, tenant.value]);
  return { ...state, reload: () => setRuns((n) => n + 1) };
}
