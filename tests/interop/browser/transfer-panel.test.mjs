// The transfer panel: the peers of a tab, their paths and the reasons, and the places of the blocks.

import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'

import { shareFolder } from '../lib/shared-folder.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { skipInShortRun } from '../lib/whole.mjs'
import { newVisitor, WAIT_MS, startServer, newVisitors } from './page-driver.mjs'
import { newDirectVisitor, areConnected, connectionsOf, descriptionsOf } from './direct-connections.mjs'
import { generated } from './fixtures.mjs'
import { film, openPanel, panelOf } from './films.mjs'

const MIB = 1024 * 1024
const TRANSFER_MS = 90_000
const CALL_MS = 40_000
const BY_SERVER = 'Through the server: this peer is a terminal or another server. A terminal connects directly when it has much to send.'

/** The rows of the panel, one per peer. */
const rowsOf = (person) => panelOf(person).locator('tbody tr').allInnerTexts()

const waitForPanel = (person, words, timeout = WAIT_MS) => panelOf(person).getByText(words).first().waitFor({ timeout })

test('the panel distinguishes direct and relayed peers, with their traffic and the reason', async (t) => {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': 2 * MIB } })
  const [holder, near, far] = [await newDirectVisitor(t, server), await newDirectVisitor(t, server), await newVisitor(t, server)]
  const link = await holder.sharePage(await film(24 * MIB))
  await openPanel(holder)
  await waitForPanel(holder, 'Nobody else is here.')
  await waitForPanel(holder, 'The only copy of this page is in this tab.')
  await waitForPanel(holder, 'It has sent nothing yet.')

  await near.goTo(link)
  await waitUntil(() => areConnected(holder, near), 'a direct path', TRANSFER_MS)
  await openPanel(near)
  await waitUntil(
    async () => (await rowsOf(near)).some((row) => /direct/.test(row) && /Direct, without the server\./.test(row)),
    'the path is shown',
  )
  await near.waitUntilComplete(TRANSFER_MS)
  await far.goTo(link)
  await openPanel(far)
  await far.waitUntilComplete(TRANSFER_MS)
  // The browser may not use WebRTC. Scripts are not told that; they only find no address of their own.
  await waitForPanel(far, 'This browser hides its address, so a direct connection is not possible.', CALL_MS)
  const rows = await rowsOf(far)
  assert.equal(rows.length, 2)
  for (const row of rows) assert.match(row, /relay/)

  await waitForPanel(near, /^It has sent .* and received .*: .*× as much\.$/)
  await waitForPanel(holder, /^It has sent .* and received nothing: it had the whole page\.$/)
  await waitUntil(async () => (await rowsOf(holder)).every((row) => /\ball\b/.test(row)), 'both have all')
  const shown = await panelOf(holder).getByRole('img').first().getAttribute('aria-label')
  assert.equal(shown, 'Of 25 blocks, 25 here, 0 elsewhere, 0 missing.')
  await waitForPanel(holder, 'Every block is in 3 tabs.')
  for (const person of [holder, near, far]) person.assertNoPageErrors()
})

test('a terminal calls a browser, is a node to one without WebRTC, and no browser calls it', async (t) => {
  const server = await startServer(t)
  const { link } = await shareFolder(t, server, { 'one.bin': generated(3 * MIB), 'two.txt': 'words' })
  const [reader, other] = [await newDirectVisitor(t, server), await newDirectVisitor(t, server, { isOff: true })]
  await reader.goTo(link)
  await reader.waitUntilComplete(TRANSFER_MS)
  await openPanel(reader)
  await waitForPanel(reader, 'Direct, without the server.')
  assert.match((await rowsOf(reader)).join(), /\bdirect\b/)
  assert.deepEqual(await descriptionsOf(reader), [{ ours: 'answer', theirs: 'offer' }], 'the browser called the terminal')
  await reader.waitForStatus('1 person and 1 computer have all of it, including you.')
  await reader.waitForStatus('Only you are looking at it')
  await waitForPanel(reader, 'Every block is in 1 tab and 1 node.')
  await other.goTo(link)
  await other.waitUntilComplete(TRANSFER_MS)
  await openPanel(other)
  await other.waitForStatus('2 people and 1 computer have all of it, including you.')
  await waitForPanel(other, 'Every block is in 2 tabs and 1 node.')
  await waitUntil(async () => (await rowsOf(other)).length === 2, 'both peers are listed', WAIT_MS)
  const nodes = (await rowsOf(other)).filter((row) => /\bnode\b/.test(row))
  assert.equal(nodes.length, 1, (await rowsOf(other)).join())
  for (const person of [reader, other]) person.assertNoPageErrors()
  if (process.env.SHOTS === undefined) return
  for (const [shape, viewport] of Object.entries({ wide: { width: 1280, height: 900 }, narrow: { width: 390, height: 780 } })) {
    for (const colorScheme of ['light', 'dark']) {
      await other.tab.setViewportSize(viewport)
      await other.tab.emulateMedia({ colorScheme })
      await panelOf(other).screenshot({ path: path.join(process.env.SHOTS, `connections-${shape}-${colorScheme}.png`) })
    }
  }
})

