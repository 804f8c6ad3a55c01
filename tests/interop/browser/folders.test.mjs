// Folders as people have them: very large ones, web sites, old encodings, without files.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'

import { run } from '../lib/program.mjs'
import { binary } from '../lib/server.mjs'
import { shareFolder } from '../lib/shared-folder.mjs'
import { drop, folderOf } from './dropped-files.mjs'
import { skipWithout } from '../lib/engines/index.mjs'
import { cidOf, newVisitor, startServer } from './page-driver.mjs'

/** With such long names, so many that the directory is split into shards. */
const MANY = 1300
const nameOf = (i) => `${String(i).padStart(200, '0')}.txt`

test('a folder in shards is listed whole and sorted, and saved whole, however it arrives', {
  skip: skipWithout('init-scripts'),
}, async (t) => {
  const server = await startServer(t)
  const files = Object.fromEntries(Array.from({ length: MANY }, (_, i) => [nameOf(i), String(i)]))
  const { link } = await shareFolder(t, server, files)
  const visitor = await newVisitor(t, server)
  await visitor.tab.addInitScript(() => {
    delete globalThis.showSaveFilePicker
    // Every number of files that is ever shown.
    globalThis.totals = new Set()
    new MutationObserver(() => {
      const total = document.querySelector('.listing .total')?.textContent
      if (total) globalThis.totals.add(total)
    }).observe(document, { subtree: true, childList: true, characterData: true })
  })
  await visitor.goTo(`${link}#filename=many`)
  await visitor.waitUntilComplete()
  await visitor.waitForText('1300 files, ')
  const totals = await visitor.tab.evaluate(() => [...globalThis.totals])
  assert.equal(totals.length, 1, totals.join('; '))
  const listed = await visitor.tab.locator('.listing li a').allInnerTexts()
  assert.deepEqual(
    listed,
    Array.from({ length: listed.length }, (_, i) => nameOf(i)),
  )

  const saved = visitor.tab.waitForEvent('download')
  await visitor.tab.getByRole('button', { name: 'Save all as zip' }).click()
  assert.equal(filesInZip(await readFile(await (await saved).path())), MANY)
})

test('a dropped folder is the page: a site in its own encoding, with the CID of the terminal', {
  skip: skipWithout('devtools'),
}, async (t) => {
  const server = await startServer(t)
  const place = await folderOf(t, {
    'mysite/index.html': Buffer.from(
      '<!doctype html><meta charset="windows-1252"><link rel=stylesheet href=s.css><h1>Gr\xfc\xdfe</h1><a href=ja.html>Next</a>',
      'latin1',
    ),
    // A style sheet has the encoding of its document.
    'mysite/s.css': Buffer.from('h1::after { content: " \xe4" }', 'latin1'),
    'mysite/ja.html': Buffer.from(
      '<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS"><h1>\x93\xfa\x96\x7b</h1>',
      'latin1',
    ),
    'mysite/notes.txt': Buffer.from('\ufeffÄrger, Ω', 'utf16le'),
    'mysite/later/': '',
  })
  const sharer = await newVisitor(t, server)
  await sharer.goTo('/')
  await sharer.waitForText('Up to')
  await drop(sharer, [path.join(place, 'mysite')])
  await sharer.waitForText('mysite · 4 files')
  await sharer.tab.getByRole('button', { name: 'Light this page' }).click()
  const link = await sharer.sharedLink()
  const { stdout } = await run(binary('watchfire'), ['cid', path.join(place, 'mysite')])
  assert.equal(cidOf(link), stdout.split(/\s/)[0])
  assert.match(link, /#filename=mysite$/)

  const site = sharer.tab.frameLocator('iframe[title="The site"]').frameLocator('iframe').frameLocator('iframe')
  const title = site.getByRole('heading', { name: 'Grüße' })
  await title.waitFor()
  assert.equal(await title.evaluate((it) => getComputedStyle(it, '::after').content), '" ä"')
  await site.getByRole('link', { name: 'Next' }).click()
  await site.getByRole('heading', { name: '日本' }).waitFor()
  await sharer.tab.getByRole('link', { name: 'notes.txt' }).click()
  await sharer.tab.locator('.words').getByText('Ärger, Ω').waitFor()
})

test('a folder without files says so: when it is dropped, and when it is a page', { skip: skipWithout('devtools') }, async (t) => {
  const server = await startServer(t)
  const place = await folderOf(t, { 'nothing/': '' })
  const person = await newVisitor(t, server)
  await person.goTo('/')
  await person.waitForText('Up to')
  await drop(person, [path.join(place, 'nothing')])
  await person.waitForText('The folder has no files.')
  const { link } = await shareFolder(t, server, { elsewhere: { link: '/nowhere' } })
  await person.goTo(link)
  await person.waitForText('This page is a folder without files. This page has a symbolic link, which is not shown here.')
})

/** The number of entries in a zip file, from its last record. */
function filesInZip(zip) {
  return zip.readUInt16LE(zip.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1')) + 10)
}
