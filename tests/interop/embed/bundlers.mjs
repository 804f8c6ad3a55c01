// Bundles a site with the packages as its author would, with the defaults of each bundler.

import { mkdirSync } from 'node:fs'
import path from 'node:path'

import { loadVite } from './packed.mjs'

/** The packages that only this suite needs: see `package.json` beside it. */
export const load = (/** @type {string} */ name) => import(name)
/** The newest one is that of the web client. */
const viteOf = (version) => (version === 8 ? loadVite() : load(`vite-${version}`))

/** Bundles `main.js` of a project, and returns the folder with `index.html` in it. */
const BUNDLERS = {
  async esbuild(project) {
    const { build } = await load('esbuild')
    // The frameworks are installed beside this file.
    const nodePaths = [path.join(import.meta.dirname, 'node_modules')]
    const options = { nodePaths, bundle: true, format: 'esm', splitting: true, outdir: path.join(project, 'dist'), logLevel: 'error' }
    await build({ entryPoints: [path.join(project, 'main.js')], define: { 'process.env.NODE_ENV': '"development"' }, ...options })
  },
  async 'esbuild as one script'(project) {
    const { build } = await load('esbuild')
    const options = { bundle: true, format: 'iife', minify: true, outdir: path.join(project, 'dist'), logLevel: 'error' }
    await build({ entryPoints: [path.join(project, 'main.js')], logOverride: { 'empty-import-meta': 'silent' }, ...options })
  },
  async rollup(project) {
    const { rollup } = await load('rollup')
    const { nodeResolve } = await load('@rollup/plugin-node-resolve')
    const bundle = await rollup({ input: path.join(project, 'main.js'), plugins: [nodeResolve({ browser: true })], logLevel: 'silent' })
    await bundle.write({ dir: path.join(project, 'dist'), format: 'es' })
  },
  async webpack(project) {
    const { default: webpack } = await load('webpack')
    const output = { path: path.join(project, 'dist'), filename: 'main.js' }
    const compiler = webpack({ mode: 'production', context: project, entry: './main.js', output, performance: false })
    const stats = await new Promise((resolve, reject) => compiler.run((error, done) => (error ? reject(error) : resolve(done))))
    if (stats.hasErrors()) throw new Error(stats.toString())
  },
}

for (const version of [5, 6, 7, 8]) {
  BUNDLERS[`Vite ${version}`] = async (project) => {
    const { build } = await viteOf(version)
    await build({ root: project, configFile: false, logLevel: 'error', build: { emptyOutDir: true } })
  }
}

export const NAMES = Object.keys(BUNDLERS)
export const VITES = [5, 6, 7, 8]

/** The folder with the files of the bundled site. */
export async function bundle(name, project) {
  mkdirSync(path.join(project, 'dist'), { recursive: true })
  await BUNDLERS[name](project)
  return path.join(project, 'dist')
}

/** Starts the server with which an author works on a site, and returns its port. */
export async function develop(t, version, project) {
  const { createServer } = await viteOf(version)
  const server = await createServer({ root: project, configFile: false, logLevel: 'error', server: { host: 'localhost', port: 0 } })
  await server.listen()
  t.after(() => server.close())
  return server.httpServer.address().port
}
