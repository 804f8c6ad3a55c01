// A browser that opens hostile pages and records all of its network activity.

import assert from 'node:assert/strict'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { launchWithProfile } from '../lib/chromium.mjs'
import { engineOfTests } from '../lib/engines/index.mjs'
import { newFolder } from '../lib/folders.mjs'
import { startLeakDetector } from './leak-detector.mjs'

/** The host of a site: the CID of its page. */
const SITE_HOST = /^b[a-z2-7]{50,}\.localhost$/

/** Opens a browser of the engine of the tests, and records what it opens. Chromium writes a log of its network activity. */
export async function launchRecordedBrowser(t) {
  const { context, readLog } = engineOfTests.name === 'chromium' ? await launchLoggedChromium() : await launchOther(t)
  t.after(() => context.close())
  const popups = []
  const watch = (tab) => {
    tab.on('popup', (popup) => popups.push(`popup ${popup.url()}`))
    tab.on('download', (download) => popups.push(`download ${download.url()}`))
    tab.on('dialog', (dialog) => {
      popups.push(`dialog ${dialog.message()}`)
      // It is gone when its page is.
      void dialog.dismiss().catch(() => {})
    })
  }
  if (!('events' in engineOfTests.lacks)) {
    context.pages().forEach(watch)
    context.on('page', watch)
  }
  return {
    context,
    popups,
    async closeAndReadLog() {
      await context.close()
      return readLog()
    },
  }
}

/** Another engine, without a log: only the leak detector notices its requests. */
async function launchOther(t) {
  const browser = await engineOfTests.launch({ direct: true })
  t.after(() => browser.close())
  return { context: await browser.newContext(), readLog: () => '' }
}

/** Chromium prefetches names here, as most browsers do and Debian's does not. */
async function launchLoggedChromium() {
  const profile = newFolder()
  await mkdir(path.join(profile, 'Default'))
  const preferences = { net: { network_prediction_options: 0 } }
  await writeFile(path.join(profile, 'Default', 'Preferences'), JSON.stringify(preferences))
  const record = path.join(profile, 'network.json')
  const context = await launchWithProfile(profile, [`--log-net-log=${record}`])
  return { context, readLog: () => readFile(record, 'utf8') }
}

/** Whether a page may not leave this cookie. A site may keep its own ones where the browser has no frames without stored data. */
function isForbiddenCookie({ domain }) {
  return !('credentialless' in engineOfTests.lacks && SITE_HOST.test(domain))
}

/** The names under which the app itself remembers the tab, its pages, their keys, crowds and drafts. */
const OF_APP = ['watchfire:crowds', 'watchfire:disk', 'watchfire:pages', 'watchfire:tab', 'watchfire-keys', 'watchfire-drafts']

/** Asserts that the app around the page is unchanged, and that the browser has stored nothing but the app's own. */
export async function assertAppUnchanged(visitor, { context, popups }, name) {
  const { pathname } = new URL(await visitor.tab.url())
  assert.match(pathname, /^\/p\//, `${name} moved the app`)
  const kept = await visitor.tab.evaluate(
    async (ofApp) => ({
      pwned: 'pwned' in window,
      stored: [...Object.keys(localStorage), ...Object.keys(sessionStorage)].filter((key) => !ofApp.includes(key)),
      cookie: document.cookie,
      databases: (await indexedDB.databases()).map(({ name }) => name ?? '').filter((name) => !ofApp.includes(name)),
      caches: (await caches.keys()).length,
      workers: (await navigator.serviceWorker.getRegistrations()).length,
    }),
    OF_APP,
  )
  assert.deepEqual(kept, { pwned: false, stored: [], cookie: '', databases: [], caches: 0, workers: 0 }, name)
  assert.deepEqual((await context.cookies()).filter(isForbiddenCookie), [], name)
  assert.deepEqual(popups, [], name)
  await visitor.tab.getByRole('region', { name: 'Who has this page' }).waitFor()
}

/**
 * Asserts that nothing reached the detector, after a request of the same browser has reached another one. Scripts may have opened what
 * the engine cannot block.
 */
export async function assertNothingSent(t, leakDetector, suspect, names, { opened = [] } = {}) {
  const last = await startLeakDetector(t)
  const tab = await suspect.context.newPage()
  await tab.goto(`${last.url}/last`)
  await last.called('/last')
  const log = await suspect.closeAndReadLog()
  assert.deepEqual(leakDetector.requests, [])
  if (!opened.includes('datagrams')) assert.deepEqual(leakDetector.datagrams, [])
  if (!opened.includes('connections')) assert.equal(leakDetector.connections, 0, 'a connection was made, without a request')
  for (const host of names) assert(!log.includes(host), `the browser looked up ${host}`)
}

/** Asserts that the page says that its scripts can open connections, if they can. Returns what they can open. */
export async function assertWarning(visitor) {
  const { opens } = engineOfTests
  const warning = visitor.tab.getByText('your browser cannot block every connection')
  if (opens.length > 0) await warning.first().waitFor()
  else assert.equal(await warning.count(), 0)
  return opens
}
