import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// SALVAGE_URL: the server that the page under development talks to (docs/HACKING.md).
const server = process.env.SALVAGE_URL ?? 'http://127.0.0.1:8765';
// To it the page is its own: others it refuses (src/http/web_origin.h).
const upstream = { target: server, changeOrigin: true, headers: { origin: server } };

export default defineConfig({
  base: './',
  plugins: [
    // Class names by content: the same sources give the same bytes in whatever folder.
    svelte({ compilerOptions: { cssHash: ({ hash, css }) => `s-${hash(css)}` } }),
  ],
  build: {
    target: ['es2020', 'chrome87', 'firefox78', 'safari14'],
    modulePreload: false, // one script, nothing to load ahead
    assetsInlineLimit: 0,
    rollupOptions: { output: { entryFileNames: 'assets/[name]-[hash].js', assetFileNames: 'assets/[name]-[hash][extname]' } },
  },
  server: { proxy: { '/v1': upstream, '/health': upstream } },
  test: { include: ['src/**/*.test.js'] },
});
