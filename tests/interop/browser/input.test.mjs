// Input besides typing: drop, paste, copy, reload, close.

import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'

import { withTimeout } from '../lib/deadlines.mjs'
import { drop, folderOf } from './dropped-files.mjs'
import { newVisitor, WAIT_MS, startServer, newVisitors } from './page-driver.mjs'
import { file, picture } from './fixtures.mjs'

test('a folder dropped anywhere on the home page becomes a page with its files', async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const folder = await folderOf(t, {
    'trip/index.md': '# The trip\n\n![us](pictures/us.png)\n',
    'trip/pictures/us.png': picture(40, 30),
  })
  await sharer.goTo('/')
  await sharer.waitForText('Up to')
  await drop(sharer, [path.join(folder, 'trip')])
  await sharer.waitForText('trip · 2 files')
  await sharer.tab.getByRole('button', { name: 'Light this page' }).click()
  await visitor.goTo(await sharer.sharedLink())
  assert.deepEqual(await visitor.waitForPicture('us'), [40, 30])
  // The browser must not leave a page for a file.
  await drop(visitor, [path.join(folder, 'trip/index.md')])
  await visitor.waitForText('Light index.md as a new page?')
  await visitor.tab.getByRole('button', { name: 'Not now' }).click()
  await visitor.tab.getByRole('dialog').waitFor({ state: 'detached' })
  assert.deepEqual(await visitor.waitForPicture('us'), [40, 30])
  assert.equal(visitor.tab.context().pages().length, 1)
})

test('files dropped on a page go to the editor, beside what was begun there', async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const { tab } = visitor
  const folder = await folderOf(t, { 'film.mp4': 'Not really a film.', 'trip/a.txt': 'A', 'trip/b.txt': 'B' })
  const link = await sharer.sharePage({ text: '# Supper' })
  await visitor.goTo('/')
  await visitor.compose({ text: 'My own words.', files: [file('begun.txt', 'Begun.')] })
  const files = tab.getByRole('list', { name: 'Files of the page' })
  await files.getByText('begun.txt').waitFor()
  await tab.waitForLoadState('networkidle')
  await visitor.goTo(link)
  await visitor.waitForText('Supper')
  await drop(visitor, [path.join(folder, 'trip'), path.join(folder, 'film.mp4')])
  await visitor.waitForText('Light 3 files as a new page?')
  await tab.keyboard.press('Escape')
  await tab.getByRole('dialog').waitFor({ state: 'detached' })
  await drop(visitor, [path.join(folder, 'film.mp4')])
  await visitor.waitForText('Light film.mp4 as a new page?')
  await tab.getByRole('button', { name: 'Open in the editor' }).click()
  for (const name of ['begun.txt', 'film.mp4']) await files.getByText(name).waitFor()
  assert.equal(await tab.getByRole('textbox', { name: 'Text of the page' }).inputValue(), 'My own words.')
  await tab.getByRole('button', { name: 'Light this page' }).click()
  await visitor.sharedLink()
  await visitor.waitForText('film.mp4')
  for (const person of [sharer, visitor]) person.assertNoPageErrors()
})

test('a reader, but no author, is told where a page is and how to make another', async (t) => {
  const [author, reader] = await newVisitors(t, await startServer(t), 2)
  const link = await author.sharePage({ text: '# Supper' })
  await reader.goTo(link)
  await reader.waitForText('This page is in the browsers of its readers.')
  assert.equal(await author.tab.getByText('Make your own.').count(), 0)
  await reader.tab.getByRole('link', { name: 'Make your own.' }).click()
  await reader.tab.getByRole('textbox', { name: 'Text of the page' }).waitFor()
  reader.assertNoPageErrors()
})

test('a folder with many files is one chip, whose list is sorted and can be shortened', async (t) => {
  const folder = await folderOf(t, Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`mixed/${i}.txt`, `${i}`])))
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  await sharer.goTo('/')
  await sharer.waitForText('Up to')
  // Without a mouse.
  const asked = sharer.tab.waitForEvent('filechooser')
  await sharer.tabTo('Add folder')
  await sharer.tab.keyboard.press('Enter')
  await (await asked).setFiles(path.join(folder, 'mixed'))
  const list = sharer.tab.getByRole('list', { name: 'Files of the page' })
  await list.getByText('mixed · 60 files').waitFor()
  assert.equal(await list.locator('li').count(), 1)
  await list.getByText('mixed · 60 files').click()
  await list.getByText('mixed/10.txt').waitFor()
  assert.deepEqual((await list.locator('li li span').allTextContents()).slice(1, 3), ['mixed/1.txt', 'mixed/2.txt'])
  await list.getByRole('button', { name: 'Remove mixed/1.txt' }).click()
  await list.getByText('mixed · 59 files').waitFor()
  await sharer.tab.getByRole('button', { name: 'Light this page' }).click()
  await visitor.goTo(await sharer.sharedLink())
  await visitor.waitForText('10.txt')
  assert.equal(await visitor.tab.getByText('1.txt', { exact: true }).count(), 0)
})

