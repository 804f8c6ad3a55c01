// 600 clients of a page on three servers that are neighbours. They are the web client without its screen, in the process of the test.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import WebSocket from 'ws'

import { noise } from '../browser/fixtures.mjs'
import { startNeighbours } from '../browser/neighbour-servers.mjs'
import { addressOf } from '../browser/page-driver.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { bundleWeb } from '../lib/peers/bundle.mjs'

/** Clients of each server: those that load the page, and those that have none of it and wait. */
const [READERS, WAITING] = [150, 50]
const PAGE_BYTES = 20_000
const ALL_MS = 300_000
const TOLD_MS = 5_000

/** Connects as a tab of a server does. */
function connectTo(web, server) {
  const origin = addressOf(server)
  const transport = class extends WebSocket {
    constructor(url, protocols) {
      super(url, protocols, { origin })
    }
  }
  const connection = web.connect(`${origin.replace('http', 'ws')}/socket`, { transport })
  // To another server. Node has no WebSocket of its own.
  connection.connect = (endpoint) => web.connect(endpoint, { transport })
  return connection
}

/** A client that joins a page without a block, and notes whether its server says that somebody has the page. */
class Waiting {
  isTold = false
  watching = 0
  #isHere = false
  #isElsewhere = false
  #connection

  constructor(web, server, root) {
    this.#connection = connectTo(web, server)
    const events = ['counts', 'available', 'unavailable', 'elsewhere']
    const joined = ({ counts, elsewhere = [] }) => {
      this.#note({ isHere: counts.holders > 0, isElsewhere: elsewhere.length > 0 })
      this.watching = counts.watching
    }
    const message = (event, payload) => {
      if (event === 'counts') this.watching = payload.watching
      else if (event === 'elsewhere') this.#note({ isElsewhere: payload.servers.length > 0 })
      else this.#note({ isHere: event === 'available' })
    }
    this.#connection.join(`page:${root}`, events, { params: () => ({ have: 'none' }), joined, message, refused: assert.fail, lost() {} })
  }

  #note({ isHere = this.#isHere, isElsewhere = this.#isElsewhere }) {
    Object.assign(this, { isTold: isHere || isElsewhere })
    this.#isHere = isHere
    this.#isElsewhere = isElsewhere
  }

  leave() {
    this.#connection.close()
  }
}

/** A tab that has the page open. */
class Tab {
  state
  #connection
  #session

  constructor(web, server, options) {
    this.#connection = connectTo(web, server)
    this.#session = web.openPage(options.root, { ...options, connection: this.#connection, direct: null })
    this.#session.subscribe((state) => (this.state = state))
  }

  leave() {
    this.#session.close()
    this.#connection.close()
  }
}

test('200 clients on each of three servers see a page, are counted, and are told within 5 s when its last holder has left', async (t) => {
  const web = await import(await bundleWeb(newFolder(t)))
  const servers = await startNeighbours(t, 3)
  const limits = web.defaultLimits
  const publication = await web.publish([{ path: 'embers.bin', blob: new Blob([noise(PAGE_BYTES)]) }], {})
  const { root } = publication
  const clients = new Set()
  t.after(() => {
    for (const client of clients) client.leave()
  })
  const add = (client) => {
    clients.add(client)
    return client
  }
  const leave = (client) => {
    clients.delete(client)
    client.leave()
  }

  const waiting = servers.flatMap((server) => Array.from({ length: WAITING }, () => add(new Waiting(web, server, root))))
  await waitUntil(() => waiting.every(({ watching }) => watching === WAITING), 'all wait', ALL_MS)
  assert(waiting.every(({ isTold }) => !isTold))
  const author = add(new Tab(web, servers[0], { root, limits, publication }))
  await waitUntil(() => waiting.every(({ isTold }) => isTold), 'all who wait are told that somebody has the page', ALL_MS)

  const tabsOf = servers.map((server) => Array.from({ length: READERS }, () => add(new Tab(web, server, { root, limits }))))
  const tabs = tabsOf.flat()
  const complete = () => tabs.filter(({ state }) => state.phase === 'complete').length
  await waitUntil(
    () => complete() === tabs.length,
    () => `${complete()} of ${tabs.length} tabs have the page`,
    ALL_MS,
  )

  // Each server counts its own clients and its guests once, and each tab shows the counts of one of the servers where it is.
  let watching = []
  const areCounted = async () => {
    const guests = await Promise.all(servers.map((server) => server.metric('watchfire_channels_guests')))
    watching = guests.map((count, index) => READERS + WAITING + count + (index === 0 ? 1 : 0))
    return waiting.every((client, index) => client.watching === watching[Math.floor(index / WAITING)])
  }
  await waitUntil(areCounted, () => `the servers count ${[...new Set(waiting.map((client) => client.watching))]} for ${watching}`, ALL_MS)
  const areShown = () =>
    tabsOf.every((of, index) =>
      of.every(({ state: { counts } }) => watching.includes(counts.watching) && counts.watching >= watching[index]),
    )
  await waitUntil(areShown, 'the tabs show the counts', ALL_MS)
  const areHolders = () => tabs.every(({ state: { counts } }) => counts.holders === counts.watching - WAITING)
  await waitUntil(areHolders, 'all but those who wait have the page', ALL_MS)

  // All leave but a reader of the third server.
  const last = tabs.at(-1)
  for (const tab of [author, ...tabs.slice(0, -1)]) leave(tab)
  const isAlone = () => last.state.counts.holders === 1 && last.state.counts.watching === WAITING + 1
  await waitUntil(isAlone, 'the last reader is alone', ALL_MS)
  await waitUntil(() => waiting.every(({ isTold }) => isTold), 'all who wait know of the last reader', ALL_MS)
  leave(last)
  const leftAt = performance.now()
  await waitUntil(() => waiting.every(({ isTold }) => !isTold), 'all who wait are told that nobody has the page', ALL_MS)
  const ms = performance.now() - leftAt
  t.diagnostic(`all were told after ${Math.round(ms)} ms`)
  assert(ms < TOLD_MS, `the last one was told after ${ms} ms`)
})
