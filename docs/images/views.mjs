// Takes the pictures of docs/browser/views.md: each view in a light and a dark window and on a phone, from real browsers
// and a real server. `make pictures` runs it.
//
//   node docs/images/views.mjs [NAME...]        all views, or those that are named

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { drop } from '../../tests/interop/browser/dropped-files.mjs'
import { picture } from '../../tests/interop/browser/fixtures.mjs'
import { makeSunrise } from '../../tests/interop/browser/webm.mjs'
import { launch } from '../../tests/interop/lib/chromium.mjs'
import { newFolder } from '../../tests/interop/lib/folders.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'

const TO = fileURLToPath(new URL('views/', import.meta.url))
const BYTES_MAX = 60_000
const tooLarge = []
/** @type {Record<string, Parameters<Awaited<ReturnType<typeof launch>>['newContext']>[0]>} */
const WINDOWS = {
  light: { viewport: { width: 1024, height: 768 }, colorScheme: 'light' },
  dark: { viewport: { width: 1024, height: 768 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 780 }, colorScheme: 'light', isMobile: true, hasTouch: true, deviceScaleFactor: 1.5 },
}
const DRAFT = '# Tonight\n\nThe boat leaves at **nine**.\nBring a lamp, and:\n\n- something warm\n- one good story\n'
const NOTES = `# A night by the fire

We walked until the light was gone, and **made a fire** where the path meets the river.
It burned as long as we sat by it.

## To bring next time

- dry wood, and more of it than you think
- something warm to drink
- one good story each

> When the last of us left, it was dark again. That is all right.

| who | brings |
|---|---|
| Ann | the kettle |
| Ben | wood |
`

/** Each view: how the publisher makes its page, and when the reader's window shows all of it. */
const VIEWS = {
  home: { ready: (tab) => tab.getByText('Up to').waitFor() },
  writing: {
    async ready(tab) {
      await tab.getByRole('textbox', { name: 'Text of the page' }).fill(DRAFT)
      await tab.getByRole('region', { name: 'Preview' }).getByText('one good story').waitFor()
    },
  },
  text: {
    page: { text: NOTES },
    ready: (tab) => tab.locator('.prose').getByRole('heading', { name: 'A night by the fire' }).waitFor(),
  },
  folder: {
    page: { folder: lakeFolder },
    ready: (tab) => tab.waitForFunction(() => document.querySelectorAll('.file-rows img').length >= 6),
  },
  gallery: {
    page: { folder: lakeFolder },
    async ready(tab) {
      await tab.getByRole('button', { name: 'Gallery' }).click()
      await tab.waitForFunction(() => document.querySelectorAll('.gallery img').length >= 6)
    },
  },
  video: {
    page: { files: film },
    async ready(tab) {
      await tab.waitForFunction(() => document.querySelector('video')?.readyState >= 3)
      await tab.getByText('It plays while the rest loads').waitFor({ state: 'detached' })
      await tab.evaluate(async () => {
        const video = document.querySelector('video')
        video.muted = true
        video.currentTime = 12
        await video.play()
        while (video.currentTime < 12.2) await new Promise((resolve) => video.addEventListener('timeupdate', resolve, { once: true }))
        video.pause()
      })
    },
  },
  pdf: {
    page: { files: walkPdf },
    ready: (tab) => tab.locator('.pdf-text').getByText('The path by the river').first().waitFor({ state: 'attached' }),
  },
  waiting: {
    page: { text: '# Supper on Sunday', leaves: true },
    status: 'Nobody has this page right now',
    ready: (tab) => tab.getByRole('button', { name: 'Tell me when it is back' }).waitFor(),
  },
  private: {
    page: {
      text: '# The surprise\n\nAnn will be **forty** on Friday. Come at seven, by the back door, and say nothing.\n',
      isPrivate: true,
    },
    ready: (tab) => tab.getByText('by the back door').waitFor(),
  },
  live: {
    page: {
      liveTitle: 'Harbour log',
      text: 'The fog lifts.',
      entries: ['The first boat is out, with a lamp at the bow.', 'Two more follow it.'],
    },
    ready: (tab) => tab.getByText('Two more follow it.').waitFor(),
  },
  connections: {
    page: { files: largeFile },
    status: '1 person has this page',
    async ready(tab) {
      await tab.getByRole('button', { name: 'Details', exact: true }).click()
      await tab.getByRole('button', { name: 'Connections' }).click()
      await tab
        .getByText(/[1-9][\d.]* [KM]iB\/s now/)
        .first()
        .waitFor()
    },
  },
  error: { at: '/p/nonsense', ready: (tab) => tab.getByText('This page cannot be shown').waitFor() },
}

const named = process.argv.slice(2)
const unknown = named.find((name) => !Object.hasOwn(VIEWS, name))
if (unknown) throw new Error(`cannot take a picture of ${unknown}: name some of ${Object.keys(VIEWS).join(', ')}`)

const folder = newFolder()
const server = await startWatchfire({
  // A slow relay, so that the panel of a page shows a transfer in progress.
  settings: { 'server.drain_period': '100ms', 'channels.open_rooms': true, 'limits.relay_bytes_per_second_per_page': 4_000_000 },
})
const home = `http://localhost:${server.port}/`
const browsers = await Promise.all([launch(), launch()])
const [publisher, reader] = browsers
try {
  mkdirSync(TO, { recursive: true })
  for (const name of named.length > 0 ? named : Object.keys(VIEWS)) await takeView(name, VIEWS[name])
} finally {
  await Promise.all(browsers.map((browser) => browser.close()))
  await server.stop()
}
if (tooLarge.length > 0) throw new Error(`cannot keep ${tooLarge.join(', ')}: more than ${BYTES_MAX} bytes; make the views simpler`)

