// A strict TypeScript program with the packages as they would be published: only the files that `npm pack` takes.

import { spawnSync } from 'node:child_process'
import path from 'node:path'

import { ENTRY_POINTS, newProject, WEB } from './packed.mjs'

const PROGRAM = `
import { connect, ContentError, defaultLimits, fetchLimits, openPage, PrivateError, publish, publishPrivate, ReadablePage, Watchfire } from '@watchfire/pages'
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
const fire = new Watchfire('https://example.org')
const shared = await fire.share([new File(['a'], 'a.txt')], { private: true })
console.log((await fire.open(shared.link, { key: shared.key })).link.length)
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

/** Some ways to find modules do not read `exports`. */
const everyEntryPoint = ENTRY_POINTS.map((name, i) => `import * as part${i} from '${name}'\nconsole.log(part${i})\n`).join('')

/** The output of the compiler if it fails, or nothing. Types of the packages are checked too. */
export function typeErrors(moduleResolution, compiler = path.join(WEB, 'node_modules/typescript/bin/tsc')) {
  const project = newProject({ 'program.ts': PROGRAM + everyEntryPoint })
  const module = moduleResolution === 'nodenext' ? 'nodenext' : 'esnext'
  const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--target', 'es2022']
  const options = [...flags, '--lib', 'es2022,dom,dom.iterable', '--module', module, '--moduleResolution', moduleResolution, 'program.ts']
  const { status, stdout, stderr } = spawnSync(process.execPath, [compiler, ...options], { cwd: project, encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}` || `the compiler ended with ${status}`
}
