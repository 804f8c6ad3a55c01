// Live pages: entries that a tab or a terminal adds while others read.

import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'

import { Command } from '../../lib/command-line.mjs'
import { skipWithout } from '../../lib/engines/index.mjs'
import { newFolder } from '../../lib/folders.mjs'
import { file, picture } from '../fixtures.mjs'
import { addressOf, newVisitor, newVisitors, startServer } from '../page-driver.mjs'
import { add, beginLive, wordsOf } from './live-driver.mjs'

/** `watchfire get --follow` of a link. */
const follow = (t, link) => new Command(t, newFolder(), 'get', ['--follow', link])

test('a live page grows in the tabs of its readers and in a terminal, and late readers have all of it', async (t) => {
  const server = await startServer(t)
  const [publisher, reader, late] = await newVisitors(t, server, 3)
  const link = await beginLive(publisher, 'Harbour log', 'The fog lifts')
  await reader.goTo(link)
  await reader.tab.getByRole('heading', { name: 'Harbour log' }).waitFor()
  assert.deepEqual(await wordsOf(reader, 1), ['The fog lifts'])
  assert.equal(await reader.tab.getByRole('form', { name: 'Add to this page' }).count(), 0)
  const terminal = follow(t, link)
  assert.equal((await terminal.event('following')).title, 'Harbour log')
  assert.equal((await terminal.event('entry')).text, 'The fog lifts')

  let slowest = 0
  for (const words of ['The first boat', 'The second boat', 'The third boat']) {
    const begun = performance.now()
    await add(publisher, words)
    await reader.waitForText(words)
    slowest = Math.max(slowest, performance.now() - begun)
    assert.equal((await terminal.event('entry')).text, words)
  }
  t.diagnostic(`from the click to the reader's screen: at most ${Math.round(slowest)} ms`)
  // A second on an idle machine; tests share theirs.
  assert(slowest < 10_000, `${slowest} ms`)

  await add(publisher, 'A **bold** gull', 'Markdown')
  await reader.tab.locator('.feed strong', { hasText: 'bold' }).waitFor()
  await publisher.tab.locator('.append input[type=file]').setInputFiles([file('pier.png', picture(64, 48), 'image/png')])
  assert.deepEqual(await reader.waitForPicture('pier.png'), [64, 48])
  await reader.waitForText('Live · 6 entries')

  await publisher.leave()
  await late.goTo(link)
  await late.waitForText('Live · 6 entries')
  const expected = ['A bold gull', 'The third boat', 'The second boat', 'The first boat', 'The fog lifts']
  assert.deepEqual(await wordsOf(late, 6), expected)
  assert.deepEqual(await late.waitForPicture('pier.png'), [64, 48])

  if (skipWithout('disk') === false) {
    // The reader reloads while nobody else has the page.
    await late.leave()
    await terminal.interrupt()
    await reader.waitForText('nobody else has been here since')
    await reader.tab.reload()
    await reader.waitForText('The writer is not here. No entries can follow')
    assert.deepEqual(await wordsOf(reader, 6), expected)
    assert.deepEqual(await reader.waitForPicture('pier.png'), [64, 48])
  }
  for (const person of [publisher, reader, late]) person.assertNoPageErrors()
})

test('a browser shows the live page of a terminal', async (t) => {
  const server = await startServer(t)
  const share = new Command(t, newFolder(), 'share', ['--live', '--title', 'Server log', '--to', addressOf(server)], {}, 'pipe')
  const { page } = await share.event('live')
  share.write('begun\n')
  const [reader] = await newVisitors(t, server, 1)
  await reader.goTo(page)
  await reader.tab.getByRole('heading', { name: 'Server log' }).waitFor()
  await reader.waitForText('begun')
  share.write('200 GET /\n')
  await reader.waitForText('200 GET /')
  assert.deepEqual(await wordsOf(reader, 2), ['200 GET /', 'begun'])
  reader.assertNoPageErrors()
})

test('a live page whose key was stolen has forked, and every reader is told where', { skip: skipWithout('init-scripts') }, async (t) => {
  const server = await startServer(t)
  const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const people = []
  for (let n = 0; n < 2; n++) {
    const person = await newVisitor(t, server)
    await person.tab.addInitScript(useKey, jwk)
    people.push(person)
  }
  const [publisher, thief] = people
  // A thief who has seen the entry of the publisher would continue it.
  await thief.tab.addInitScript(joinLate)
  const reader = await newVisitor(t, server)
  const link = await beginLive(publisher, 'Score', '1 : 0')
  await reader.goTo(link)
  assert.deepEqual(await wordsOf(reader, 1), ['1 : 0'])
  // The same key, title and time make the same page.
  assert.equal(await beginLive(thief, 'Score', '0 : 9'), link)
  for (const person of [publisher, reader]) await person.waitForText('This page has forked at entry 1')
  assert.deepEqual(await wordsOf(reader, 1), ['1 : 0'])
  await reader.tab.locator('.feed').getByText('disputed').waitFor()
  assert.equal(await publisher.tab.getByRole('form', { name: 'Add to this page' }).count(), 0)
  const terminal = follow(t, link)
  assert.equal((await terminal.event('split')).number, 1)
  for (const person of [publisher, reader]) person.assertNoPageErrors()
})

/** Runs in a tab: makes its browser give out this key, at a time that stands still. */
function useKey(jwk) {
  const subtle = /** @type {any} */ (crypto.subtle)
  const generate = subtle.generateKey.bind(subtle)
  subtle.generateKey = async (algorithm, ...others) => {
    if (algorithm !== 'Ed25519') return generate(algorithm, ...others)
    const { kty, crv, x } = jwk
    return {
      privateKey: await subtle.importKey('jwk', jwk, algorithm, false, ['sign']),
      publicKey: await subtle.importKey('jwk', { kty, crv, x }, algorithm, true, ['verify']),
    }
  }
  Date.now = () => 1_800_000_000_000
}

/** Runs in a tab: its network is slow when it joins a page, so that its entry is made first. */
function joinLate() {
  const send = WebSocket.prototype.send
  WebSocket.prototype.send = function (data) {
    const isJoin = typeof data === 'string' && data.includes('"page:') && data.includes('phx_join')
    if (isJoin) setTimeout(() => send.call(this, data), 3000)
    else send.call(this, data)
  }
}
