// What people notice of the server's bounds, and of its going away.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { blocksOf } from './bitswap.mjs'
import { arrive, PATIENCE_MS, serve } from './people.mjs'
import { honest, joinPage } from './raw_peer.mjs'
import { file, generated } from './things.mjs'

const MIB = 1024 * 1024

test('a narrow relay makes a page slower, and nobody is told of an error', async (t) => {
  const settings = { 'limits.relay_bytes_per_second_peer': MIB }
  const server = await serve(t, { settings })
  const [holder, visitor] = [await arrive(t, server), await arrive(t, server)]
  const link = await holder.light({ files: [file('film.bin', generated(5 * MIB))] })
  const opened = performance.now()
  await visitor.goTo(link)
  await visitor.holdsIt()
  const took = performance.now() - opened
  const refused = await server.metric('watchfire_refusals_total', 'relay_budget')
  t.diagnostic(`5 MiB at 1 MiB/s took ${(took / 1000).toFixed(1)} s, with ${refused} frames refused for now`)
  assert(took > 2_500, `the bound was not held: ${took} ms`)
  for (const person of [holder, visitor]) {
    assert.equal(await person.tab.getByRole('alert').count(), 0)
    person.hasNoComplaints()
  }
})

test('after a restart of the server every tab returns and its pages can be opened again', async (t) => {
  const first = await serve(t)
  const [holder, other] = [await arrive(t, first), await arrive(t, first)]
  const link = await holder.light({ text: 'Still burning.' })
  await other.goTo(link)
  await other.isTold('Held by 2 tabs')

  await first.stop()
  await holder.sees('The connection to the server is lost')
  await holder.sees('Still burning.')
  const second = await serve(t, { port: first.port })
  for (const person of [holder, other]) {
    await person.seesNoMore('The connection to the server is lost')
    await person.isTold('Held by 2 tabs')
  }

  await other.leave()
  const visitor = await arrive(t, second)
  await visitor.goTo(link)
  await visitor.sees('Still burning.')
})

test('a transfer that a restart of the server cuts goes on where it was', async (t) => {
  const settings = { 'limits.relay_bytes_per_second_peer': 2 * MIB }
  const first = await serve(t, { settings })
  const [holder, visitor] = [await arrive(t, first), await arrive(t, first)]
  const link = await holder.light({ files: [file('film.bin', generated(12 * MIB))] })
  await visitor.goTo(link)
  await visitor.sees(/(1\d|[2-9]\d)% · /)
  await first.stop()
  const second = await serve(t, { port: first.port, settings })
  await visitor.holdsIt(PATIENCE_MS)
  const relayed = await second.metric('watchfire_pages_relayed_bytes_total')
  assert(relayed < 12 * MIB, `${relayed} bytes came again`)
})

test('limits are shown before sharing, and a page above one is refused with its name', async (t) => {
  const server = await serve(t, { settings: { 'limits.page_bytes_max': 2 * MIB } })
  const person = await arrive(t, server)
  await person.goTo('/')
  await person.sees('Up to 2 MiB a page')
  await person.tab.getByText('What are the limits?').click()
  await person.sees('page bytes max')
  await person.sees('The browser refuses to share or load the page.')

  await person.compose({ files: [file('film.bin', generated(2 * MIB + 1))] })
  await person.sees(/more than the 2 MiB a page may have/)
  assert.equal(await person.tab.getByRole('button', { name: 'Light it' }).isDisabled(), true)
})

test('a page above the limit of this server is refused when it is opened, with the limit named', async (t) => {
  const server = await serve(t, { settings: { 'limits.page_bytes_max': MIB } })
  const { root, blocks } = blocksOf(generated(3 * MIB))
  await joinPage(t, server, root, 'all', honest(blocks))
  const visitor = await arrive(t, server)
  await visitor.goTo(`/p/${root}`)
  await visitor.sees('This page cannot be shown')
  await visitor.sees('The content has 3 MiB, more than the 1 MiB a page may have here.')
})

test('a full page says so', async (t) => {
  const server = await serve(t, { settings: { 'limits.peers_per_page_max': 2 } })
  const [a, b, c] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const link = await a.light({ text: 'Only two may sit here.' })
  await b.goTo(link)
  await b.sees('Only two may sit here.')
  await c.goTo(link)
  await c.sees('As many people have this page open as the server allows.')
})
