// Servers that name each other: a page that is lit on one opens on the others, until its last viewer anywhere has left.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { newDirectVisitor } from './direct-connections.mjs'
import { file, noise, picture } from './fixtures.mjs'
import { linkOn, relayed, startNeighbours } from './neighbour-servers.mjs'
import { addressOf, newVisitor, startServer, WAIT_MS } from './page-driver.mjs'

const UNAVAILABLE = 'Nobody has this page right now'
/** A page that nobody has. */
const ABSENT = 'bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy'
const MIB = 1 << 20

test('a page lit on one server opens on two others, and all sentences and counts are true until the last has left', async (t) => {
  const servers = await startNeighbours(t, 3)
  const [a, b, c] = servers
  const author = await newVisitor(t, a)
  const link = await author.sharePage({ text: 'We sat by three fires.' })
  await author.waitForStatus('Only you are looking at it')

  const ofB = await newVisitor(t, b)
  await ofB.goTo(linkOn(b, link))
  await ofB.waitForText('We sat by three fires.')
  for (const person of [author, ofB]) await person.waitForStatus('2 people have all of it, including you')

  const ofC = await newVisitor(t, c)
  await ofC.goTo(linkOn(c, link))
  await ofC.waitForText('We sat by three fires.')
  for (const person of [author, ofB, ofC]) await person.waitForStatus(/[23] people have all of it, including you/)

  // The author leaves, and then the reader on B: each server finds the page where it still is.
  await author.leave()
  const late = await newVisitor(t, a)
  await late.goTo(link)
  await late.waitForText('We sat by three fires.')
  await ofB.leave()
  await late.leave()
  await ofC.waitForStatus('Only you are looking at it')
  await ofC.waitForStatus('Only you have this page')
  await ofC.leave()
  for (const server of servers) {
    const visitor = await newVisitor(t, server)
    await visitor.goTo(linkOn(server, link))
    await visitor.waitForText(UNAVAILABLE)
    visitor.assertNoPageErrors()
  }
  for (const person of [author, ofB, ofC, late]) person.assertNoPageErrors()
})

test('a page of a neighbour takes one round trip after its connection is open', {
  skip: skipWithout('devtools'),
}, async (t) => {
  const [a, b] = await startNeighbours(t, 2)
  const author = await newVisitor(t, a)
  const link = await author.sharePage({ text: 'We sat by two fires.' })
  const reader = await newVisitor(t, b)
  const events = []
  reader.tab.on('request', (request) => request.url().includes('/assets/away-') && events.push('code'))
  reader.tab.on('websocket', (socket) => {
    const server = socket.url().includes(`:${a.port}/`) ? 'A' : 'B'
    const note = (what, payload) => {
      const isJoin = typeof payload === 'string' && payload.includes('"page:')
      if (isJoin || server === 'A') events.push(`${server} ${what} ${isJoin ? 'join' : 'relay'}`)
    }
    socket.on('framesent', ({ payload }) => note('gets', payload))
    socket.on('framereceived', ({ payload }) => note('replies to', payload))
  })
  await reader.goTo(linkOn(b, link))
  await reader.waitForText('We sat by two fires.')
  t.diagnostic(events.join(', '))
  assert(events.includes('code') && events.indexOf('code') < events.indexOf('A gets join'), 'the code is loaded before')
  const ofA = events.filter((each) => each.startsWith('A'))
  assert.deepEqual(ofA.slice(0, 2), ['A gets join', 'A gets relay'], 'the request for the first block goes with the join')
})

test('a tab that waits is told when the page burns at a neighbour, and when it has gone there', async (t) => {
  const [a, b] = await startNeighbours(t, 2)
  const author = await newVisitor(t, a)
  const link = await author.sharePage({ text: 'Lit again.' })
  await author.leave()

  const waiting = await newVisitor(t, b)
  await waiting.goTo(linkOn(b, link))
  await waiting.waitForText(UNAVAILABLE)
  const again = await newVisitor(t, a)
  assert.equal(await again.sharePage({ text: 'Lit again.' }), link)
  await waiting.waitForText('Lit again.')
  await again.leave()
  await waiting.waitForStatus('Only you have this page')
})

test('a server that is killed ends no page that has a viewer elsewhere', async (t) => {
  const [a, b] = await startNeighbours(t, 2)
  const author = await newVisitor(t, a)
  const link = await author.sharePage({ files: [file('embers.bin', noise(3 * MIB))] })
  const ofB = await newVisitor(t, b)
  await ofB.goTo(linkOn(b, link))
  await ofB.waitUntilComplete()
  a.kill()
  const late = await newVisitor(t, b)
  await late.goTo(linkOn(b, link))
  await late.waitUntilComplete()
  // The tab of the author goes on at B.
  for (const person of [author, ofB, late]) await person.waitForStatus('3 people have all of it, including you')
})

