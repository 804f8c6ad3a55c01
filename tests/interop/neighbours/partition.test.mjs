// A link between two servers carries nothing for a while, and then again.

import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'

import { assertNeverGone, linkOn, neighbourStates, recordStatus, waitUntilAllAnswer } from '../browser/neighbour-servers.mjs'
import { newVisitor, startServer } from '../browser/page-driver.mjs'
import { startNetwork } from '../client/network.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'

const PARTITION_MS = 30_000
/** A server notices after 36 s, and asks again after half a minute. */
const NOTICED_MS = 120_000

test('during a partition of 30 s nobody who has a page is told that it is gone, and afterwards readers on both sides find it', async (t) => {
  const [a, b, c] = (await listeningPorts(3)).map((port) => ({ port }))
  // The ways from the side of B to A, and back.
  const [toA, toB] = [await startNetwork(t, a), await startNetwork(t, b)]
  const named = new Map([
    [a, [toB.port, c.port]],
    [b, [toA.port, c.port]],
    [c, [a.port, b.port]],
  ])
  const start = ({ port }, ports) => {
    const servers = JSON.stringify(ports.map((each) => `http://localhost:${each}`))
    // A tab comes over the way to the other side, and its origin is the server itself.
    return startServer(t, { port, settings: { 'neighbours.servers': servers, 'neighbours.guests': 'any' } })
  }
  const [ofA, ofB, ofC] = await Promise.all([...named].map(([server, ports]) => start(server, ports)))
  for (const server of [ofA, ofB, ofC]) await waitUntilAllAnswer(server)

  const author = await newVisitor(t, ofA)
  const link = await author.sharePage({ text: 'On both sides.' })
  const reader = await newVisitor(t, ofB)
  await reader.goTo(linkOn(ofB, link))
  for (const person of [author, reader]) await person.waitForStatus('2 people have all of it, including you')
  for (const person of [author, reader]) await recordStatus(person)

  for (const network of [toA, toB]) network.hold()
  const partitionedAt = performance.now()
  const isNoticed = async () => (await neighbourStates(ofA))[toB.port] === 'silent' && (await neighbourStates(ofB))[toA.port] === 'silent'
  await waitUntil(isNoticed, 'both servers notice', NOTICED_MS)
  await pause(Math.max(0, PARTITION_MS - (performance.now() - partitionedAt)))
  for (const person of [author, reader]) await assertNeverGone(person)
  // The third server reaches both sides.
  const between = await newVisitor(t, ofC)
  await between.goTo(linkOn(ofC, link))
  await between.waitForText('On both sides.')
  await between.leave()

  for (const network of [toA, toB]) network.release()
  for (const server of [ofA, ofB]) await waitUntilAllAnswer(server, NOTICED_MS)
  for (const person of [author, reader]) {
    await person.waitForStatus('2 people have all of it, including you')
    await assertNeverGone(person)
  }
  // The reader leaves, so that a new one on its server finds the page over the way that was cut.
  await reader.leave()
  await author.waitForStatus('Only you have this page')
  const late = await newVisitor(t, ofB)
  await late.goTo(linkOn(ofB, link))
  await late.waitForText('On both sides.')
  for (const person of [author, late]) await person.waitForStatus('2 people have all of it, including you')
  for (const person of [author, reader, between, late]) person.assertNoPageErrors()
})
