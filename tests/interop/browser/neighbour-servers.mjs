// Servers that name each other as neighbours, and what their visitors are told.

import assert from 'node:assert/strict'

import { waitUntil } from '../lib/deadlines.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { addressOf, startServer } from './page-driver.mjs'

/** Starts servers that name each other; each begins when the others know its port already. */
export async function startNeighbours(t, count, settings = {}) {
  const ports = await listeningPorts(count)
  const origins = ports.map((port) => `http://localhost:${port}`)
  const start = (port, index) => {
    const servers = JSON.stringify(origins.filter((_, other) => other !== index))
    return startServer(t, { port, settings: { ...settings, 'neighbours.servers': servers } })
  }
  const servers = await Promise.all(ports.map(start))
  for (const server of servers) await waitUntilAllAnswer(server)
  return servers
}

/** The states of the neighbours of a server, by their ports. */
export async function neighbourStates(server) {
  const { neighbours } = await (await fetch(server.http('/limits'))).json()
  return Object.fromEntries(neighbours.map(({ server: origin, state }) => [new URL(origin).port, state]))
}

/** Waits until all neighbours of a server answer it. */
export function waitUntilAllAnswer(server, ms = 60_000) {
  const isKnown = async () => {
    const states = Object.values(await neighbourStates(server))
    return states.length > 0 && states.every((state) => state === 'answers')
  }
  return waitUntil(isKnown, 'the server knows its neighbours', ms)
}

/** The same page, opened on another server. */
export const linkOn = (server, link) => new URL(new URL(link).pathname, addressOf(server)).href

/** The bytes that a server has relayed. */
export const relayed = (server) => server.metric('watchfire_pages_relayed_bytes_total')

/** Records every text of the status of the page that a person has open, from now on. */
export function recordStatus(person) {
  return person.tab.evaluate(() => {
    window.statusTexts = new Set()
    const note = () => {
      for (const { textContent } of document.querySelectorAll('[role=status]')) window.statusTexts.add(textContent)
    }
    note()
    new MutationObserver(note).observe(document, { subtree: true, childList: true, characterData: true })
  })
}

/** Asserts that a person whose status is recorded was never told that nobody has the page. */
export async function assertNeverGone(person) {
  const texts = await person.tab.evaluate(() => [...window.statusTexts])
  assert(texts.length > 0, 'no status is recorded')
  assert.deepEqual(
    texts.filter((text) => text.includes('Nobody has')),
    [],
    texts.join('; '),
  )
}
