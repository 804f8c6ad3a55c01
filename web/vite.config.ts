import { defineConfig } from 'vite'
import { firstLoad } from './build/first-load.ts'
import { precompress } from './build/precompress.ts'
import { serviceWorker } from './build/service-worker.ts'

const server = 'http://localhost:4000'

export default defineConfig({
  appType: 'spa',
  plugins: [serviceWorker('src/streaming/worker.ts', 'worker.js'), serviceWorker('src/sites/worker.ts', 'site-worker.js'), precompress()],
  build: {
    outDir: 'dist',
    assetsDir: 'assets',
    target: 'es2023',
    // A data: picture would count against the first load; a file of its own is cached.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: firstLoad, debugName: 'first load' }] } } },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: {
    proxy: {
      '/socket': { target: server, ws: true },
      '/limits': server,
      '/frame': server,
      '/.watchfire': server,
    },
  },
})