test('a page is not created while a dropped folder is still being read', async (t) => {
  const folder = await folderOf(t, { 'trip/day/notes.txt': 'The second day.' })
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.tab.evaluate(() => {
    const { webkitGetAsEntry } = DataTransferItem.prototype
    const released = new Promise((resolve) => (globalThis.releaseFolder = resolve))
    DataTransferItem.prototype.webkitGetAsEntry = function () {
      const entry = /** @type {FileSystemDirectoryEntry} */ (webkitGetAsEntry.call(this))
      const reader = entry.createReader()
      entry.createReader = () => ({ readEntries: (found, failed) => void released.then(() => reader.readEntries(found, failed)) })
      return entry
    }
  })
  await person.compose({ text: 'Look at the trip.' })
  await drop(person, [path.join(folder, 'trip')])
  await person.waitForText('Reading')
  const light = person.tab.getByRole('button', { name: 'Light this page' })
  assert(await light.isDisabled())
  await person.tab.getByRole('textbox', { name: 'Text of the page' }).press('Control+Enter')
  await person.tab.evaluate(() => globalThis.releaseFolder())
  await light.click()
  await person.sharedLink()
  await person.waitForText('notes.txt')
  person.assertNoPageErrors()
})

test('a page is not created without the files that were just picked', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  // The part of the app that puts files into the draft comes late.
  let release = () => {}
  const released = new Promise((resolve) => (release = () => resolve(undefined)))
  await person.tab.route(/\/drafting-[^/]*\.js$/, async (route) => {
    await released
    await route.continue()
  })
  await person.goTo('/')
  await person.compose({ text: 'Look at this.', files: [file('notes.txt', 'The third day.')] })
  await person.waitForText('Reading the files')
  const light = person.tab.getByRole('button', { name: 'Light this page' })
  assert(await light.isDisabled())
  await person.tab.getByRole('textbox', { name: 'Text of the page' }).press('Control+Enter')
  release()
  await light.click()
  await person.sharedLink()
  await person.waitForText('notes.txt')
  person.assertNoPageErrors()
})

test('a picture pasted into the text becomes part of the page, and cells of a spreadsheet are text', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.compose({ text: 'Look at this:' })
  // Returns whether the browser pastes the text itself.
  const paste = (name, text) =>
    person.tab.getByRole('textbox', { name: 'Text of the page' }).evaluate(
      (box, [bytes, name, text]) => {
        const clipboardData = new DataTransfer()
        clipboardData.items.add(new File([new Uint8Array(bytes)], name, { type: 'image/png' }))
        if (text !== '') clipboardData.setData('text/plain', text)
        return box.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))
      },
      [[...picture(40, 30)], name, text],
    )
  assert.equal(await paste('image.png', 'a\t1\nb\t2\n'), true)
  assert.equal(await paste('shot.png', ''), false)
  await person.tab.getByRole('list', { name: 'Files of the page' }).getByText('shot.png').waitFor()
  assert.equal(await person.tab.getByText('image.png').count(), 0)
  await pressWhileItMoves(person, person.tab.getByRole('button', { name: 'Light this page' }))
  await person.sharedLink()
  assert.deepEqual(await person.waitForPicture('shot'), [40, 30])
})

test('a press that ends beside its button does nothing, however near', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.goTo('/')
  await person.compose({ text: 'Not yet.' })
  const light = person.tab.getByRole('button', { name: 'Light this page' })
  // The part that helps presses of buttons that move has loaded.
  await person.tab.waitForLoadState('networkidle')
  await light.evaluate((button) => {
    globalThis.clicks = 0
    button.scrollIntoView({ block: 'center', behavior: 'instant' })
    button.addEventListener('click', (event) => {
      globalThis.clicks += 1
      event.preventDefault()
    })
  })
  const { x, y, width, height } = await light.boundingBox()
  const press = async ([fromX, fromY], [toX, toY]) => {
    await person.tab.mouse.move(x + fromX, y + fromY)
    await person.tab.mouse.down()
    await person.tab.mouse.move(x + toX, y + toY)
    await person.tab.mouse.up()
    return person.tab.evaluate(() => globalThis.clicks)
  }
  assert.equal(await press([width - 4, height / 2], [width + 4, height / 2]), 0)
  assert.equal(await press([width / 2, height - 4], [width / 2, height + 4]), 0)
  assert.equal(await press([width / 2, height / 2], [width / 2 + 4, height / 2]), 1)
})

