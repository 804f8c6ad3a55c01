// Our packages as they would be published: only the files that `npm pack` takes.

import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { newFolder } from '../lib/folders.mjs'

export const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url))
export const WEB = path.join(REPOSITORY, 'web')
/** The packages of others that ours need, and where they are installed here. */
const OTHERS = { '@noble': 'web/node_modules/@noble', phoenix: 'clients/javascript/node_modules/phoenix' }

const { exports } = JSON.parse(readFileSync(path.join(WEB, 'packages/pages/package.json'), 'utf8'))
/** The modules that programs can import, besides the element. */
export const ENTRY_POINTS = [
  '@watchfire/client',
  '@watchfire/client/connection',
  ...Object.keys(exports).map((point) => path.join('@watchfire/pages', point)),
]

/** The bundler of the web client. */
export const loadVite = () => import(pathToFileURL(createRequire(path.join(WEB, 'package.json')).resolve('vite')).href)

/** Builds and packs the packages. */
export function buildPackages() {
  execFileSync('make', ['packages'], { cwd: REPOSITORY, stdio: 'inherit' })
}

/** A new project in which the built packages are installed, with these files. */
export function newProject(files) {
  const project = newFolder()
  const modules = path.join(project, 'node_modules')
  for (const name of ['client', 'pages', 'element']) unpack(name, path.join(modules, '@watchfire', name))
  for (const [name, source] of Object.entries(OTHERS)) cpSync(path.join(REPOSITORY, source), path.join(modules, name), { recursive: true })
  for (const [name, text] of Object.entries({ 'package.json': '{ "type": "module" }', ...files }))
    writeFileSync(path.join(project, name), text)
  return project
}

/** Unpacks a package, as npm does. */
function unpack(name, target) {
  const folder = path.join(REPOSITORY, 'target/npm')
  const packed = readdirSync(folder).find((file) => file.startsWith(`watchfire-${name}-`))
  mkdirSync(target, { recursive: true })
  execFileSync('tar', ['-xzf', path.join(folder, packed), '-C', target, '--strip-components=1'])
}
