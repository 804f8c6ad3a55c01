// Builds and serves the site of examples/embed and the examples of the READMEs, as an author would, with the packages that would be
// published.

import { cpSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'

import { closeServer, listen } from '../lib/listen.mjs'
import { buildPackages, loadVite, newProject, REPOSITORY } from './packed.mjs'
import { EXAMPLES, writeExamples } from './readme-examples.mjs'

/** The servers that the site and the READMEs name, over HTTP and WebSocket. */
const NAMED_SERVERS = /(http|ws)(?::\/\/localhost:4000|s:\/\/watchfire\.example\.org)/g
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }

/**
 * Serves the site on a port of its own. `connectTo` sets the server that it uses, and `keepTo` its Content-Security-Policy, for all later
 * requests. `requested` has the paths of all requests.
 */
export async function serveSite(t) {
  const folder = await build()
  let watchfire = ''
  let policy = ''
  const requested = []
  const site = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://site')
    requested.push(pathname)
    const file = path.join(folder, pathname === '/' ? 'index.html' : path.normalize(pathname))
    try {
      const content = readFileSync(file)
      const type = TYPES[path.extname(file)]
      response.writeHead(200, {
        'content-type': type ?? 'application/octet-stream',
        ...(policy === '' ? {} : { 'content-security-policy': policy }),
      })
      const server = (/** @type {string} */ _, /** @type {string} */ scheme) => watchfire.replace('http', scheme)
      response.end(type === undefined ? content : content.toString().replace(NAMED_SERVERS, server))
    } catch {
      response.writeHead(404).end()
    }
  })
  const port = await listen(site)
  t.after(() => closeServer(site))
  const connectTo = (/** @type {string} */ server) => {
    watchfire = server
  }
  const keepTo = (/** @type {string} */ text) => {
    policy = text
  }
  return { origin: `http://localhost:${port}`, connectTo, keepTo, requested }
}

/** The folder of the built site. Its packages are built from this repository. */
async function build() {
  buildPackages()
  const folder = newProject({})
  cpSync(path.join(REPOSITORY, 'examples/embed'), folder, { recursive: true })
  writeExamples(folder)
  const { build: bundle } = await loadVite()
  const rollupOptions = { input: ['index.html', ...EXAMPLES.map(({ file }) => file)].map((file) => path.join(folder, file)) }
  const settings = { target: 'es2023', modulePreload: { polyfill: false }, rollupOptions }
  await bundle({ root: folder, configFile: false, logLevel: 'error', build: settings })
  return path.join(folder, 'dist')
}