test('the copied link is the link that is shown', async (t) => {
  const person = await newVisitor(t, await startServer(t), { permissions: ['clipboard-read', 'clipboard-write'] })
  const link = await person.sharePage({ text: 'Copy me.' })
  await person.tab.getByRole('button', { name: 'Copy link' }).click()
  await person.waitForText('Copied')
  assert.equal(await person.tab.evaluate(() => navigator.clipboard.readText()), link)
  await person.openDetails()
  await person.tab.getByRole('button', { name: 'QR code' }).click()
  await person.tab.getByRole('img', { name: 'QR code of the link' }).waitFor()
})

test('the panel of an author is the status and the link, and one line once the link is copied', async (t) => {
  const server = await startServer(t)
  for (const viewport of [
    { width: 1280, height: 800 },
    { width: 390, height: 844 },
  ]) {
    const person = await newVisitor(t, server, { viewport, permissions: ['clipboard-read', 'clipboard-write'] })
    const link = await person.sharePage({ text: '# Short' })
    const panel = person.tab.locator('.status-panel')
    const heightOf = async () => (await panel.boundingBox()).height
    assert((await heightOf()) < 120, `before, it is ${await heightOf()} pixels high`)
    assert.equal(await panel.getByRole('button').count(), 2, 'the buttons are those of the link and of the details')
    await panel.getByRole('button', { name: 'Copy link' }).click()
    await panel.getByRole('button', { name: 'Copied' }).waitFor()
    assert((await heightOf()) < 62, `after, it is ${await heightOf()} pixels high`)
    assert.equal(await person.focused(), 'Copied')
    // Back from another view, the author still needs no link.
    await person.tab.getByRole('link', { name: 'Watchfire' }).click()
    await person.tab.goBack()
    const share = panel.getByRole('button', { name: 'Share', exact: true })
    await share.waitFor()
    assert.equal(await person.tab.locator('input.link').count(), 0)
    await person.tab.evaluate(() => navigator.clipboard.writeText(''))
    await share.click()
    await panel.getByRole('button', { name: 'Copied' }).waitFor()
    assert.equal(await person.tab.evaluate(() => navigator.clipboard.readText()), link)
    person.assertNoPageErrors()
  }
})

test('a reloaded page is loaded again from the peers that still have it', async (t) => {
  const [a, b] = await newVisitors(t, await startServer(t), 2)
  const link = await a.sharePage({ text: 'Come back to me.' })
  await b.goTo(link)
  await b.waitForStatus('2 people have this page')
  await a.tab.reload()
  await a.tab.locator('.file').getByText('Come back to me.').waitFor()
  for (const person of [a, b]) await person.waitForStatus('2 people have this page')
})

test('the browser asks before the only copy is closed, and not when there is another', async (t) => {
  const [a, b] = await newVisitors(t, await startServer(t), 2)
  const link = await a.sharePage({ text: 'Do not lose me.' })
  await a.tab.getByText('Do not lose me.').first().click()
  const opened = a.tab.waitForEvent('dialog')
  const closing = a.tab.close({ runBeforeUnload: true })
  const dialog = await opened
  assert.equal(dialog.type(), 'beforeunload')
  await dialog.dismiss()
  await closing
  await b.goTo(link)
  for (const person of [a, b]) await person.waitForStatus('2 people have this page')

  const closed = a.tab.waitForEvent('close')
  await a.tab.close({ runBeforeUnload: true })
  await withTimeout(closed, 'the tab closes without a question', WAIT_MS)
  await b.waitForStatus('Only you have this page')
})

test('going back and forth between pages keeps each of them unchanged', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  const first = await person.sharePage({ text: 'The first.' })
  await person.tab.getByRole('link', { name: 'Watchfire' }).click()
  await person.compose({ text: 'The second.' })
  await person.tab.getByRole('button', { name: 'Light this page' }).click()
  await person.sharedLink()
  await person.tab.goBack()
  await person.waitForText('Burning in this tab')
  await person.tab.goBack()
  await person.waitForText('The first.')
  assert.equal(await person.tab.url(), first)
  await person.tab.goForward()
  await person.tab.goForward()
  await person.waitForText('The second.')
  person.assertNoPageErrors()
})

/** Presses a button that the layout moves away before it is released, as a picture does that appears above it. */
async function pressWhileItMoves({ tab }, button) {
  await button.hover()
  await tab.mouse.down()
  await tab.locator('.composer').evaluate((form) => (form.style.marginTop = '200px'))
  await tab.mouse.up()
}
