// A server is upgraded while tabs of it and of its neighbour have a page open.

import { test } from 'node:test'

import { assertNeverGone, linkOn, recordStatus, waitUntilAllAnswer } from '../browser/neighbour-servers.mjs'
import { newVisitor, startServer } from '../browser/page-driver.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { startUpgradable } from '../lib/server.mjs'

const UPGRADE_MS = 60_000

test('a page stays open while a server of it is upgraded, and new readers of both servers find it afterwards', async (t) => {
  const ports = await listeningPorts(2)
  const settingsOf = (other) => ({
    'server.drain_period': '100ms',
    'neighbours.servers': JSON.stringify([`http://localhost:${ports[other]}`]),
  })
  const { server: a, upgrade } = await startUpgradable(t, { port: ports[0], settings: settingsOf(1) })
  const b = await startServer(t, { port: ports[1], settings: settingsOf(0) })
  for (const server of [a, b]) await waitUntilAllAnswer(server)
  const author = await newVisitor(t, a)
  const link = await author.sharePage({ text: 'Written before the upgrade.' })
  const reader = await newVisitor(t, b)
  await reader.goTo(linkOn(b, link))
  for (const person of [author, reader]) await person.waitForStatus('2 people have all of it, including you')
  for (const person of [author, reader]) await recordStatus(person)

  await upgrade()
  await waitUntil(() => !a.isRunning, 'the old program ends', UPGRADE_MS)
  for (const server of [a, b]) await waitUntilAllAnswer(server)
  for (const person of [author, reader]) {
    await person.waitForStatus('2 people have all of it, including you')
    await assertNeverGone(person)
  }
  // The reader leaves, so that a new one on its server finds the page at the new program.
  await reader.leave()
  await author.waitForStatus('Only you have this page')
  for (const server of [b, a]) {
    const late = await newVisitor(t, server)
    await late.goTo(linkOn(server, link))
    await late.waitForText('Written before the upgrade.')
    for (const person of [author, late]) await person.waitForStatus('2 people have all of it, including you')
    late.assertNoPageErrors()
    await late.leave()
    await author.waitForStatus('Only you have this page')
  }
})
