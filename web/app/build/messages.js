// Prints every message in English, in the format of a language file:
//
//     npm run --silent messages > app/src/messages/languages/pl.json
import { fileURLToPath } from 'node:url'
import { createServer, defaultServerConditions } from 'vite'

const server = await createServer({
  root: fileURLToPath(new URL('..', import.meta.url)),
  configFile: false,
  logLevel: 'error',
  appType: 'custom',
  ssr: { resolve: { conditions: ['watchfire-source', ...defaultServerConditions] } },
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
  optimizeDeps: { noDiscovery: true },
})
try {
  const { fullCatalogue } = await server.ssrLoadModule('/src/messages/catalogue.ts')
  process.stdout.write(`${JSON.stringify({ direction: 'ltr', ...fullCatalogue() }, null, 2)}\n`)
} finally {
  await server.close()
}
