// Several who look at one page, and what they can do without the one who shared it.

import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'

import { until } from '../lib/waiting.mjs'
import { arrive, serve } from './people.mjs'
import { generated } from './things.mjs'

const MIB = 1024 * 1024
const TRANSFER_MS = 240_000
const VIEWERS = 4
const BLOCKS = 24

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
  await person.tab.getByRole('button', { name: 'How it travels' }).click({ timeout: TRANSFER_MS })
  await panelOf(person).getByText('Where its blocks are').waitFor({ timeout: TRANSFER_MS })
}

test('when together they have all of it, they do without the one who shared it', async (t) => {
  // Slowly, so that there is a time when everyone has a part.
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const sharer = await arrive(t, server)
  const link = await sharer.light(await film(BLOCKS * MIB))
  await looksCloser(sharer)
  const viewers = []
  for (let i = 0; i < VIEWERS; i++) viewers.push(await arrive(t, server))
  await Promise.all(viewers.map((viewer) => viewer.goTo(link)))
  await Promise.all(viewers.map(looksCloser))
  // Until then the sharer is told that some block's last copy is its own.
  await panelOf(sharer).getByText(/^(The rarest .* in \d+ tabs|Every block is in)/).waitFor({ timeout: TRANSFER_MS })
  const shown = await Promise.all(viewers.map((viewer) => panelOf(viewer).getByRole('img').first().getAttribute('aria-label')))
  t.diagnostic(shown.join(' '))
  const here = shown.map((label) => Number(label.match(/\d+/g)[1]))
  assert(here.every((blocks) => blocks < BLOCKS + 1), `they had it already: ${here}`)
  await sharer.leave()
  await Promise.all(viewers.map((viewer) => viewer.holdsIt(TRANSFER_MS)))
  await until(async () => (await panelOf(viewers[0]).getByText(`Every block is in ${VIEWERS} tabs.`).count()) === 1, 'all have all')
})
