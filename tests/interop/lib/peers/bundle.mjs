// Bundles the web client's code into one file for Node, with the web client's own build tools.

import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

const WEB = new URL('../../../../web/', import.meta.url)

/** Writes the bundle into a folder; resolves with its path. */
export async function bundleWeb(folder) {
  const vite = createRequire(new URL('package.json', WEB)).resolve('vite')
  const { build } = await import(pathToFileURL(vite).href)
  await build({
    configFile: false,
    root: fileURLToPath(WEB),
    logLevel: 'error',
    ssr: { noExternal: true },
    build: {
      ssr: fileURLToPath(new URL('web-client.mjs', import.meta.url)),
      outDir: folder,
      emptyOutDir: false,
      copyPublicDir: false,
      target: 'node20.19',
      rolldownOptions: { output: { entryFileNames: 'web.mjs' } },
    },
  })
  return `${folder}/web.mjs`
}
