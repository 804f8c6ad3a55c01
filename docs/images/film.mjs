// Records a video that plays while it arrives over a slow connection, and checks that it plays before a third of it is here.
// `make film` runs it; it writes docs/browser/film.webp and docs/browser/film.md.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { makeSunrise } from '../../tests/interop/browser/webm.mjs'
import { BY_RELAY_ONLY, launch } from '../../tests/interop/lib/chromium.mjs'
import { waitUntil } from '../../tests/interop/lib/deadlines.mjs'
import { newFolder } from '../../tests/interop/lib/folders.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { writeMovingPicture } from './moving-picture.mjs'

const DOCUMENTS = fileURLToPath(new URL('../browser/', import.meta.url))
const PICTURE = path.join(DOCUMENTS, 'film.webp')
const BYTES_MAX = 600_000
const FILM = { seconds: 24, bytesPerSecond: 500_000 }
/** The rate at which the server forwards the film: a little more than its playback needs. */
const BYTES_PER_SECOND = 620_000
const FRAME_MS = 500
const SHARE_MAX = 1 / 3
const WINDOW = { width: 520, height: 580 }
const LOAD_MS = 120_000

const seconds = (value) => `${value.toFixed(1)} s`
const percent = (share) => `${Math.round(100 * share)} %`

const folder = newFolder()
const server = await startWatchfire({
  settings: { 'server.drain_period': '100ms', 'limits.relay_bytes_per_second_per_peer': BYTES_PER_SECOND },
})
const home = `http://localhost:${server.port}/`
const relayed = () => server.metric('watchfire_pages_relayed_bytes_total')
const browsers = await Promise.all([launch(BY_RELAY_ONLY), launch(BY_RELAY_ONLY), launch()])
const [left, right, stage] = browsers

try {
  const { link, bytes } = await share()
  const frames = await record(link, bytes)
  check(frames)
  await write(frames, bytes)
} finally {
  await Promise.all(browsers.map((browser) => browser.close()))
  await server.stop()
}

/** A browser makes the film and shares it. */
async function share() {
  const tab = await (await left.newContext()).newPage()
  await tab.goto(home)
  const film = await makeSunrise(tab, FILM)
  await tab.locator('input[type=file]').setInputFiles([{ name: 'sunrise.webm', mimeType: 'video/webm', buffer: film }])
  await tab.getByRole('button', { name: 'Light this page' }).click()
  await tab.getByRole('textbox', { name: 'Link to this page' }).waitFor()
  return { link: tab.url(), bytes: film.length }
}

/** Another browser opens the link and presses play. Returns pictures of its window, with what was here at each moment. */
async function record(link, bytes) {
  const context = await right.newContext({ viewport: WINDOW, colorScheme: 'dark' })
  const tab = await context.newPage()
  await tab.addInitScript(pressPlay)
  const frames = []
  const before = await relayed()
  const began = performance.now()
  await tab.goto(link)
  const addFrame = async () => {
    const [sent, page] = [(await relayed()) - before, await tab.evaluate(stateOf)]
    const atMs = performance.now() - began
    frames.push({ atMs, sent: Math.min(1, sent / bytes), ...page, shot: (await tab.screenshot()).toString('base64') })
    await pause(Math.max(0, frames.length * FRAME_MS - (performance.now() - began)))
  }
  while (performance.now() - began < LOAD_MS && !frames.at(-1)?.isWhole) await addFrame()
  await waitUntil(() => tab.evaluate(() => document.querySelector('video').ended), 'the film ends', LOAD_MS)
  await addFrame()
  assert.equal(await tab.evaluate(() => document.querySelector('video').error), null)
  return frames
}

/** Starts the player as soon as it is there, and counts its pauses for more bytes. Runs before the scripts of the page. */
function pressPlay() {
  const moments = { stalls: 0 }
  globalThis.moments = moments
  addEventListener('waiting', ({ target }) => (moments.stalls += Number(/** @type {HTMLVideoElement} */ (target).currentTime > 0)), true)
  new MutationObserver((_, observer) => {
    const video = document.querySelector('video')
    if (video === null) return
    observer.disconnect()
    video.muted = true
    void video.play()
  }).observe(document, { childList: true, subtree: true })
}