/** Publishes the page of a view, and takes its pictures one after the other, so that the counts are the same in each. */
async function takeView(name, { page, at = '/', status = '2 people have this page', ready }) {
  const author = page && (await publish(page))
  for (const [shape, options] of Object.entries(WINDOWS)) {
    const context = await reader.newContext({ ...options, reducedMotion: 'reduce', locale: 'en-GB' })
    const tab = await context.newPage()
    await tab.goto(author ? author.link : new URL(at, home).href)
    if (page) await tab.getByText(status).first().waitFor()
    await ready(tab)
    await tab.evaluate(() => document.fonts.ready)
    const file = path.join(folder, `${name}-${shape}.png`)
    await tab.screenshot({ path: file, animations: 'disabled' })
    await context.close()
    compress(file, path.join(TO, `${name}-${shape}.webp`))
  }
  await author?.context.close()
}

/** Lights a page in a browser of its own; returns its link. */
async function publish({
  text = '',
  files = null,
  folder: makeFolder = null,
  isPrivate = false,
  leaves = false,
  liveTitle = '',
  entries = [],
}) {
  const context = await publisher.newContext({ viewport: { width: 1024, height: 768 } })
  const tab = await context.newPage()
  await tab.goto(home)
  await tab.getByText('Up to').waitFor()
  if (text !== '') await tab.getByRole('textbox', { name: 'Text of the page' }).fill(text)
  if (files !== null) await tab.locator('input[type=file]').setInputFiles(await files(tab))
  if (makeFolder !== null) {
    await drop({ tab }, [await makeFolder(tab)])
    await tab.getByRole('list', { name: 'Files of the page' }).waitFor()
  }
  if (liveTitle !== '') {
    await tab.getByRole('switch', { name: 'Live' }).check()
    await tab.getByRole('textbox', { name: 'Title of the page' }).fill(liveTitle)
  }
  if (isPrivate) await tab.getByRole('switch', { name: 'Private' }).check()
  await tab.getByRole('button', { name: 'Light this page' }).click()
  const link = await tab.getByRole('textbox', { name: 'Link to this page' }).inputValue()
  for (const entry of entries) {
    await tab.getByRole('textbox', { name: 'Next entry' }).fill(entry)
    await tab.getByRole('button', { name: 'Add entry' }).click()
    await tab.locator('.feed').getByText(entry).waitFor()
  }
  if (leaves) await tab.goto('about:blank')
  return { context, link }
}

/** Compresses a picture without loss; where soft light makes that large, with a loss that nobody sees. */
function compress(from, to) {
  const encode = (...how) => execFileSync('cwebp', ['-quiet', ...how, from, '-o', to])
  encode('-lossless', '-z', '9')
  if (statSync(to).size > BYTES_MAX) encode('-preset', 'text', '-sharp_yuv', '-m', '6', '-q', '88')
  const { size } = statSync(to)
  console.log(`${path.basename(to)}: ${size} bytes`)
  if (size > BYTES_MAX) tooLarge.push(path.basename(to))
}

/** A folder with pictures, documents and a table. */
async function lakeFolder() {
  const at = path.join(folder, 'A week by the lake')
  const files = {
    'photos/01 arrival.png': picture(480, 320),
    'photos/02 the jetty.png': picture(400, 300),
    'photos/03 from the boat.png': picture(520, 300),
    'photos/04 evening.png': picture(300, 300),
    'photos/05 last light.png': picture(600, 340),
    'photos/06 going home.png': picture(360, 300),
    'map.svg':
      '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><rect width="40" height="40" fill="#7fb069"/><circle cx="20" cy="22" r="11" fill="#4d9de0"/></svg>',
    'costs.csv': 'what,euros\nboat,120\nbread,14\n',
    'notes.md': NOTES,
    'songs/fire.txt': 'Light it, leave it.\n',
  }
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(at, name)), { recursive: true })
    writeFileSync(path.join(at, name), content)
  }
  return at
}

/** A film of a sunrise. */
async function film(tab) {
  const at = path.join(folder, 'sunrise.webm')
  writeFileSync(at, await makeSunrise(tab, { seconds: 20, bytesPerSecond: 60_000 }))
  return at
}

/** A file that takes some seconds. */
function largeFile() {
  const at = path.join(folder, 'film.bin')
  writeFileSync(at, randomBytes(40 << 20))
  return at
}

/** A PDF of three pages, printed by the browser. */
async function walkPdf() {
  const context = await publisher.newContext()
  const tab = await context.newPage()
  const chapters = ['The path by the river', 'The hut', 'The way back']
  const body = chapters.map(
    (title, i) =>
      `<section><h1>${title}</h1><p>Day ${i + 1}. ${'We followed the water until the valley opened, and rested where the alders stand close together. '.repeat(6)}</p></section>`,
  )
  await tab.setContent(`<style>body { margin: 2cm; font: 13pt/1.6 serif } section { break-after: page }</style>${body.join('')}`)
  const at = path.join(folder, 'three-days.pdf')
  writeFileSync(at, await tab.pdf({ format: 'A5', landscape: true }))
  await context.close()
  return at
}
