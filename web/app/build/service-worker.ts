import { build, type Plugin } from 'vite'

/**
 * Builds a service worker as one classic script under a stable name, separately from the app, so that they share no
 * files. A worker with imports is not supported by all browsers.
 */
export function serviceWorker(entry: string, name: string): Plugin {
  let root = ''
  return {
    name: `service-worker ${name}`,
    configResolved(config) {
      root = config.root
    },
    async generateBundle() {
      this.emitFile({ type: 'asset', fileName: name, source: await workerCode(root, entry, name) })
    },
    configureServer(server) {
      server.middlewares.use(`/${name}`, (_request, response, next) => {
        workerCode(root, entry, name).then((code) => {
          response.setHeader('content-type', 'text/javascript')
          response.end(code)
        }, next)
      })
    },
  }
}

async function workerCode(root: string, entry: string, name: string): Promise<string> {
  const built = await build({
    root,
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    build: {
      write: false,
      target: 'es2023',
      modulePreload: false,
      rollupOptions: { input: entry, output: { format: 'iife', entryFileNames: name } },
    },
  })
  const [output] = Array.isArray(built) ? built : [built]
  const chunk = output !== undefined && 'output' in output ? output.output.find(({ type }) => type === 'chunk') : undefined
  if (chunk?.type !== 'chunk' || chunk.imports.length > 0) throw new Error('The service worker is not one script.')
  return chunk.code
}