/** The position of the player, and the share of the film that the page has. Runs in the page. */
function stateOf() {
  /** @type {HTMLProgressElement | null} */
  const progress = document.querySelector('.coming progress')
  const isWhole = document.querySelector('.status-panel.held') !== null
  return {
    position: document.querySelector('video')?.currentTime ?? 0,
    arrived: isWhole ? 1 : progress === null || progress.position < 0 ? 0 : progress.position,
    isWhole,
    stalls: globalThis.moments.stalls,
  }
}

/** The film must play before a third of it is here, by the page and by the bytes that the server has forwarded. */
function check(frames) {
  const playing = frames.find(({ position }) => position > 0)
  assert(playing, 'the film never plays')
  for (const share of ['arrived', 'sent']) {
    assert(playing[share] < SHARE_MAX, `the film plays too late: with ${percent(playing[share])} of it ${share}`)
  }
  assert(frames.at(-1).isWhole, 'the film never arrives completely')
}

async function write(frames, bytes) {
  const tab = await (await stage.newContext({ viewport: { width: WINDOW.width + 48, height: WINDOW.height + 96 } })).newPage()
  const files = []
  for (const [index, frame] of frames.entries()) {
    const next = frames[index + 1]
    const file = path.join(folder, `${String(index).padStart(3, '0')}.png`)
    await tab.setContent(html(frame))
    await tab.screenshot({ path: file })
    files.push({ file, durationMs: next === undefined ? 3_000 : Math.round(next.atMs - frame.atMs) })
  }
  writeMovingPicture(PICTURE, files, { bytesMax: BYTES_MAX, quality: 80 })
  writeFileSync(path.join(DOCUMENTS, 'film.md'), report(frames, bytes))
}

function html(frame) {
  return `<!doctype html><style>
    body { margin: 0; padding: 20px 24px; background: #15100d; color: #f4e6d8; font: 22px system-ui; text-align: center }
    img { width: ${WINDOW.width}px; height: ${WINDOW.height}px; margin-top: 18px; border-radius: 10px }
  </style>${seconds(frame.atMs / 1000)}: ${percent(frame.arrived)} has arrived<br>
  <img src="data:image/png;base64,${frame.shot}">`
}

function report(frames, bytes) {
  const playing = frames.find(({ position }) => position > 0)
  const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8', cwd: DOCUMENTS }).trim()
  const marks = [0.25, 0.5, 0.75].map((share) => frames.find(({ arrived }) => arrived >= share))
  const rows = [...new Set([playing, ...marks, frames.find(({ isWhole }) => isWhole), frames.at(-1)])]
  const { stalls } = frames.at(-1)
  return `# A video that plays while it arrives

Chromium opens the link to a video of ${FILM.seconds} seconds and ${(bytes / 1e6).toFixed(1)} MB. Another Chromium has it. The server forwards the
blocks at ${BYTES_PER_SECOND / 1000} kB per second, so that the whole video needs ${seconds(bytes / BYTES_PER_SECOND)} or more. A script presses play.

![The page of the viewer: the video plays while the bar below it shows what has arrived](film.webp)

After ${seconds(playing.atMs / 1000)} the video plays with ${percent(playing.arrived)} of it here. After that it pauses ${stalls} ${stalls === 1 ? 'time' : 'times'} to wait for bytes. The picture
shows the real time.

| after opening | arrived | forwarded by the server | position |
|---:|---:|---:|---:|
${rows.map((row) => `| ${seconds(row.atMs / 1000)} | ${percent(row.arrived)} | ${percent(row.sent)} | ${seconds(row.position)} |`).join('\n')}

\`make film\` records it again. It fails when a third of the video is here before it plays.
Recorded on ${new Date().toISOString().slice(0, 10)} with the code after commit ${commit}.
`
}
