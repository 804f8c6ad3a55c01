// Makes the pictures of the documents that move, from real browsers and a real server; `make pictures` runs it.
//
//   node docs/images/record.mjs [NAME...]        all stories, or those that are named

import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { launch } from '../../tests/interop/lib/chromium.mjs'
import { waitUntil } from '../../tests/interop/lib/deadlines.mjs'
import { Desktop } from '../../tests/interop/lib/desktop.mjs'
import { newFolder } from '../../tests/interop/lib/folders.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { writeMovingPicture } from './moving-picture.mjs'

const BYTES_MAX = 600_000
const WINDOW = { width: 520, height: 640 }
const TEXT = '# Tonight\n\nThe boat leaves at *nine*.\nBring a lamp.\n'

/** Each story fills its picture with frames. */
const STORIES = { 'share-open-gone': shareOpenGone, 'reload-last-reader': reloadAndLastReader, 'sprite-crosses': spriteCrosses }
const named = process.argv.slice(2)
const unknown = named.find((name) => !Object.hasOwn(STORIES, name))
if (unknown) throw new Error(`cannot record ${unknown}: name some of ${Object.keys(STORIES).join(', ')}`)

const folder = newFolder()
const server = await startWatchfire({ settings: { 'server.drain_period': '100ms' } })
const home = `http://localhost:${server.port}/`
const browsers = await Promise.all([launch(), launch(), launch()])
const [left, right, stage] = browsers

try {
  for (const name of named.length > 0 ? named : Object.keys(STORIES)) await record(name)
} finally {
  await Promise.all(browsers.map((browser) => browser.close()))
  await server.stop()
}

/** Records a story as a picture that moves. */
async function record(name) {
  const frames = []
  const stagePage = await (await stage.newContext({ viewport: { width: 1120, height: 760 } })).newPage()

  /** Adds a frame that shows both windows; a closed window is `null`. */
  const addFrame = async (caption, windows, durationMs) => {
    const shots = await Promise.all(windows.map(async (tab) => (tab === null ? null : (await tab.screenshot()).toString('base64'))))
    await stagePage.setContent(html(caption, shots))
    const file = path.join(folder, `${name}-${String(frames.length).padStart(3, '0')}.png`)
    await stagePage.screenshot({ path: file })
    frames.push({ file, durationMs })
  }
  await STORIES[name](addFrame)
  writeMovingPicture(fileURLToPath(new URL(`${name}.webp`, import.meta.url)), frames, { bytesMax: BYTES_MAX })
}

async function openTab(browser) {
  return (await browser.newContext({ viewport: WINDOW })).newPage()
}

/** A sprite is thrown from one desktop to the other. */
async function spriteCrosses(addFrame) {
  const ends = []
  const desktops = []
  for (const count of ['3', '1']) {
    const desktop = await Desktop.start({ after: (end) => ends.push(end) })
    desktop.sprites({ after: (end) => ends.push(end) }, server, '--count', count)
    desktops.push(desktop)
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === desktops.length, 'it has a slot')
  }
  await desktops[0].standing()
  let isThrown = false
  const throwing = desktops[0]
    .throwRight()
    .then(() => pause(1_500))
    .then(() => (isThrown = true))
  const moments = []
  for (let before = performance.now(); !isThrown; before = moments.at(-1).at) {
    await pause(Math.max(0, before + 60 - performance.now()))
    moments.push({ at: performance.now(), captured: desktops.map((desktop) => desktop.capture()) })
  }
  await throwing
  for (const [i, { at, captured }] of moments.entries()) {
    const windows = desktops.map((desktop, n) => ({ screenshot: async () => desktop.screenshot(captured[n]) }))
    await addFrame('Two desktops: a sprite is thrown over the right edge', windows, Math.round((moments[i + 1]?.at ?? at + 1_500) - at))
  }
  for (const end of ends.reverse()) await end()
}

/** One browser shares a page, another opens it, and when both are closed it is gone. */
async function shareOpenGone(addFrame) {
  const author = await openTab(left)
  await author.goto(home)
  const field = author.getByRole('textbox', { name: 'Text of the page' })
  await field.waitFor()
  for (let length = 0; length < TEXT.length; length += 4) {
    await field.fill(TEXT.slice(0, length))
    await addFrame('One browser writes a page', [author, null], 120)
  }
  await field.fill(TEXT)
  await addFrame('One browser writes a page', [author, null], 900)

  await author.getByRole('button', { name: 'Light this page' }).click()
  await author.getByRole('textbox', { name: 'Link to this page' }).waitFor()
  await addFrame('It gets a link with the hash of its content', [author, null], 2_000)

  const reader = await openTab(right)
  await reader.goto(author.url())
  await reader.getByText('Bring a lamp').first().waitFor()
  await addFrame('Another browser loads it from the first, and checks every block', [author, reader], 2_500)

  const link = author.url()
  await author.close()
  await addFrame('The first tab closes: the second still has the page', [null, reader], 2_500)
  await reader.close()
  await addFrame('The last tab closes', [null, null], 1_200)

  const late = await openTab(left)
  await late.goto(link)
  await late
    .getByText(/nobody/i)
    .first()
    .waitFor()
  await addFrame('The page is gone', [late, null], 3_000)
}

/** The only tab with a page is reloaded, and has it again; then the last reader is told so. */
async function reloadAndLastReader(addFrame) {
  const author = await openTab(left)
  await author.goto(home)
  await author.getByRole('textbox', { name: 'Text of the page' }).fill(TEXT)
  await author.getByRole('button', { name: 'Light this page' }).click()
  await author.getByText('Only you have this page').waitFor()
  await author.getByText('Bring a lamp').first().waitFor()
  await addFrame('A page was just lit, and only this tab has it', [author, null], 2_200)

  // The document is empty for as long as its code is on the way.
  await author.route('**/assets/*.js', () => undefined)
  await author.reload({ waitUntil: 'commit' })
  await addFrame('F5 reloads the tab', [author, null], 1_000)
  await author.unroute('**/assets/*.js')
  await author.getByText('Only you have this page').waitFor()
  await author.getByText('Bring a lamp').first().waitFor()
  await addFrame('The page is there again, with the same link', [author, null], 2_500)

  const reader = await openTab(right)
  await reader.goto(author.url())
  await author.getByText('2 people have this page').waitFor()
  await reader.getByText('2 people have this page').waitFor()
  await addFrame('A reader opens the link', [author, reader], 2_000)

  await author.close()
  await reader.getByText('You are the last one').waitFor()
  await addFrame('The author leaves: the last reader is told, and can save or share the page', [null, reader], 4_000)
  await reader.close()
}

function html(caption, shots) {
  const windows = shots.map((shot) =>
    shot === null ? '<div class="window closed"></div>' : `<img class="window" src="data:image/png;base64,${shot}">`,
  )
  return `<!doctype html><style>
    body { margin: 0; padding: 24px; background: #15100d; color: #f4e6d8; font: 24px system-ui; text-align: center }
    main { display: flex; gap: 24px; justify-content: center; margin-top: 20px }
    .window { width: ${WINDOW.width}px; height: ${WINDOW.height}px; border-radius: 10px; object-fit: contain }
    .closed { border: 2px dashed #57473c; box-sizing: border-box }
  </style>${caption}<main>${windows.join('')}</main>`
}
