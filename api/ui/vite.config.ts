import { defineConfig } from 'vite';

// The page is served below any path, so all links are relative. HALITE_URL names the server that `npx vite` passes requests to.
export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { '/api': process.env.HALITE_URL ?? 'http://127.0.0.1:9480', '/metrics': process.env.HALITE_URL ?? 'http://127.0.0.1:9480' } },
});
