import { defineConfig } from 'vite'
import { EARLY, earlyScript } from './build/early-script.ts'
import { firstLoad, pageLoad } from './build/first-load.ts'
import { pdfFiles } from './build/pdf-files.ts'
import { precompress } from './build/precompress.ts'
import { serviceWorker } from './build/service-worker.ts'
import { fromSource } from '../source-condition.ts'

const server = 'http://localhost:4000'

export default defineConfig({
  ...fromSource,
  appType: 'spa',
  plugins: [
    serviceWorker('src/streaming/worker.ts', 'worker.js'),
    serviceWorker('src/sites/worker.ts', 'site-worker.js'),
    pdfFiles(),
    earlyScript(),
    precompress(),
  ],
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    assetsDir: 'assets',
    target: 'es2023',
    // A data: picture would count against the first load; a file of its own is cached.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'early', test: EARLY, priority: 3 },
            { name: firstLoad, debugName: 'first load', priority: 2 },
            // The home page asks for these too. In the chunk of a page, all of that would come with them.
            { name: 'home', test: /\/app\/src\/(?:ui\/Landscape|pages\/(?:Choices|Toggle))\.tsx$/, priority: 1 },
            { name: pageLoad, debugName: 'a page' },
          ],
        },
      },
    },
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
