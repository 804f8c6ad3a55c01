// The limits of the server and its restarts, as people see them.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { blocksOf } from './bitswap-messages.mjs'
import { newVisitor, WAIT_MS, startServer, newVisitors } from './page-driver.mjs'
import { honestHolder, joinPage } from './raw-peer.mjs'
import { film } from './films.mjs'
import { file, generated } from './fixtures.mjs'

const MIB = 1024 * 1024

test('a low relay limit makes a page slower, and no error is shown', async (t) => {
  const settings = { 'limits.relay_bytes_per_second_per_peer': MIB }
  const server = await startServer(t, { settings })
  const [holder, visitor] = await newVisitors(t, server, 2)
  const link = await holder.sharePage(await film(5 * MIB))
  const opened = performance.now()
  await visitor.goTo(link)
  await visitor.waitUntilComplete()
  const took = performance.now() - opened
  const refused = await server.metric('watchfire_refusals_total', 'relay_budget')
  t.diagnostic(`5 MiB at 1 MiB/s took ${(took / 1000).toFixed(1)} s, with ${refused} frames rejected for now`)
  assert(took > 2_500, `the limit was exceeded: ${took} ms`)
  for (const person of [holder, visitor]) {
    assert.equal(await person.tab.getByRole('alert').count(), 0)
    person.assertNoPageErrors()
  }
})

test('after a restart of the server every tab reconnects and its pages can be opened again', async (t) => {
  const first = await startServer(t)
  const [holder, other] = await newVisitors(t, first, 2)
  const link = await holder.sharePage({ text: 'Still burning.' })
  await other.goTo(link)
  await other.waitForStatus('2 people have this page')

  await first.stop()
  await holder.waitForText('The connection to the server is lost')
  await holder.waitForText('Still burning.')
  const second = await startServer(t, { port: first.port })
  for (const person of [holder, other]) {
    await person.waitForTextGone('The connection to the server is lost')
    await person.waitForStatus('2 people have this page')
  }

  await other.leave()
  const visitor = await newVisitor(t, second)
  await visitor.goTo(link)
  await visitor.waitForText('Still burning.')
})

test('a transfer that a restart interrupts continues where it was', async (t) => {
  const settings = { 'limits.relay_bytes_per_second_per_peer': 2 * MIB }
  const first = await startServer(t, { settings })
  const [holder, visitor] = await newVisitors(t, first, 2)
  const link = await holder.sharePage(await film(12 * MIB))
  await visitor.goTo(link)
  await visitor.waitForText(/(1\d|[2-9]\d)% · /)
  await first.stop()
  const second = await startServer(t, { port: first.port, settings })
  await visitor.waitUntilComplete(WAIT_MS)
  const relayed = await second.metric('watchfire_pages_relayed_bytes_total')
  assert(relayed < 12 * MIB, `${relayed} bytes were transferred again`)
})

test('limits are shown before sharing, and a page above one is rejected with the limit named', async (t) => {
  const person = await newVisitor(t, await startServer(t, { settings: { 'limits.page_bytes_max': 2 * MIB } }))
  await person.goTo('/')
  await person.waitForText('Up to 2 MiB per page')
  await person.tab.getByText('What are the limits?').click()
  await person.waitForText('A page may have at most 2 MiB.')
  await person.waitForText('At most 10,000 people can have the same page open.')
  assert.equal(await person.tab.getByText('page bytes max').isVisible(), false)
  await person.tab.getByText('All limits of this server').click()
  await person.waitForText('page bytes max')
  await person.waitForText('The browser refuses to share or load the page.')

  await person.compose({ files: [file('film.bin', generated(2 * MIB + 1))] })
  await person.waitForText(/but a page may have at most 2 MiB/)
  assert.equal(await person.tab.getByRole('button', { name: 'Light this page' }).isDisabled(), true)
})

test('a page above the limit of this server is rejected when it is opened, with the limit named', async (t) => {
  const server = await startServer(t, { settings: { 'limits.page_bytes_max': MIB } })
  const { root, blocks } = blocksOf(generated(3 * MIB))
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}`)
  await visitor.waitForText('This page cannot be shown')
  await visitor.waitForText('The content has 3 MiB, more than the 1 MiB a page may have here.')
})

test('a page at its viewer limit shows a notice', async (t) => {
  const server = await startServer(t, { settings: { 'limits.peers_per_page_max': 2 } })
  const [a, b, c] = await newVisitors(t, server, 3)
  const link = await a.sharePage({ text: 'Only two may sit here.' })
  await b.goTo(link)
  await b.waitForText('Only two may sit here.')
  await c.goTo(link)
  await c.waitForText('This page is open in as many tabs as the server allows.')
})
