// Two servers that are peers of each other in libp2p. A page passes from one to the other through their gateways.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { areConnected, newDirectVisitor } from '../browser/direct-connections.mjs'
import { file, noise } from '../browser/fixtures.mjs'
import { linkOn, relayed, waitUntilAllAnswer } from '../browser/neighbour-servers.mjs'
import { newVisitor, startServer } from '../browser/page-driver.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'

const MIB = 1 << 20

/** Two servers with a gateway, each of which stays connected to the other. */
async function startPair(t, settingsOf = (_other) => ({})) {
  const [ports, p2pPorts] = [await listeningPorts(2), await listeningPorts(2)]
  const multiaddr = (index) => JSON.stringify([`/ip4/127.0.0.1/tcp/${p2pPorts[index]}`])
  const start = (port, index) => {
    const p2p = { 'p2p.listen': multiaddr(index), 'p2p.bootstrap': multiaddr(1 - index) }
    return startServer(t, { port, settings: { ...p2p, ...settingsOf(ports[1 - index]) } })
  }
  const servers = await Promise.all(ports.map(start))
  for (const server of servers)
    await waitUntil(async () => (await server.metric('watchfire_p2p_connections')) > 0, 'the gateways are connected')
  return servers
}

/** Waits until the home page of a server says how many people are there; a new visitor of it counts. */
async function assertPeopleHere(t, server, words) {
  const visitor = await newVisitor(t, server)
  await visitor.goTo('/')
  await visitor.waitForText(words)
  await visitor.leave()
}

test('a page of 3 MB passes from one server to two readers of another one over libp2p, and all sentences are true', async (t) => {
  const [e, f] = await startPair(t)
  const author = await newVisitor(t, e)
  const link = await author.sharePage({ files: [file('embers.bin', noise(3_000_000))] })
  await author.waitForStatus('Only you have this page')
  const readers = [await newVisitor(t, f), await newVisitor(t, f)]
  for (const reader of readers) {
    await reader.goTo(linkOn(f, link))
    await reader.waitUntilComplete()
  }
  // On each server, the other one is a computer that has the page, and no person.
  await author.waitForStatus('1 person and 1 computer have all of it, including you')
  await author.waitForStatus('Only you are looking at it')
  for (const reader of readers) {
    await reader.waitForStatus('2 people and 1 computer have all of it, including you')
    await reader.waitForStatus('2 people are looking at it')
  }
  await assertPeopleHere(t, e, '2 people here now')
  await assertPeopleHere(t, f, '3 people here now')

  // Once the readers have left, only the author has it.
  for (const reader of readers) await reader.leave()
  await author.waitForStatus('Only you have this page')
  await assertPeopleHere(t, e, '2 people here now')
  await assertPeopleHere(t, f, 'Only you are here now')
  for (const person of [author, ...readers]) person.assertNoPageErrors()
})

test('servers that are neighbours and libp2p peers introduce tabs to each other, and no gateway carries the page', async (t) => {
  const settingsOf = (other) => ({
    'neighbours.servers': JSON.stringify([`http://localhost:${other}`]),
    'limits.relay_bytes_per_second_per_peer': MIB,
  })
  const servers = await startPair(t, settingsOf)
  for (const server of servers) await waitUntilAllAnswer(server)
  const [e, f] = servers
  const author = await newDirectVisitor(t, e)
  const link = await author.sharePage({ files: [file('embers.bin', noise(12 * MIB))] })
  const reader = await newDirectVisitor(t, f)
  await reader.goTo(linkOn(f, link))
  await reader.waitUntilComplete()
  assert(await areConnected(author, reader), 'the tabs are not connected directly')
  for (const person of [author, reader]) await person.waitForStatus('2 people have all of it, including you')
  const byGateway = (await Promise.all(servers.map((server) => server.metric('watchfire_p2p_sent_block_bytes_total')))).reduce(
    (a, b) => a + b,
  )
  const byRelay = (await Promise.all(servers.map(relayed))).reduce((a, b) => a + b)
  t.diagnostic(`${byGateway} bytes by the gateways, ${byRelay} by relay`)
  assert(byGateway < MIB, `the gateways carried ${byGateway} bytes`)
  assert(byRelay < 6 * MIB, `${byRelay} bytes passed a server`)
  for (const person of [author, reader]) person.assertNoPageErrors()
})
