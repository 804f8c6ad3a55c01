import { defineConfig } from 'vite'
import { precompress } from './build/precompress.ts'

const server = 'http://localhost:4000'

export default defineConfig({
  appType: 'spa',
  plugins: [precompress()],
  build: {
    outDir: 'dist',
    assetsDir: 'assets',
    target: 'es2023',
    // A data: picture would count against the first load; a file of its own is cached.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: {
    proxy: {
      '/socket': { target: server, ws: true },
      '/limits': server,
      '/frame': server,
    },
  },
})
