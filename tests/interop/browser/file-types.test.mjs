// Each file type is shown in a suitable form, and can be saved unchanged.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { newVisitor, WAIT_MS, startServer, newVisitors } from './page-driver.mjs'
import { file, generated, picture, sound } from './fixtures.mjs'
import { makeWebm } from './webm.mjs'

const FILM = { seconds: 1, bytesPerSecond: 20_000, width: 64, height: 48 }

/** Shares one file in one browser and opens it in another. */
async function shareAndOpen(t, name, content) {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const link = await sharer.sharePage({ files: [file(name, content)] })
  await visitor.goTo(link)
  await visitor.waitUntilComplete()
  return visitor
}

test('Markdown is rendered', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.sharePage({ text: '# Title\n\n- one\n- **two**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n' })
  const shown = person.tab.locator('.prose')
  await shown.getByRole('heading', { name: 'Title' }).waitFor()
  assert.equal(await shown.getByRole('listitem').count(), 2)
  assert.equal(await shown.getByRole('cell').count(), 2)
})

test('a page says its name once, and the title of the tab is the heading of its text', async (t) => {
  const server = await startServer(t)
  const [author, reader] = await newVisitors(t, server, 2)
  const named = { 'draft-to-keep.md': 'Seven o’clock', 'IMG_2034.png': 'IMG_2034.png' }
  for (const [name, title] of Object.entries(named)) {
    const content = name.endsWith('.md') ? 'Soon.\n\n# Seven *o’clock*\n\nAt the pier.' : picture(60, 40)
    await reader.goTo(await author.sharePage({ files: [file(name, content, name.endsWith('.md') ? 'text/markdown' : 'image/png')] }))
    await reader.waitUntilComplete()
    await reader.tab.locator('.prose, .shown').waitFor()
    for (const { tab } of [author, reader]) {
      await waitUntil(async () => (await tab.title()) === `${title} · Watchfire`, `the title of the tab is ${title}`, WAIT_MS)
      const words = await tab.getByRole('main').textContent()
      assert.equal(words.split(name).length - 1, 1, words)
      await tab.getByRole('heading', { name, level: 1 }).waitFor()
    }
  }
  for (const person of [author, reader]) person.assertNoPageErrors()
})

test('the boxes of a list of tasks stand in line, ticked or not', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  await person.sharePage({ text: '- [x] a lamp\n- [ ] a story\n' })
  const boxes = person.tab.locator('.prose .task')
  await boxes.nth(1).waitFor()
  const heights = await boxes.evaluateAll((all) =>
    all.map((box) => box.getBoundingClientRect().top - box.closest('li').getBoundingClientRect().top),
  )
  assert(Math.abs(heights[0] - heights[1]) < 0.5, `the boxes are ${heights.join(' and ')} pixels below the start of their lines`)
})

test('plain text is shown unchanged', async (t) => {
  const visitor = await shareAndOpen(t, 'words.txt', '<b>not bold</b>\n  indented\n')
  assert.equal(await visitor.tab.locator('pre.words').textContent(), '<b>not bold</b>\n  indented\n')
})

test('source code is highlighted', async (t) => {
  const source = 'const answer = "forty-two" // said so\n'
  const visitor = await shareAndOpen(t, 'answer.js', source)
  const shown = visitor.tab.locator('pre.source')
  await shown.locator('.hljs-string').waitFor()
  assert.equal(await shown.textContent(), source)
  visitor.assertNoPageErrors()
})

test('a picture is displayed', async (t) => {
  const visitor = await shareAndOpen(t, 'cat.png', picture(320, 200))
  assert.deepEqual(await visitor.waitForPicture('cat.png'), [320, 200])
})

test('audio can be played', async (t) => {
  const visitor = await shareAndOpen(t, 'tone.wav', sound())
  const seconds = await waitUntil(
    () => visitor.tab.locator('audio').evaluate((audio) => (audio.readyState >= 1 ? audio.duration : null)),
    'the sound is read',
    WAIT_MS,
  )
  assert.equal(seconds, 1)
})

test('a video can be played', async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const link = await sharer.sharePage({ files: [file('film.webm', await makeWebm(sharer, FILM))] })
  await visitor.goTo(link)
  await visitor.waitUntilComplete()
  const width = await waitUntil(
    () => visitor.tab.locator('video').evaluate((video) => (video.readyState >= 1 ? video.videoWidth : null)),
    'the film is read',
    WAIT_MS,
  )
  assert.equal(width, 64)
})

test('a file that cannot be shown can be saved with its bytes and name unchanged', async (t) => {
  const content = generated(1_500_000)
  const visitor = await shareAndOpen(t, 'thing.bin', content)
  await visitor.waitForText('This kind of file is not shown here')
  assert.deepEqual(await readFile(await visitor.saveFile('thing.bin')), content)
})

test('several files are listed, and each can be opened and saved', async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  const files = [file('one.txt', 'First words.'), file('two.txt', 'Second words.'), file('three.md', '# Third')]
  await visitor.goTo(await sharer.sharePage({ files }))
  await visitor.waitForText('3 files')
  await visitor.tab.getByRole('link', { name: 'two.txt' }).click()
  await visitor.waitForText('Second words.')
  assert.equal(await readFile(await visitor.saveFile('one.txt'), 'utf8'), 'First words.')
  await visitor.tab.goBack()
  await visitor.tab.getByRole('link', { name: 'three.md' }).click()
  await visitor.tab.getByRole('heading', { name: 'Third' }).waitFor()
  visitor.assertNoPageErrors()
})

test('an empty file, and a name in any script, can be shared', async (t) => {
  const [sharer, visitor] = await newVisitors(t, await startServer(t), 2)
  await visitor.goTo(await sharer.sharePage({ files: [file('Grüße 世界 🔥.txt', 'Hallo')] }))
  await visitor.waitForText('Hallo')
  await visitor.waitForText('Grüße 世界 🔥.txt')
  for (const name of ['empty.txt', 'empty.png', 'empty.zip']) {
    await visitor.goTo(await sharer.sharePage({ files: [file(name, '')] }))
    await visitor.waitForText('This file is empty.')
    await visitor.waitUntilComplete()
  }
})
