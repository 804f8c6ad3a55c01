// Makes one file for Node of the web client's code, with the tools that the web client is built with.

import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

const WEB = new URL('../../../../web/', import.meta.url)

/** Writes `web.mjs` into a folder; resolves with its path. */
export async function bundleWeb(folder) {
  const vite = createRequire(new URL('package.json', WEB)).resolve('vite')
  const { build } = await import(pathToFileURL(vite))
  await build({
    configFile: false,
    root: fileURLToPath(WEB),
    logLevel: 'error',
    ssr: { noExternal: true },
    build: {
      ssr: fileURLToPath(new URL('web.mjs', import.meta.url)),
      outDir: folder,
      emptyOutDir: false,
      copyPublicDir: false,
      target: 'node20',
      rolldownOptions: { output: { entryFileNames: 'web.mjs' } },
    },
  })
  return `${folder}/web.mjs`
}
