// Each kind of content is shown as it is best read, and can be saved as it came.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'

import { until } from '../lib/waiting.mjs'
import { arrive, PATIENCE_MS, serve } from './people.mjs'
import { file, generated, picture, sound } from './things.mjs'

/** Lights one file in one browser and opens it in another. */
async function passOn(t, name, content) {
  const server = await serve(t)
  const [sharer, visitor] = [await arrive(t, server), await arrive(t, server)]
  const link = await sharer.light({ files: [file(name, content)] })
  await visitor.goTo(link)
  await visitor.holdsIt()
  return visitor
}

test('Markdown is shown as it is meant to be read', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  await person.light({ text: '# Title\n\n- one\n- **two**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n' })
  const shown = person.tab.locator('.prose')
  await shown.getByRole('heading', { name: 'Title' }).waitFor()
  assert.equal(await shown.getByRole('listitem').count(), 2)
  assert.equal(await shown.getByRole('cell').count(), 2)
})

test('text is shown letter by letter', async (t) => {
  const visitor = await passOn(t, 'words.txt', '<b>not bold</b>\n  indented\n')
  assert.equal(await visitor.tab.locator('pre.words').textContent(), '<b>not bold</b>\n  indented\n')
})

test('code is shown in colours', async (t) => {
  const source = 'const answer = "forty-two" // said so\n'
  const visitor = await passOn(t, 'answer.js', source)
  const shown = visitor.tab.locator('pre.source')
  await shown.locator('.hljs-string').waitFor()
  assert.equal(await shown.textContent(), source)
  visitor.hasNoComplaints()
})

test('a picture is drawn', async (t) => {
  const visitor = await passOn(t, 'cat.png', picture(320, 200))
  assert.deepEqual(await visitor.seesPicture('cat.png'), [320, 200])
})

test('a sound can be played', async (t) => {
  const visitor = await passOn(t, 'tone.wav', sound())
  const seconds = await until(
    () => visitor.tab.locator('audio').evaluate((audio) => (audio.readyState >= 1 ? audio.duration : null)),
    'the sound is read',
    PATIENCE_MS,
  )
  assert.equal(seconds, 1)
})

test('a film can be played', async (t) => {
  const server = await serve(t)
  const [sharer, visitor] = [await arrive(t, server), await arrive(t, server)]
  const link = await sharer.light({ files: [file('film.webm', await recordFilm(sharer))] })
  await visitor.goTo(link)
  await visitor.holdsIt()
  const width = await until(
    () => visitor.tab.locator('video').evaluate((video) => (video.readyState >= 1 ? video.videoWidth : null)),
    'the film is read',
    PATIENCE_MS,
  )
  assert.equal(width, 64)
})

test('what cannot be shown can be saved, byte for byte and under its name', async (t) => {
  const content = generated(1_500_000)
  const visitor = await passOn(t, 'thing.bin', content)
  await visitor.sees('This kind of file is not shown here')
  assert.deepEqual(await readFile(await visitor.saves('thing.bin')), content)
})

test('several files are listed, and each can be opened and saved', async (t) => {
  const server = await serve(t)
  const [sharer, visitor] = [await arrive(t, server), await arrive(t, server)]
  const files = [file('one.txt', 'First words.'), file('two.txt', 'Second words.'), file('three.md', '# Third')]
  await visitor.goTo(await sharer.light({ files }))
  await visitor.sees('3 files')
  await visitor.tab.getByRole('link', { name: 'two.txt' }).click()
  await visitor.sees('Second words.')
  assert.equal(await readFile(await visitor.saves('one.txt'), 'utf8'), 'First words.')
  await visitor.tab.goBack()
  await visitor.tab.getByRole('link', { name: 'three.md' }).click()
  await visitor.tab.getByRole('heading', { name: 'Third' }).waitFor()
  visitor.hasNoComplaints()
})

test('an empty file and a name in any script pass on', async (t) => {
  const server = await serve(t)
  const [sharer, visitor] = [await arrive(t, server), await arrive(t, server)]
  await visitor.goTo(await sharer.light({ files: [file('Grüße 世界 🔥.txt', 'Hallo')] }))
  await visitor.sees('Hallo')
  await visitor.sees('Grüße 世界 🔥.txt')
  await visitor.goTo(await sharer.light({ files: [file('empty.txt', '')] }))
  await visitor.holdsIt()
})

test('two people talk in a room, and a third in another room hears nothing', async (t) => {
  const server = await serve(t)
  const [ann, bob, eve] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  for (const [person, name, room] of [[ann, 'Ann', 'camp'], [bob, 'Bob', 'camp'], [eve, 'Eve', 'elsewhere']]) {
    await person.goTo(`/chat#room=${room}`)
    await person.sees('Connected')
    await person.tab.getByRole('textbox', { name: 'Your name' }).fill(name)
  }
  const say = async (person, words) => {
    const field = person.tab.getByRole('textbox', { name: 'Message' })
    await field.fill(words)
    await person.tab.keyboard.press('Enter')
    await until(async () => (await field.inputValue()) === '', 'what was said is taken')
  }
  await say(ann, 'Is anybody <b>there</b>?')
  await bob.sees('Is anybody <b>there</b>?')
  await say(bob, 'By the fire.')
  const log = (person) => person.tab.getByRole('log').getByRole('listitem')
  await ann.sees('By the fire.')
  assert.equal(await log(ann).count(), 2)
  assert.equal(await log(eve).count(), 0)
  for (const person of [ann, bob, eve]) person.hasNoComplaints()
})

/** A short film, as the browser itself records it. */
async function recordFilm(person) {
  await person.goTo('/')
  const bytes = await person.tab.evaluate(async () => {
    const canvas = document.createElement('canvas')
    canvas.width = 64
    canvas.height = 48
    const pen = canvas.getContext('2d')
    const recorder = new MediaRecorder(canvas.captureStream(25), { mimeType: 'video/webm' })
    const parts = []
    recorder.ondataavailable = ({ data }) => parts.push(data)
    const stopped = new Promise((resolve) => (recorder.onstop = resolve))
    recorder.start(20)
    for (let frame = 0; parts.length < 5; frame += 1) {
      pen.fillStyle = `hsl(${frame * 9}, 90%, 50%)`
      pen.fillRect(0, 0, 64, 48)
      await new Promise(requestAnimationFrame)
    }
    recorder.stop()
    await stopped
    return [...new Uint8Array(await new Blob(parts).arrayBuffer())]
  })
  return Buffer.from(bytes)
}