test('tabs whose server is killed meet at its neighbour within five seconds, and new readers find the page there', async (t) => {
  const [a, b] = await startNeighbours(t, 2, { 'limits.relay_bytes_per_second_per_peer': MIB })
  const author = await newVisitor(t, a)
  const link = await author.sharePage({ files: [file('embers.bin', noise(12 * MIB))] })
  const reader = await newVisitor(t, a)
  await reader.goTo(link)
  const arrived = await waitUntil(async () => {
    const bytes = await relayed(a)
    return bytes > 3 * MIB && bytes
  }, 'a part of the page has arrived')
  a.kill()
  const killedAt = performance.now()
  const metOn = async () => (await b.metric('watchfire_channels_guests')) === 2 && (await relayed(b)) > 0
  await waitUntil(metOn, 'both tabs are at the neighbour')
  const ms = performance.now() - killedAt
  t.diagnostic(`they met after ${Math.round(ms)} ms`)
  assert(ms < 5_000, `they met after ${ms} ms`)
  await reader.waitUntilComplete()
  // A block that has arrived in part is fetched again.
  const rest = 12 * MIB - arrived
  const after = await relayed(b)
  assert(after < rest + 3 * MIB, `${after} bytes came after ${arrived} before`)
  const late = await newVisitor(t, b)
  await late.goTo(linkOn(b, link))
  await late.waitUntilComplete()
})

test('a link of a server that was killed opens in a browser that was there before, with the page from its neighbour', async (t) => {
  const [a, b] = await startNeighbours(t, 2)
  const author = await newVisitor(t, b)
  const onB = new URL(await author.sharePage({ text: 'We sat by two fires.', files: [file('hills.png', picture(40, 30), 'image/png')] }))
  const reader = await newVisitor(t, a)
  const link = `${linkOn(a, onB)}#at=${addressOf(b)}`
  await reader.goTo(link)
  await reader.waitForText('We sat by two fires.')
  const kept = () =>
    reader.tab.evaluate(async () => {
      const store = (await caches.has('watchfire-app')) && (await caches.open('watchfire-app'))
      return store ? (await store.keys()).map(({ url }) => new URL(url).pathname) : []
    })
  await waitUntil(async () => (await kept()).includes('/'), 'the app is kept', WAIT_MS)
  const files = await kept()
  assert(files.length > 5 && files.every((name) => /^\/(?:assets\/[\w.-]+)?$/.test(name)), files.join(' '))
  assert(
    files.some((name) => name.startsWith('/assets/away-')),
    files.join(' '),
  )

  a.kill()
  const other = await reader.openAnotherTab()
  await reader.leave()
  // A page that this browser has never had.
  const later = await author.openAnotherTab()
  const laterOnB = await later.sharePage({ text: 'And a third one.' })
  await other.goTo(linkOn(a, laterOnB))
  await other.waitForText('And a third one.')
  await other.goTo(link)
  await other.waitForText('We sat by two fires.')
  await other.waitForPicture('hills')
  await other.waitUntilComplete()
  // A server that nobody knows is still asked about.
  await other.goTo(`${addressOf(a)}/p/${ABSENT}#at=http://127.0.0.1:19`)
  await other.waitForText('Look for this page at 127.0.0.1:19?')

  // The server is back, and its document differs from the kept one.
  await startServer(t, { port: a.port, settings: { 'server.public_url': 'https://fire.example' } })
  await other.goTo('/')
  const linked = await other.tab.locator('meta[property="og:image"]').getAttribute('content')
  assert.equal(linked, 'https://fire.example/link.png')
})

test('content passes no server between tabs of two servers that can connect directly', { skip: skipInShortRun }, async (t) => {
  const slow = { 'limits.relay_bytes_per_second_per_peer': MIB }
  const [a, b] = await startNeighbours(t, 2, slow)
  const author = await newDirectVisitor(t, a)
  const link = await author.sharePage({ files: [file('embers.bin', noise(24 * MIB))] })
  const reader = await newDirectVisitor(t, b)
  await reader.goTo(linkOn(b, link))
  await reader.waitUntilComplete()
  const bytes = (await relayed(a)) + (await relayed(b))
  t.diagnostic(`${bytes} of ${24 * MIB} bytes passed a server`)
  assert(bytes < 2.4 * MIB, `${bytes} bytes passed a server`)
  assert.equal(await relayed(b), 0, 'the home server of the reader relays nothing of a page that only its neighbour has')
})

test('a guest may join pages of a neighbour, and nothing else there', async (t) => {
  const [a, b] = await startNeighbours(t, 2, { 'channels.open_rooms': true })
  const guest = await newVisitor(t, b)
  await guest.goTo('/')
  const refusals = await guest.tab.evaluate(
    async ([endpoint, cid]) => {
      const join = (topic, payload) =>
        new Promise((resolve, reject) => {
          const socket = new WebSocket(`${endpoint}/websocket?vsn=2.0.0`)
          socket.onerror = () => reject(new Error('no connection'))
          socket.onopen = () => socket.send(JSON.stringify(['1', '1', topic, 'phx_join', payload]))
          socket.onmessage = ({ data }) => {
            socket.close()
            resolve(JSON.parse(data)[4].status)
          }
        })
      return Promise.all([join(`page:${cid}`, { have: 'none' }), join('rooms:lobby', {}), join('sprites:desk', {}), join('site', {})])
    },
    [`ws://localhost:${a.port}/socket`, ABSENT],
  )
  assert.deepEqual(refusals, ['ok', 'error', 'error', 'error'])
})
