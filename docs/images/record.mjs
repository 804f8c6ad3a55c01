// Makes share-open-gone.webp from real browsers and a real server; `make pictures` runs it.
// The picture moves: one browser shares a page, another opens it, and when both are closed it is gone.

import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { launch } from '../../tests/interop/lib/chromium.mjs'
import { newFolder } from '../../tests/interop/lib/folders.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { writeMovingPicture } from './moving-picture.mjs'

const TARGET = fileURLToPath(new URL('share-open-gone.webp', import.meta.url))
const BYTES_MAX = 2_000_000
const WINDOW = { width: 520, height: 640 }
const TEXT = '# Tonight\n\nThe boat leaves at *nine*.\nBring a lamp.\n'

const folder = newFolder()
const server = await startWatchfire({ settings: { 'server.drain_period': '100ms' } })
const home = `http://localhost:${server.port}/`
const browsers = await Promise.all([launch(), launch(), launch()])
const [left, right, stage] = browsers

try {
  await recordStory()
} finally {
  await Promise.all(browsers.map((browser) => browser.close()))
  await server.stop()
}

/** The picture that moves. */
async function recordStory() {
  const frames = []
  const stagePage = await (await stage.newContext({ viewport: { width: 1120, height: 760 } })).newPage()

  /** Adds a frame that shows both windows; a closed window is `null`. */
  const addFrame = async (caption, windows, durationMs) => {
    const shots = await Promise.all(windows.map(async (tab) => (tab === null ? null : (await tab.screenshot()).toString('base64'))))
    await stagePage.setContent(html(caption, shots))
    const file = path.join(folder, `${String(frames.length).padStart(3, '0')}.png`)
    await stagePage.screenshot({ path: file })
    frames.push({ file, durationMs })
  }
  const openTab = async (browser) => (await browser.newContext({ viewport: WINDOW })).newPage()

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

  writeMovingPicture(TARGET, frames, { bytesMax: BYTES_MAX })
}

function html(caption, shots) {
  const windows = shots.map((shot) =>
    shot === null ? '<div class="window closed"></div>' : `<img class="window" src="data:image/png;base64,${shot}">`,
  )
  return `<!doctype html><style>
    body { margin: 0; padding: 24px; background: #15100d; color: #f4e6d8; font: 24px system-ui; text-align: center }
    main { display: flex; gap: 24px; justify-content: center; margin-top: 20px }
    .window { width: ${WINDOW.width}px; height: ${WINDOW.height}px; border-radius: 10px }
    .closed { border: 2px dashed #57473c; box-sizing: border-box }
  </style>${caption}<main>${windows.join('')}</main>`
}
