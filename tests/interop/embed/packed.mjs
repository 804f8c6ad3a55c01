// Our packages as they would be published: only the files that `npm pack` takes.

import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { newFolder } from '../lib/folders.mjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
export const WEB = path.join(REPOSITORY, 'web')
const PACKAGES = { client: 'clients/javascript', pages: 'web/packages/pages', element: 'web/packages/element' }
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

/** Builds the packages. */
export function buildPackages() {
  execFileSync('node', [path.join(WEB, 'packages/build.js')], { stdio: 'inherit' })
}

/** A new project in which the built packages are installed, with these files. */
export function newProject(files) {
  const project = newFolder()
  const modules = path.join(project, 'node_modules')
  for (const [name, source] of Object.entries(PACKAGES)) unpack(path.join(REPOSITORY, source), path.join(modules, '@watchfire', name))
  for (const [name, source] of Object.entries(OTHERS)) cpSync(path.join(REPOSITORY, source), path.join(modules, name), { recursive: true })
  for (const [name, text] of Object.entries({ 'package.json': '{ "type": "module" }', ...files }))
    writeFileSync(path.join(project, name), text)
  return project
}

/** Copies the files of a package that would be published. */
function unpack(source, target) {
  const packed = execFileSync('npm', ['pack', '--json', '--dry-run', '--ignore-scripts'], { cwd: source, encoding: 'utf8' })
  const [{ files }] = JSON.parse(packed)
  for (const { path: file } of files) {
    mkdirSync(path.dirname(path.join(target, file)), { recursive: true })
    cpSync(path.join(source, file), path.join(target, file))
  }
}
