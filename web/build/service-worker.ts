import { build, type Plugin } from 'vite'

const ENTRY = 'src/tap/worker.ts'
const NAME = 'worker.js'

/**
 * Builds the service worker as one classic script under a stable name. Apart from the app, so that the two share no
 * file: a worker that imports needs a browser that lets it.
 */
export function serviceWorker(): Plugin {
  let root = ''
  return {
    name: 'service-worker',
    configResolved(config) {
      root = config.root
    },
    async generateBundle() {
      this.emitFile({ type: 'asset', fileName: NAME, source: await workerCode(root) })
    },
    configureServer(server) {
      server.middlewares.use(`/${NAME}`, (_request, response, next) => {
        workerCode(root).then((code) => {
          response.setHeader('content-type', 'text/javascript')
          response.end(code)
        }, next)
      })
    },
  }
}

async function workerCode(root: string): Promise<string> {
  const built = await build({
    root,
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    build: {
      write: false,
      target: 'es2023',
      modulePreload: false,
      rollupOptions: { input: ENTRY, output: { format: 'iife', entryFileNames: NAME } },
    },
  })
  const [output] = Array.isArray(built) ? built : [built]
  const chunk = output !== undefined && 'output' in output ? output.output.find(({ type }) => type === 'chunk') : undefined
  if (chunk?.type !== 'chunk' || chunk.imports.length > 0) throw new Error('The service worker is not one script.')
  return chunk.code
}
