// A browser that opens what may be hostile, and is watched while it does.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { launchWithProfile } from '../lib/chromium.mjs'
import { keepCanary } from './canary.mjs'

/**
 * A browser that does what most do and Debian's does not, looking up names ahead of need, and that
 * writes down all of its network's doings.
 */
export async function arriveRecorded(t) {
  const profile = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
  t.after(() => rm(profile, { recursive: true, force: true }))
  await mkdir(path.join(profile, 'Default'))
  const preferences = { net: { network_prediction_options: 0 } }
  await writeFile(path.join(profile, 'Default', 'Preferences'), JSON.stringify(preferences))
  const record = path.join(profile, 'network.json')
  const context = await launchWithProfile(profile, [`--log-net-log=${record}`])
  t.after(() => context.close())
  const popups = []
  const watch = (tab) => {
    tab.on('popup', (popup) => popups.push(`popup ${popup.url()}`))
    tab.on('download', (download) => popups.push(`download ${download.url()}`))
    tab.on('dialog', (dialog) => {
      popups.push(`dialog ${dialog.message()}`)
      void dialog.dismiss()
    })
  }
  context.pages().forEach(watch)
  context.on('page', watch)
  return {
    context,
    popups,
    async endsAndTells() {
      await context.close()
      return readFile(record, 'utf8')
    },
  }
}

/** The app around the page is as it was, and the browser has kept nothing. */
export async function assertUntouched(visitor, { context, popups }, name) {
  const { pathname } = new URL(visitor.tab.url())
  assert.match(pathname, /^\/p\//, `${name} moved the app`)
  const kept = await visitor.tab.evaluate(async () => ({
    pwned: 'pwned' in window,
    local: localStorage.length,
    session: sessionStorage.length,
    cookie: document.cookie,
    databases: (await indexedDB.databases()).length,
    caches: (await caches.keys()).length,
    workers: (await navigator.serviceWorker.getRegistrations()).length,
  }))
  assert.deepEqual(
    kept,
    { pwned: false, local: 0, session: 0, cookie: '', databases: 0, caches: 0, workers: 0 },
    name,
  )
  assert.deepEqual(await context.cookies(), [], name)
  assert.deepEqual(popups, [], name)
  await visitor.tab.getByRole('region', { name: 'Who keeps this page' }).waitFor()
}

/** Nothing came to the canary, after a request of our own by the same browser has come to another. */
export async function assertUnheard(t, canary, suspect, names) {
  const last = await keepCanary(t)
  const tab = await suspect.context.newPage()
  await tab.goto(`${last.url}/last`)
  await last.called('/last')
  const log = await suspect.endsAndTells()
  assert.deepEqual(canary.requests, [])
  assert.deepEqual(canary.datagrams, [])
  assert.equal(canary.connections, 0, 'a connection was made, without a request')
  for (const host of names) assert(!log.includes(host), `the browser looked up ${host}`)
}
