// Simulated tabs of one page, as a program of the lab: the code of the web client on real sockets and real WebRTC, without a
// browser. `seed` publishes a file in one tab; `fetch N` opens the page in N tabs of one process.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'

import { bundleWeb } from '../../../tests/interop/lib/peers/bundle.mjs'
import { Tab } from '../../../tests/interop/lib/peers/simulated-tab.mjs'
import { variable } from '../variable.mjs'
import { contentBytes, emit, files, play, serverAddress, untilItMayFetch, wanted } from './lab.mjs'

const POLL_MS = 100

await play({ seed, fetch })

async function seed() {
  if (files.length !== 1) throw new Error('simulated tabs share one file')
  const [{ file }] = files
  const bytes = readFileSync(file)
  const hash = createHash('sha256').update(bytes).digest('hex')
  const bundle = await bundleWeb(variable('LAB_FOLDER'))
  const { web, open, limits } = await load(bundle)
  const content = [{ path: path.basename(file), blob: new Blob([bytes]) }]
  const publication = await web.publish(content, { pageBytesMax: limits.pageBytesMax })
  const tab = open(publication.root, publication)
  emit('shared', { cid: `${bytes.length} ${hash} ${publication.root} ${bundle}` })
  return () => totals([tab])
}

async function fetch() {
  const count = Number(process.argv[3] ?? 1)
  if (!Number.isInteger(count) || count < 1) throw new Error(`invalid number of tabs: ${process.argv[3]}`)
  if (wanted.length !== 1) throw new Error('simulated tabs fetch one file')
  const [[bytes, hash, root, bundle]] = wanted
  const { open } = await load(bundle)
  await untilItMayFetch()
  const tabs = Array.from({ length: count }, () => open(root, undefined))
  void emitUntilWhole(tabs, Number(bytes), hash)
  return () => totals(tabs)
}

/** The web client, and how it opens a page in a new tab. */
async function load(bundle) {
  const address = serverAddress()
  // A tab uses STUN of the host that served it.
  Object.assign(globalThis, { location: new URL(address) })
  const web = await import(bundle)
  const limits = await web.fetchLimits((path, init) => globalThis.fetch(new URL(path, address), init))
  const endpoint = `${address.replace('http', 'ws')}/socket`
  const open = (root, publication) => new Tab(web, { endpoint, limits, root, publication })
  return { web, open, limits }
}

async function emitUntilWhole(tabs, bytes, hash) {
  for (;;) {
    const reports = tabs.map((tab) => tab.report())
    const share = reports.reduce((sum, each) => sum + each.share, 0) / tabs.length
    emit('progress', { bytes: Math.floor(share * bytes) })
    if (reports.every(({ phase }) => phase === 'complete')) break
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  emit('held')
  for (const tab of tabs) {
    if ((await tab.hash()) === hash) continue
    process.stderr.write('cannot fetch: the content of a tab differs from what was shared\n')
    process.exit(1)
  }
}

function totals(tabs) {
  const reports = tabs.map((tab) => tab.report())
  for (const tab of tabs) tab.leave()
  const sum = (figure) => reports.reduce((total, each) => total + each[figure], 0)
  return {
    sent_bytes: sum('sentBytes') + sum('relayedBytes'),
    figures: {
      'content by relay, copies': sum('relayedBytes') / contentBytes,
      'content by relay between peers with an open connection, bytes': sum('relayedWhileDirect'),
      'content over direct connections, copies': sum('receivedBytes') / contentBytes,
      'ends of direct connections': sum('directConnectionsMade'),
      'peers dropped as malicious': sum('peersDropped'),
    },
    peaks: { 'connections of a peer at the same time': Math.max(...reports.map(({ connectionsMax }) => connectionsMax)) },
  }
}
