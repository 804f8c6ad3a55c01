// A strict TypeScript program with the packages as they would be published: only the files that `npm pack` takes.

import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { newFolder } from '../lib/folders.mjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const TSC = path.join(REPOSITORY, 'web/node_modules/typescript/bin/tsc')
const PACKAGES = { client: 'clients/javascript', pages: 'web/packages/pages', element: 'web/packages/element' }

const PROGRAM = `
import { connect, ContentError, defaultLimits, fetchLimits, openPage, PrivateError, publish, publishPrivate, ReadablePage } from '@watchfire/pages'
import type { Connection, ConnectionState, Limits, Listing, PageSession, PageState, Publication } from '@watchfire/pages'
import { parseCid, type Cid } from '@watchfire/pages/content'
import { sizeText } from '@watchfire/pages/messages'
import { sweep } from '@watchfire/pages/disk'
import '@watchfire/element'
import type { WatchFire, WatchFireStatus } from '@watchfire/element'

const connection: Connection = connect('wss://example.org/socket')
connection.subscribe((state: ConnectionState, wait: number | null) => console.log(state, wait ?? 0))
const limits: Limits = await fetchLimits(fetch, { url: 'https://example.org/limits' })
const publication: Publication = await publish([{ path: 'a.txt', blob: new Blob(['a']) }], { pageBytesMax: limits.pageBytesMax })
const page: PageSession = openPage(publication.root, { connection, limits: defaultLimits, publication })
const sealed = await publishPrivate([{ path: 'a.txt', blob: new Blob(['a']) }], { name: 'a.txt' })
const readable = new ReadablePage(page, sealed.key)
readable.subscribe((state: PageState) => console.log(sizeText(state.receivedBytes), state.counts.watching))
const listing: Listing | null = readable.listing()
console.log(listing?.files.map(({ path, size }) => [path.length, size?.toFixed()]))
try {
  const cid: Cid = parseCid('none')
  console.log(cid.text)
} catch (reason) {
  if (reason instanceof ContentError || reason instanceof PrivateError) console.log(reason.message)
}
const element: WatchFire = document.createElement('watch-fire')
const status: WatchFireStatus = element.status
console.log(status, element.problem?.length, sweep)
// @ts-expect-error: a status is one of four
element.status === 'done'
// @ts-expect-error: a page needs a connection
openPage(publication.root, { limits })
`

/** The output of the compiler if it fails, or nothing. Types of the packages are checked too. */
export function typeErrors(moduleResolution) {
  const project = newFolder()
  for (const [name, source] of Object.entries(PACKAGES))
    unpack(path.join(REPOSITORY, source), path.join(project, 'node_modules/@watchfire', name))
  writeFileSync(path.join(project, 'package.json'), '{ "type": "module" }')
  writeFileSync(path.join(project, 'program.ts'), PROGRAM)
  const module = moduleResolution === 'nodenext' ? 'nodenext' : 'esnext'
  const lib = 'es2024,dom,dom.iterable,dom.asynciterable'
  const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--target', 'es2023', '--lib', lib]
  const options = [...flags, '--types', '', '--module', module, '--moduleResolution', moduleResolution, 'program.ts']
  const { status, stdout, stderr } = spawnSync(process.execPath, [TSC, ...options], { cwd: project, encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}` || `the compiler ended with ${status}`
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