test('a terminal whose page is small is listed as a node, and nothing calls it or is called', async (t) => {
  const server = await startServer(t)
  const { link } = await shareFolder(t, server, { 'one.txt': 'a few words', 'two.txt': 'and some more' })
  const reader = await newDirectVisitor(t, server)
  await reader.goTo(link)
  await reader.waitUntilComplete(TRANSFER_MS)
  await openPanel(reader)
  await waitForPanel(reader, BY_SERVER)
  assert.match((await rowsOf(reader)).join(), /\bnode\b/)
  await waitForPanel(reader, 'Every block is in 1 tab and 1 node.')
  assert.deepEqual(await connectionsOf(reader), [])
  assert.equal(await server.metric('watchfire_pages_signals_total'), 0)
  reader.assertNoPageErrors()
})

test('when the last full copy leaves, everyone sees which blocks are missing', { skip: skipInShortRun }, async (t) => {
  const server = await startServer(t, { settings: { 'limits.relay_bytes_per_second_per_peer': MIB } })
  const [holder, a, b] = await newVisitors(t, server, 3)
  const long = await film(32 * MIB)
  const link = await holder.sharePage(long)
  await Promise.all([a.goTo(link), b.goTo(link)])
  for (const person of [a, b]) {
    await openPanel(person)
    await person.waitForText(/[1-9]\d?% · /)
    await waitForPanel(person, /^(The last copy of \d+ blocks is in one tab|There is only one copy each of \d+ blocks, in 2 tabs)/)
  }
  await holder.leave()
  for (const person of [a, b]) {
    await person.waitForText('The last person who had it has left')
    await person.waitForText(/Somebody last had the whole page \d+ seconds? ago\./)
    await waitForPanel(person, /^\d+ blocks are missing, nobody here has them: number/)
    const shown = await panelOf(person).getByRole('img').first().getAttribute('aria-label')
    const [total, here, elsewhere, nowhere] = shown.match(/\d+/g).map(Number)
    assert.equal(total, 33)
    assert.equal(here + elsewhere + nowhere, 33)
    assert(nowhere > 0 && here > 0, shown)
  }
  const again = await newVisitor(t, server)
  await again.sharePage(long)
  for (const person of [a, b]) {
    await person.waitUntilComplete(TRANSFER_MS)
    assert.equal(await panelOf(person).locator('.missing').count(), 0)
  }
})

test('the panel can be opened, read and closed with the keyboard alone', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.waitForText('Up to')
  const { keyboard } = person.tab
  const focused = () => person.focused()
  await person.tabTo('Text of the page')
  await keyboard.type('Shared, opened and read without a mouse.')
  await keyboard.press('Control+Enter')
  await person.sharedLink()
  await person.tabTo('Copy link')
  await keyboard.press('Enter')
  await person.waitForText('Copied')
  await person.tabTo('Details')
  await keyboard.press('Enter')
  await person.tabTo('Connections')
  await keyboard.press('Enter')
  await waitUntil(async () => (await focused()) === 'Connections and copies', 'the focus follows into the panel')
  await waitForPanel(person, 'The only copy of this page is in this tab.')
  assert.equal(await person.tab.getByRole('button', { name: 'Connections' }).getAttribute('aria-expanded'), 'true')
  await keyboard.press('Escape')
  await panelOf(person).waitFor({ state: 'detached' })
  assert.equal(await focused(), 'Connections', 'the focus is back where it was')
  await keyboard.press('Enter')
  await waitUntil(async () => (await focused()) === 'Connections and copies', 'the focus follows into the panel')
  await person.tabTo('Close')
  await keyboard.press('Enter')
  await panelOf(person).waitFor({ state: 'detached' })
  await person.tabTo('Keep sharing this page')
  person.assertNoPageErrors()
})
