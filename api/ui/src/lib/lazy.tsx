import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';

/** lazy returns a component that loads another one when it is first shown. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  return function Lazy(props: P) {
    const [Loaded, setLoaded] = useState<{ Inner: ComponentType<P> } | null>(null);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      let current = true;
      load().then((Inner) => current && setLoaded({ Inner }), () => current && setFailed(true));
      return () => { current = false; };
    }, []);
    if (failed) return <p class="error" role="alert">This part did not load. If the server is running, it may have a new version: reload the browser tab.</p>;
    return Loaded ? <Loaded.Inner {...props} /> : <p class="quiet">Loading …</p>;
  };
}
