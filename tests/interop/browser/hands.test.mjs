// What people do besides reading and writing: drop, paste, copy, reload, close.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

import { within } from '../lib/waiting.mjs'
import { arrive, PATIENCE_MS, serve } from './people.mjs'
import { picture } from './things.mjs'

test('a folder dropped anywhere on the home page becomes a page with its files', async (t) => {
  const server = await serve(t)
  const [sharer, visitor] = [await arrive(t, server), await arrive(t, server)]
  const folder = await folderOf(t, {
    'trip/index.md': '# The trip\n\n![us](pictures/us.png)\n',
    'trip/pictures/us.png': picture(40, 30),
  })
  await sharer.goTo('/')
  await sharer.sees('Up to')
  await drop(sharer, [path.join(folder, 'trip')])
  await sharer.sees('trip/pictures/us.png')
  await sharer.tab.getByRole('button', { name: 'Light it' }).click()
  await visitor.goTo(await sharer.linkLit())
  await visitor.tab.getByRole('link', { name: 'trip/index.md' }).click()
  assert.deepEqual(await visitor.seesPicture('us'), [40, 30])
})

test('a picture that is pasted into the text comes with the page', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  await person.goTo('/')
  await person.compose({ text: 'Look at this:' })
  await person.tab.getByRole('textbox', { name: 'What the page says' }).evaluate((box, bytes) => {
    const clipboardData = new DataTransfer()
    clipboardData.items.add(new File([new Uint8Array(bytes)], 'shot.png', { type: 'image/png' }))
    box.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))
  }, [...picture(40, 30)])
  await person.tab.getByRole('list', { name: 'Files of the page' }).getByText('shot.png').waitFor()
  await person.tab.getByRole('button', { name: 'Light it' }).click()
  await person.linkLit()
  assert.deepEqual(await person.seesPicture('shot'), [40, 30])
})

test('the link that is copied is the link that is shown', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server, { permissions: ['clipboard-read', 'clipboard-write'] })
  const link = await person.light({ text: 'Copy me.' })
  await person.tab.getByRole('button', { name: 'Copy link' }).click()
  await person.sees('Copied')
  assert.equal(await person.tab.evaluate(() => navigator.clipboard.readText()), link)
  await person.tab.getByRole('img', { name: 'QR code of the link' }).waitFor()
})

test('whoever reloads a page gets it back from those who still have it', async (t) => {
  const server = await serve(t)
  const [a, b] = [await arrive(t, server), await arrive(t, server)]
  const link = await a.light({ text: 'Come back to me.' })
  await b.goTo(link)
  await b.isTold('Held by 2 tabs')
  await a.tab.reload()
  await a.tab.locator('.file').getByText('Come back to me.').waitFor()
  for (const person of [a, b]) await person.isTold('Held by 2 tabs')
})

test('the browser asks before the only copy is closed, and not when there is another', async (t) => {
  const server = await serve(t)
  const [a, b] = [await arrive(t, server), await arrive(t, server)]
  const link = await a.light({ text: 'Do not lose me.' })
  await a.tab.getByText('Do not lose me.').first().click()
  const asked = a.tab.waitForEvent('dialog')
  const closing = a.tab.close({ runBeforeUnload: true })
  const dialog = await asked
  assert.equal(dialog.type(), 'beforeunload')
  await dialog.dismiss()
  await closing
  await b.goTo(link)
  for (const person of [a, b]) await person.isTold('Held by 2 tabs')

  const closed = a.tab.waitForEvent('close')
  await a.tab.close({ runBeforeUnload: true })
  await within(closed, 'the tab closes without a question', PATIENCE_MS)
  await b.isTold('You are the only one holding this page')
})

test('going back and forth between pages keeps each as it was', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  const first = await person.light({ text: 'The first.' })
  await person.tab.getByRole('link', { name: 'Watchfire' }).click()
  await person.compose({ text: 'The second.' })
  await person.tab.getByRole('button', { name: 'Light it' }).click()
  await person.sees('The second.')
  await person.tab.goBack()
  await person.sees('Burning in this tab')
  await person.tab.goBack()
  await person.sees('The first.')
  assert.equal(person.tab.url(), first)
  await person.tab.goForward()
  await person.tab.goForward()
  await person.sees('The second.')
  person.hasNoComplaints()
})

/** Lays files out below a folder that is gone when the test ends. */
async function folderOf(t, files) {
  const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
  t.after(() => rm(folder, { recursive: true }))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true })
    await writeFile(path.join(folder, name), content)
  }
  return folder
}

/** Drops files and folders from the disk, as from a desktop, on the middle of the page. */
async function drop({ tab }, files) {
  const session = await tab.context().newCDPSession(tab)
  const { width, height } = tab.viewportSize()
  const data = { items: [], files, dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver', 'drop']) {
    await session.send('Input.dispatchDragEvent', { type, x: width / 2, y: height / 2, data })
  }
  await session.detach()
}
