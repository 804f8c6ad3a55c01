// A browser or a terminal that hides its address: it makes no direct connections, and the pages go through the server.

import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'

import { Command } from '../lib/command-line.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { areConnected, connectionsOf, newDirectVisitor, recordSignals, sentSignalsOf, sessionsOf } from './direct-connections.mjs'
import { film, openPanel, panelOf } from './films.mjs'
import { addressOf, startServer } from './page-driver.mjs'

const MIB = 1 << 20
const TRANSFER_MS = 90_000
const CONNECT_MS = 40_000
const FAST_RELAY = { 'limits.relay_bytes_per_second_per_peer': 8 * MIB }

const hideSwitchOf = (person) => person.tab.getByRole('switch', { name: 'Hide my address' })

/** A visitor whose signals are recorded, on a first page. With `hides`, they have set the switch, and reloaded. */
async function newRecordedVisitor(t, server, { hides = false, webTransport = false } = {}) {
  const person = await newDirectVisitor(t, server, { webTransport })
  await recordSignals(person.tab.context())
  await person.sharePage({ text: 'Where the switch is.' })
  await person.openDetails()
  assert.equal(await hideSwitchOf(person).isChecked(), false, 'the switch is off at first')
  if (!hides) return person
  await hideSwitchOf(person).check()
  await person.tab.reload()
  await person.openDetails()
  assert.equal(await hideSwitchOf(person).isChecked(), true, 'the browser remembers the switch')
  return person
}

/** No connection was made, and no signal left the tab but those that decline. */
async function assertHidden(person) {
  assert.deepEqual(await connectionsOf(person), [], 'the tab made a connection')
  assert.deepEqual(
    [...new Set(await sentSignalsOf(person))].filter((kind) => kind !== 'hang_up'),
    [],
    'a signal left the tab',
  )
  person.assertNoPageErrors()
}

test('a browser that hides its address reads a page through the server and declines calls; another one connects directly', async (t) => {
  const server = await startServer(t, { settings: FAST_RELAY })
  const holder = await newRecordedVisitor(t, server)
  const link = await holder.sharePage(await film(24 * MIB))
  const hidden = await newRecordedVisitor(t, server, { hides: true })
  await hidden.goTo(link)
  await hidden.waitUntilComplete(TRANSFER_MS)
  await assertHidden(hidden)
  assert((await server.metric('watchfire_pages_relayed_bytes_total')) > 23 * MIB, 'the page was not relayed')
  const signals = await sentSignalsOf(hidden)
  t.diagnostic(`the holder sent ${await sentSignalsOf(holder)}, and the hidden browser answered ${signals}`)
  assert(signals.length > 0, 'nobody called the hidden browser')
  // The call of the holder has ended, not timed out.
  assert((await connectionsOf(holder)).every(({ state }) => state === 'closed'))
  await openPanel(hidden)
  await panelOf(hidden).getByText('This browser has no WebRTC, or hides your address').waitFor()

  const open = await newRecordedVisitor(t, server)
  await open.goTo(link)
  await waitUntil(() => areConnected(open, holder), 'a direct connection', CONNECT_MS)
  assert(
    (await sentSignalsOf(open)).some((kind) => kind === 'offer' || kind === 'answer'),
    'the signals are not recorded',
  )
  await assertHidden(hidden)
})

test('a browser that hides its address shares a page that it made through the server', async (t) => {
  const server = await startServer(t, { settings: FAST_RELAY })
  const hidden = await newRecordedVisitor(t, server, { hides: true })
  const link = await hidden.sharePage(await film(16 * MIB))
  const visitor = await newRecordedVisitor(t, server)
  await visitor.goTo(link)
  await visitor.waitUntilComplete(TRANSFER_MS)
  assert((await server.metric('watchfire_pages_relayed_bytes_total')) > 15 * MIB, 'the page was not relayed')
  await assertHidden(hidden)
})

test('a browser that hides its address dials no terminal', async (t) => {
  const server = await startServer(t, { settings: FAST_RELAY })
  const { files } = await film(8 * MIB)
  const share = new Command(t, path.dirname(files[0]), 'share', [path.basename(files[0]), '--to', addressOf(server)])
  const { page } = await share.event('shared')
  const hidden = await newRecordedVisitor(t, server, { hides: true, webTransport: true })
  await hidden.goTo(page)
  await hidden.waitUntilComplete(TRANSFER_MS)
  assert.deepEqual(await sessionsOf(hidden), [])
  await assertHidden(hidden)
  await share.interrupt()
})

test('a terminal that uses only the relay sends no signals and no addresses', async (t) => {
  const server = await startServer(t, { settings: FAST_RELAY })
  const { files } = await film(8 * MIB)
  const arguments_ = [path.basename(files[0]), '--to', addressOf(server), '--relay-only']
  const share = new Command(t, path.dirname(files[0]), 'share', arguments_)
  const { page, cid, link, addresses } = await share.event('shared')
  assert.deepEqual([link, addresses], [`watchfire:${cid}?filename=${path.basename(files[0])}`, []])
  const visitor = await newDirectVisitor(t, server, { webTransport: true })
  await visitor.goTo(page)
  await visitor.waitUntilComplete(TRANSFER_MS)
  await share.interrupt()
  // The browser has it now, and another terminal gets it from there.
  const folder = newFolder()
  const get = new Command(t, folder, 'get', [page, '--relay-only', '--output', 'copy.bin'])
  assert.equal(await get.ended(TRANSFER_MS), 0, get.stderr)
  assert.equal(await server.metric('watchfire_pages_signals_total'), 0)
  assert.deepEqual([await connectionsOf(visitor), await sessionsOf(visitor)], [[], []])
  visitor.assertNoPageErrors()
})
