// The panel that says how a page travels: whom a tab meets and how, where the blocks are, and why things are as they are.

import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'

import { shareFolder } from '../lib/shared_folder.mjs'
import { until } from '../lib/waiting.mjs'
import { arrive, PATIENCE_MS, serve } from './people.mjs'
import { arriveDirect, areLinked } from './lines.mjs'
import { generated } from './things.mjs'

const MIB = 1024 * 1024
const TRANSFER_MS = 90_000
const UNANSWERED_MS = 40_000

const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
after(() => rm(folder, { recursive: true }))

/** A file on disk: a large one takes a browser's remote control too long. */
async function film(bytes) {
  const to = path.join(folder, `film-${bytes}.bin`)
  await writeFile(to, generated(bytes))
  return { files: [to] }
}

const panelOf = (person) => person.tab.getByRole('region', { name: 'How this page travels' })

async function looksCloser(person) {
  await person.tab.getByRole('button', { name: 'How it travels' }).click()
  await panelOf(person).getByText('Where its blocks are').waitFor()
}

/** The panel's rows, one for each peer. */
const rowsOf = (person) => panelOf(person).locator('tbody tr').allInnerTexts()

const sees = (person, words, timeout = PATIENCE_MS) => panelOf(person).getByText(words).first().waitFor({ timeout })

test('the panel tells direct peers from those by relay, with what moved, and why', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': 2 * MIB } })
  const [holder, near, far] = [await arriveDirect(t, server), await arriveDirect(t, server), await arrive(t, server)]
  const link = await holder.light(await film(24 * MIB))
  await looksCloser(holder)
  await sees(holder, 'Nobody else is here.')
  await sees(holder, 'The only copy of this page is in this tab.')
  await sees(holder, 'It has given nothing yet.')

  await near.goTo(link)
  await until(() => areLinked(holder, near), 'a direct path', TRANSFER_MS)
  await looksCloser(near)
  await until(async () => (await rowsOf(near)).some((row) => /direct/.test(row) && /Past the server\./.test(row)), 'the path is told')
  await near.holdsIt(TRANSFER_MS)
  await far.goTo(link)
  await looksCloser(far)
  await far.holdsIt(TRANSFER_MS)
  // Its browser may not use WebRTC, which no script is told: what it sees is that it has no address to tell.
  await sees(far, 'This browser tells nobody its address, so it cannot be found directly.', UNANSWERED_MS)
  const rows = await rowsOf(far)
  assert.equal(rows.length, 2)
  for (const row of rows) assert.match(row, /relay/)

  await sees(near, /^It has given .* and taken .*: .*× back for each byte\.$/)
  await sees(holder, /^It has given .* and taken nothing: it had all of it\.$/)
  await until(async () => (await rowsOf(holder)).every((row) => /\ball\b/.test(row)), 'both have all')
  const shown = await panelOf(holder).getByRole('img').first().getAttribute('aria-label')
  assert.equal(shown, 'Of 25 blocks, 25 here, 0 elsewhere, 0 nowhere.')
  await sees(holder, 'Every block is in 3 tabs.')
  for (const person of [holder, near, far]) person.hasNoComplaints()
})

