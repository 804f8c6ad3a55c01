// Prints every message there is, in English, as the file that a new language begins with:
//
//     npm run --silent words > src/words/languages/pl.json
import { fileURLToPath } from 'node:url'
import { createServer } from 'vite'

const server = await createServer({
  root: fileURLToPath(new URL('..', import.meta.url)),
  configFile: false,
  logLevel: 'error',
  appType: 'custom',
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
  optimizeDeps: { noDiscovery: true },
})
try {
  const { wholeCatalogue } = await server.ssrLoadModule('/src/words/whole.ts')
  process.stdout.write(`${JSON.stringify({ direction: 'ltr', ...wholeCatalogue() }, null, 2)}\n`)
} finally {
  await server.close()
}
