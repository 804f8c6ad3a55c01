// What people see of what the operator of a server wants.

import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

import { arrive, cidOf, serve } from './people.mjs'

const DENIED = 'The operator of this server introduces nobody to one another on this page.'

/** A deny-list of one test, gone when it is over. */
async function denyList(t) {
  const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-denied-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = path.join(folder, 'denied.txt')
  await writeFile(file, '')
  return file
}

test('a page that is denied while it burns goes on with nobody, says why, and lets nobody else in', async (t) => {
  const list = await denyList(t)
  const server = await serve(t, { settings: { 'pages.deny_file': list } })
  const [holder, reader, late] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const link = await holder.light({ text: 'Not for long.' })
  await reader.goTo(link)
  await reader.sees('Not for long.')

  await writeFile(list, `# as a link\n${link}\n`)
  for (const person of [holder, reader]) await person.sees(DENIED)
  await reader.sees('Not for long.')
  await late.goTo(link)
  await late.sees('This page cannot be shown')
  await late.sees(DENIED)
  const other = await holder.withAnotherTab()
  assert.ok(await other.light({ text: 'Another page.' }), 'other pages burn as ever')
  for (const person of [holder, reader, late]) person.hasNoComplaints()
})

test('a page is reported where the operator wants it, and by nobody elsewhere', async (t) => {
  const server = await serve(t, { settings: { 'pages.report': 'mailto:abuse@example.org?subject={cid}' } })
  const person = await arrive(t, server)
  const link = await person.light({ text: 'Read me.' })
  const report = person.tab.getByRole('link', { name: 'Report this page' })
  assert.equal(await report.getAttribute('href'), `mailto:abuse@example.org?subject=${cidOf(link)}`)

  const plain = await arrive(t, await serve(t))
  await plain.light({ text: 'Read me.' })
  assert.equal(await plain.tab.getByText('Report this page').count(), 0)
})

test('who has as many pages open as an address may is told so, and by whom', async (t) => {
  const settings = { 'limits.pages_per_address_max': 1, 'limits.loopback_limited': true }
  const server = await serve(t, { settings })
  const person = await arrive(t, server)
  await person.light({ text: 'The first.' })
  const other = await person.withAnotherTab()
  await other.light({ text: 'One too many.' })
  await other.isTold('Nobody can be met here')
  await other.sees('Others do not find this tab: Your network address has as many pages open as the server allows.')
  person.hasNoComplaints()
})

test('who finds nobody is told when the page was last lit, where that is kept', async (t) => {
  const server = await serve(t, { settings: { 'pages.last_lit_kept': '1h' } })
  const [holder, late] = [await arrive(t, server), await arrive(t, server)]
  const link = await holder.light({ text: 'Seen by nobody else.' })
  await holder.leave()
  await late.goTo(link)
  await late.sees('Somebody last had all of it')
})