test('a terminal is told from a tab: it is a node, and nobody waits for it to answer a call', async (t) => {
  const server = await serve(t)
  const { link } = await shareFolder(t, server, { 'one.bin': generated(3 * MIB), 'two.txt': 'words' })
  const [reader, other] = [await arriveDirect(t, server), await arriveDirect(t, server)]
  await reader.goTo(link)
  await reader.holdsIt(TRANSFER_MS)
  await looksCloser(reader)
  await sees(reader, 'By the server: it is a terminal or another server, which has no WebRTC.')
  assert.match((await rowsOf(reader)).join(), /node/)
  await reader.isTold('Held by 1 tab and 1 node, your tab among them.')
  await reader.isTold('Only you are here, and 1 node')
  await sees(reader, 'Every block is in 1 tab and 1 node.')
  await other.goTo(link)
  await other.holdsIt(TRANSFER_MS)
  await looksCloser(other)
  await other.isTold('Held by 2 tabs and 1 node, your tab among them.')
  await sees(other, 'Every block is in 2 tabs and 1 node.')
  await until(async () => (await rowsOf(other)).length === 2, 'it meets both', PATIENCE_MS)
  const nodes = (await rowsOf(other)).filter((row) => /\bnode\b/.test(row))
  assert.equal(nodes.length, 1, (await rowsOf(other)).join())
  for (const person of [reader, other]) person.hasNoComplaints()
  if (process.env.SHOTS === undefined) return
  for (const [shape, viewport] of Object.entries({ wide: { width: 1280, height: 900 }, narrow: { width: 390, height: 780 } })) {
    for (const colorScheme of ['light', 'dark']) {
      await other.tab.setViewportSize(viewport)
      await other.tab.emulateMedia({ colorScheme })
      await panelOf(other).screenshot({ path: path.join(process.env.SHOTS, `travel-${shape}-${colorScheme}.png`) })
    }
  }
})

test('when the last full copy leaves, everyone sees what is missing', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const [holder, a, b] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const long = await film(32 * MIB)
  const link = await holder.light(long)
  await Promise.all([a.goTo(link), b.goTo(link)])
  for (const person of [a, b]) {
    await looksCloser(person)
    await person.sees(/[1-9]\d?% · /)
    await sees(person, /^(The last copy of \d+ blocks is in one tab|There is only one copy each of \d+ blocks, in 2 tabs)/)
  }
  await holder.leave()
  for (const person of [a, b]) {
    await person.sees('The last one who had it has left')
    await person.sees(/Somebody last had all of it \d+ seconds? ago\./)
    await sees(person, /^\d+ blocks are with nobody who is here: number/)
    const shown = await panelOf(person).getByRole('img').first().getAttribute('aria-label')
    const [total, here, elsewhere, nowhere] = shown.match(/\d+/g).map(Number)
    assert.equal(total, 33)
    assert.equal(here + elsewhere + nowhere, 33)
    assert(nowhere > 0 && here > 0, shown)
  }
  const again = await arrive(t, server)
  await again.light(long)
  for (const person of [a, b]) {
    await person.holdsIt(TRANSFER_MS)
    assert.equal(await panelOf(person).locator('.missing').count(), 0)
  }
})

test('the panel is opened, read and closed with the keyboard alone', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  await person.goTo('/')
  await person.sees('Up to')
  const { keyboard } = person.tab
  const focused = () => person.tab.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)
  const tabTo = async (name) => {
    for (let n = 0; n < 40; n += 1) {
      await keyboard.press('Tab')
      if ((await focused()).includes(name)) return
    }
    assert.fail(`the keyboard does not reach ${name}`)
  }
  await tabTo('What the page says')
  await keyboard.type('Shared, opened and looked into without a mouse.')
  await keyboard.press('Control+Enter')
  await person.linkLit()
  await tabTo('Copy link')
  await keyboard.press('Enter')
  await person.sees('Copied')
  await tabTo('How it travels')
  await keyboard.press('Enter')
  await until(async () => (await focused()) === 'How this page travels', 'the focus follows into the panel')
  await sees(person, 'The only copy of this page is in this tab.')
  assert.equal(await person.tab.getByRole('button', { name: 'How it travels' }).getAttribute('aria-expanded'), 'true')
  await keyboard.press('Escape')
  await panelOf(person).waitFor({ state: 'detached' })
  assert.equal(await focused(), 'How it travels', 'the focus is back where it was')
  await keyboard.press('Enter')
  await until(async () => (await focused()) === 'How this page travels', 'the focus follows into the panel')
  await tabTo('Close')
  await keyboard.press('Enter')
  await panelOf(person).waitFor({ state: 'detached' })
  await tabTo('Keep this burning')
  person.hasNoComplaints()
})
