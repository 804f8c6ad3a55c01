// A browser with WebTorrent, as a program of the lab. The node that shares also has the tracker, and the page that loads
// WebTorrent.

import { readFileSync } from 'node:fs'

import { address, contentBytes, emit, emitUntilDone, files, openTab, play, serveFiles, untilItMayFetch, wanted } from './lab.mjs'

/** The packages are those of the peer without a browser. */
const PACKAGES = new URL('../webtorrent/node_modules/', import.meta.url)

const TRACKER_PORT = 4100
const PAGE_PORT = 4101

const PAGE = `<!doctype html><title>WebTorrent</title><input type="file" multiple>
<script type="module">
  import WebTorrent from '/webtorrent.min.js'
  // Without STUN servers of others: all browsers are in one network.
  window.lab = { client: new WebTorrent({ tracker: { rtcConfig: { iceServers: [] } } }) }
</script>`

await play({ seed, fetch })

async function seed() {
  const announce = await startTracker()
  const bundle = new URL('webtorrent/dist/webtorrent.min.js', PACKAGES)
  const origin = await serveFiles(PAGE_PORT, {
    '/': { type: 'text/html', body: PAGE },
    '/webtorrent.min.js': { type: 'text/javascript', body: readFileSync(bundle) },
  })
  const { tab, close } = await openTab(origin)
  await tab.waitForFunction(() => window.lab?.client)
  for (const { file, bytes } of files) {
    await tab.locator('input').setInputFiles(file)
    const magnet = await tab.evaluate(
      (announce) =>
        new Promise((resolve, reject) => {
          window.lab.client.on('error', reject)
          window.lab.client.seed(document.querySelector('input').files, { announce: [announce] }, ({ magnetURI }) => resolve(magnetURI))
        }),
      announce,
    )
    emit('shared', { cid: `${bytes} ${origin} ${magnet}` })
  }
  return () => totals(close, tab)
}

async function fetch() {
  const [[, origin]] = wanted
  const { tab, nextDone, close } = await openTab(origin)
  await tab.waitForFunction(() => window.lab?.client)
  await untilItMayFetch()
  for (const [bytes, , magnet] of wanted) {
    const done = nextDone()
    await tab.evaluate((magnet) => {
      window.lab.torrent = window.lab.client.add(magnet)
      window.lab.torrent.on('done', () => window.labDone())
    }, magnet)
    await emitUntilDone(Number(bytes), done, () => tab.evaluate(() => window.lab.torrent.progress))
  }
  return () => totals(close, tab)
}

async function startTracker() {
  const { default: Tracker } = await import(new URL('bittorrent-tracker/server.js', PACKAGES).href)
  const tracker = new Tracker({ udp: false, http: false, ws: true })
  return new Promise((resolve, reject) => {
    tracker.once('error', reject)
    tracker.listen(TRACKER_PORT, address, () => resolve(`ws://${address}:${TRACKER_PORT}`))
  })
}

async function totals(close, tab) {
  const { sent, received } = await tab.evaluate(() => {
    const sum = (of) => window.lab.client.torrents.reduce((total, torrent) => total + torrent[of], 0)
    return { sent: sum('uploaded'), received: sum('received') }
  })
  await close()
  return { sent_bytes: sent, figures: { 'content over direct connections, copies': received / contentBytes } }
}
