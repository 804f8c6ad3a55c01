// The tab that began a live page is reloaded, duplicated and closed. Its key lives as long as its blocks, and forks nothing.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../../lib/deadlines.mjs'
import { skipWithout } from '../../lib/engines/index.mjs'
import { ageClosedTabs, filesOnDisk } from '../browser-storage.mjs'
import { file, picture } from '../fixtures.mjs'
import { addressOf, newVisitor, newVisitors, startServer, WAIT_MS } from '../page-driver.mjs'
import { add, beginLive, duplicate, formOf, keysOf, wordsOf } from './live-driver.mjs'

const CAN_RELOAD = 'Only this tab can add entries. You can reload it.'

test('a publisher reloads while nobody else has the page, and adds to it again; late readers have all of it', {
  skip: skipWithout('disk'),
}, async (t) => {
  const [publisher, late, later] = await newVisitors(t, await startServer(t), 3)
  const link = await beginLive(publisher, 'Harbour log', 'The fog lifts')
  await publisher.waitForText(CAN_RELOAD)
  await publisher.tab.locator('.append input[type=file]').setInputFiles([file('pier.png', picture(64, 48), 'image/png')])
  await publisher.waitForText('Live · 2 entries')
  await add(publisher, 'The first boat')
  await publisher.waitForText('Live · 3 entries')
  // As soon as the publisher sees an entry.
  await publisher.tab.reload()
  await publisher.waitForText('Live · 3 entries')
  assert.deepEqual(await wordsOf(publisher, 3), ['The first boat', 'The fog lifts'])
  assert.deepEqual(await publisher.waitForPicture('pier.png'), [64, 48])
  await publisher.waitForText(CAN_RELOAD)
  await add(publisher, 'The second boat')
  await publisher.waitForText('Live · 4 entries')
  await publisher.tab.reload()
  await add(publisher, 'The third boat')

  await late.goTo(link)
  await late.waitForText('Live · 5 entries')
  const expected = ['The third boat', 'The second boat', 'The first boat', 'The fog lifts']
  assert.deepEqual(await wordsOf(late, 5), expected)
  assert.deepEqual(await late.waitForPicture('pier.png'), [64, 48])
  await publisher.leave()
  await later.goTo(link)
  assert.deepEqual(await wordsOf(later, 5), expected)
  for (const person of [publisher, late, later]) person.assertNoPageErrors()
})

test('a publisher reloads an empty live page, and adds the first entry', { skip: skipWithout('disk') }, async (t) => {
  const [publisher] = await newVisitors(t, await startServer(t), 1)
  await publisher.goTo('/')
  await publisher.tab.getByRole('switch', { name: 'Live' }).check()
  await publisher.tab.getByRole('button', { name: 'Light this page' }).click()
  await formOf(publisher).waitFor()
  await publisher.tab.reload()
  await add(publisher, 'At last')
  assert.deepEqual(await wordsOf(publisher, 1), ['At last'])
  publisher.assertNoPageErrors()
})

test('a duplicated tab of a publisher reads the page and cannot add to it', { skip: skipWithout('disk') }, async (t) => {
  const [publisher] = await newVisitors(t, await startServer(t), 1)
  await beginLive(publisher, 'Score', '1 : 0')
  const copy = await duplicate(publisher)
  assert.deepEqual(await wordsOf(copy, 1), ['1 : 0'])
  assert.equal(await formOf(copy).count(), 0)
  await add(publisher, '2 : 0')
  await copy.waitForText('2 : 0')
  for (const { tab } of [copy, publisher]) await tab.reload()
  await add(publisher, '3 : 0')
  for (const person of [copy, publisher]) assert.deepEqual(await wordsOf(person, 3), ['3 : 0', '2 : 0', '1 : 0'])
  assert.equal(await formOf(copy).count(), 0)
  publisher.assertNoPageErrors()
})

test('two tabs of a browser that both have the key do not fork the page', { skip: skipWithout('disk') }, async (t) => {
  const [publisher, reader] = await newVisitors(t, await startServer(t), 2)
  const link = await beginLive(publisher, 'Score', '1 : 0')
  await reader.goTo(link)
  await publisher.tab.evaluate(loseLock)
  const copy = await duplicate(publisher)
  await formOf(copy).waitFor()
  // The publisher's tab has begun to sign an entry with the number of the copy's next one.
  await publisher.tab.evaluate(signLate)
  await add(publisher, '1 : 1')
  await publisher.tab.waitForFunction(() => 'finishSigning' in window)
  await add(copy, '2 : 0')
  await reader.waitForText('2 : 0')
  await publisher.tab.evaluate(() => window['finishSigning']())
  await publisher.waitForText('Another tab of this browser has added an entry')
  await publisher.waitForText('2 : 0')

  await add(copy, '3 : 0')
  for (const person of [publisher, copy, reader]) {
    assert.deepEqual(await wordsOf(person, 3), ['3 : 0', '2 : 0', '1 : 0'])
    assert.equal(await person.tab.getByText('forked').count(), 0)
  }
  for (const person of [publisher, reader]) person.assertNoPageErrors()
})

test('the key of a live page is removed with its page, and a minute after its tab is closed', { skip: skipWithout('disk') }, async (t) => {
  const [publisher] = await newVisitors(t, await startServer(t), 1)
  await beginLive(publisher, 'One', 'first')
  const second = await publisher.openAnotherTab()
  await beginLive(second, 'Two', 'first')
  assert.equal(await keysOf(second), 2)
  await publisher.tab.getByRole('link', { name: 'Watchfire' }).click()
  await publisher.tab.getByRole('button', { name: /^Stop sharing/ }).click()
  await waitUntil(async () => (await keysOf(second)) === 1, 'the key of the closed page is removed', WAIT_MS)

  const other = await publisher.openAnotherTab()
  await second.leave()
  await publisher.leave()
  await other.goTo('/')
  await waitUntil(() => ageClosedTabs(other), 'the tab has left', WAIT_MS)
  assert.equal(await keysOf(other), 1)
  await other.tab.reload()
  await waitUntil(async () => (await keysOf(other)) === 0, 'no key is left', WAIT_MS)
  await waitUntil(async () => (await filesOnDisk(other)).length === 0, 'nothing else is left', WAIT_MS)
  other.assertNoPageErrors()
})

test('a live page without room on the disk says that a reload ends it', { skip: skipWithout('devtools') }, async (t) => {
  const server = await startServer(t)
  const publisher = await newVisitor(t, server)
  await publisher.goTo('/')
  const devtools = await publisher.tab.context().newCDPSession(publisher.tab)
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: addressOf(server), quotaSize: 1 })
  await beginLive(publisher, 'Harbour log', 'The fog lifts')
  await publisher.waitForText('After you close or reload it, nobody can add any more')
  await add(publisher, 'The first boat')
  assert.deepEqual(await wordsOf(publisher, 2), ['The first boat', 'The fog lifts'])
  publisher.assertNoPageErrors()
})

/** Runs in a tab: it loses the lock that shows that it lives, as a tab may that the browser has put into its cache. */
function loseLock() {
  const id = sessionStorage.getItem('watchfire:tab')
  return navigator.locks.request(`watchfire:tab:${id}`, { steal: true }, () => undefined)
}

/** Runs in a tab: its next signature waits until `finishSigning` is called. */
function signLate() {
  const sign = crypto.subtle.sign.bind(crypto.subtle)
  crypto.subtle.sign = async (...args) => {
    crypto.subtle.sign = sign
    await new Promise((resolve) => (window['finishSigning'] = resolve))
    return sign(...args)
  }
}
