// A browser with a page of Watchfire, as a program of the lab: `seed` shares files on it, `fetch` opens their links. With
// `fetch network`, a visit lasts until the page shows its path, and with `fetch path` until it is whole. Both have figures about the path.
// With `fetch webrtc`, the browser has no WebTransport.

import { removeWebTransport } from '../../../tests/interop/lib/chromium.mjs'
import { contentBytes, emit, emitUntilDone, files, openTab, play, serverAddress, untilItMayFetch, wanted } from './lab.mjs'
import { watchPath } from './watch-path.mjs'
import { watchTab } from './watch.mjs'

/** Messages of at least this size carry content; wants and haves are shorter. */
const CONTENT_BYTES_MIN = 65_536
/** A direct connection that did not come up in this time has failed. */
const PATH_MS = 30_000
const asksForPath = ['network', 'path'].includes(process.argv[3] ?? '')
const waitsForPath = process.argv[3] === 'network'

await play({ seed, fetch })

async function seed() {
  const { context, tab, close } = await open()
  const tabs = []
  for (const { file, bytes } of files) {
    const sharing = tabs.length === 0 ? tab : await context.newPage()
    tabs.push(sharing)
    await sharing.goto(serverAddress())
    await sharing.locator('input[type=file]').setInputFiles(file)
    await sharing.getByRole('button', { name: 'Light this page' }).click()
    const link = await sharing.getByRole('textbox', { name: 'Link to this page' }).inputValue()
    emit('shared', { cid: `${bytes} ${link}` })
  }
  return () => totals(close, tabs)
}

async function fetch() {
  // The app is cached, as for a visitor who has been here before.
  const { context, tab, nextDone, close } = await open()
  if (asksForPath) await context.addInitScript(watchPath, { contentBytesMin: CONTENT_BYTES_MIN })
  if (process.argv[3] === 'webrtc') await context.addInitScript(removeWebTransport)
  await untilItMayFetch()
  const tabs = []
  for (const [bytes, link] of wanted) {
    const visiting = tabs.length === 0 ? tab : await context.newPage()
    tabs.push(visiting)
    const done = nextDone()
    // The publisher may reach the server at another address.
    await visiting.goto(link.replace(new URL(link).origin, serverAddress()))
    if (asksForPath) await showConnections(visiting)
    const isKnown = waitsForPath ? done.then(() => visiting.waitForFunction(() => window.path.isKnown(), null, { timeout: PATH_MS })) : done
    await emitUntilDone(Number(bytes), isKnown, () => visiting.evaluate(() => window.watched.share()))
  }
  return async () => {
    const paths = asksForPath ? await Promise.all(tabs.map((tab) => tab.evaluate(() => window.path.report()))) : []
    const { figures, ...other } = await totals(close, tabs)
    return { ...other, figures: Object.assign(figures, ...paths) }
  }
}

async function showConnections(tab) {
  const details = tab.getByRole('button', { name: 'Details', exact: true })
  if ((await details.getAttribute('aria-expanded')) === 'false') await details.click()
  await tab.getByRole('button', { name: 'Connections' }).click()
}

function open() {
  return openTab(serverAddress(), [watchTab, { contentBytesMin: CONTENT_BYTES_MIN }])
}

async function totals(close, tabs) {
  const reports = await Promise.all(tabs.map((tab) => tab.evaluate(() => window.watched.report())))
  await close()
  const sum = (of) => reports.reduce((total, report) => total + of(report), 0)
  const direct = (side) => sum(({ connections }) => connections.reduce((total, each) => total + each[side], 0))
  const relayed = sum((report) => report.relayed.contentBytes)
  return {
    sent_bytes: direct('sent') + relayed,
    figures: {
      'content by relay, copies': relayed / contentBytes,
      'content by relay between peers with an open connection, bytes': sum((report) => report.relayed.contentBytesWhileDirect),
      'content over direct connections, copies': direct('received') / contentBytes,
      'ends of direct connections': sum(({ connections }) => connections.filter(({ hasOpened }) => hasOpened).length),
    },
  }
}
