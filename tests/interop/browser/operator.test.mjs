// Pages that an operator blocks, limits or receives reports about, as people see them.

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { newVisitor, cidOf, startServer, newVisitors } from './page-driver.mjs'

const DENIED = 'The operator of this server has blocked this page.'

/** A deny-list for one test, removed when the test ends. */
async function denyList(t) {
  const folder = newFolder(t)
  const file = path.join(folder, 'denied.txt')
  await writeFile(file, '')
  return file
}

test('a page that is blocked while open is isolated, shows why, and cannot be opened again', async (t) => {
  const list = await denyList(t)
  const [holder, reader, late] = await newVisitors(t, await startServer(t, { settings: { 'pages.deny_file': list } }), 3)
  const link = await holder.sharePage({ text: 'Not for long.' })
  await reader.goTo(link)
  await reader.waitForText('Not for long.')

  await writeFile(list, `# as a link\n${link}\n`)
  for (const person of [holder, reader]) await person.waitForText(DENIED)
  await reader.waitForText('Not for long.')
  await late.goTo(link)
  await late.waitForText('This page cannot be shown')
  await late.waitForText(DENIED)
  const other = await holder.openAnotherTab()
  assert.ok(await other.sharePage({ text: 'Another page.' }), 'another page cannot be shared')
  for (const person of [holder, reader, late]) person.assertNoPageErrors()
})

test('the report link appears only where the operator has configured an address', async (t) => {
  const person = await newVisitor(t, await startServer(t, { settings: { 'pages.report': 'mailto:abuse@example.org?subject={cid}' } }))
  const link = await person.sharePage({ text: 'Read me.' })
  const report = person.tab.getByRole('link', { name: 'Report this page' })
  assert.equal(await report.getAttribute('href'), `mailto:abuse@example.org?subject=${cidOf(link)}`)

  const plain = await newVisitor(t, await startServer(t))
  await plain.sharePage({ text: 'Read me.' })
  assert.equal(await plain.tab.getByText('Report this page').count(), 0)
})

test('at the limit of open pages per address, a person sees which limit it is', async (t) => {
  const settings = { 'limits.pages_per_address_max': 1, 'limits.loopback_limited': true }
  const server = await startServer(t, { settings })
  const person = await newVisitor(t, server)
  await person.sharePage({ text: 'The first.' })
  const other = await person.openAnotherTab()
  await other.sharePage({ text: 'One too many.' })
  await other.waitForStatus('No connection to other people')
  await other.waitForText(
    'Others cannot load the page from this tab: Your network address has as many pages open as the server allows. Close one and reload.',
  )
  person.assertNoPageErrors()
})

test('a visitor of an unavailable page sees when it was last available, if the server keeps that time', async (t) => {
  const [holder, late] = await newVisitors(t, await startServer(t, { settings: { 'pages.last_available_kept': '1h' } }), 2)
  const link = await holder.sharePage({ text: 'Only here.' })
  await holder.leave()
  await late.goTo(link)
  await late.waitForText('Somebody last had the whole page')
})
