// Each window is a desktop; beyond each of its edges is the desktop of another person.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdir, open } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { crc32, deflateSync } from 'node:zlib'

import { waitUntil } from '../lib/deadlines.mjs'
import { engineOfTests, skipWithout } from '../lib/engines/index.mjs'
import { newFolder } from '../lib/folders.mjs'
import { newVisitor, cidOf, WAIT_MS, WINDOWS, startServer, newVisitors } from './page-driver.mjs'

const OUT = fileURLToPath(new URL('../out', import.meta.url))
const GRID = '/sprites/meadow'

test('a sprite thrown over the right edge arrives at the neighbour, who stays the neighbour after a reload', async (t) => {
  const [a, b] = await newVisitors(t, await startServer(t, { settings: { 'socket.reservation_period': '2m' } }), 2)
  await a.goTo(GRID)
  await b.goTo(GRID)
  const [idOfB, idOfA] = [await neighbour(a, 'right'), await neighbour(b, 'left')]

  await flick(a, 'Cat')
  await b.waitForText('Cat came in from the left.')
  await a.waitForText('Cat went over to your neighbour at the right.')
  assert.deepEqual([await count(a, 'Cat'), await count(b, 'Cat')], [0, 2])

  await b.tab.reload()
  await b.waitForText('Throw one over an edge')
  assert.equal(await neighbour(b, 'left'), idOfA)
  assert.equal(await neighbour(a, 'right'), idOfB)
  assert.equal(await count(b, 'Cat'), 2, 'its sprites are where they were')

  // By keyboard, in the other direction.
  await sprite(b, 'Kite').focus()
  await b.tab.keyboard.press('ArrowUp')
  await a.waitForText('Kite came in from the bottom.')
  for (const person of [a, b]) person.assertNoPageErrors()
})

test('without neighbours a sprite comes back, and a duplicated tab gets a slot of its own', {
  skip: skipWithout('init-scripts'),
}, async (t) => {
  const a = await newVisitor(t, await startServer(t))
  await a.goTo(GRID)
  await a.waitForText('Throw one over an edge')
  await sprite(a, 'Ball').focus()
  await a.tab.keyboard.press('ArrowLeft')
  await a.waitForText('Nobody is at the left: Ball came back from the right.')

  const token = await a.tab.evaluate(() => sessionStorage.getItem('sprites-token:meadow'))
  const copy = await a.openAnotherTab()
  await copy.tab.addInitScript((token) => sessionStorage.setItem('sprites-token:meadow', token), token)
  await copy.goTo(GRID)
  const [first, second] = [await neighbour(copy, 'up'), await neighbour(a, 'down')]
  assert.notEqual(first, second)
  a.assertNoPageErrors()
})

test('a picture travels with its sprite, and later comes from any peer that has seen it', async (t) => {
  const server = await startServer(t, { settings: { 'socket.reservation_period': '300ms' } })
  const [a, b] = await newVisitors(t, server, 2)
  await a.goTo(GRID)
  await b.goTo(GRID)
  const idOfA = await neighbour(b, 'right')
  for (const person of [a, b]) await clear(person)
  await pick(a, { name: 'flag of mine.png', mimeType: 'image/png', buffer: flag() })
  await a.waitForText('flag of mine is a sprite now.')
  const colours = await coloursOf(a, 'flag of mine')
  assert.deepEqual(colours, FLAG)

  await throwOver(a, 'flag of mine', 'ArrowLeft')
  await b.waitForText('flag of mine came in from the right.')
  assert.deepEqual(await coloursOf(b, 'flag of mine'), colours)

  await a.leave()
  const c = await newVisitor(t, server)
  await c.goTo(GRID)
  await clear(c)
  await waitUntil(
    async () => {
      const around = await Promise.all(['left', 'right', 'up', 'down'].map((edge) => neighbour(b, edge)))
      return !around.includes(idOfA)
    },
    'the newcomer is the only neighbour',
    WAIT_MS,
  )
  await throwOver(b, 'flag of mine', 'ArrowUp')
  await c.waitForText('flag of mine came in from the bottom.')
  assert.deepEqual(await coloursOf(c, 'flag of mine'), colours)

  // With all others gone, a reload loses nothing.
  await b.leave()
  await c.tab.reload()
  assert.deepEqual(await coloursOf(c, 'flag of mine'), colours)
  for (const person of [a, b, c]) person.assertNoPageErrors()
})

test('a picture can be dropped or pasted, and can be an SVG', async (t) => {
  const a = await newVisitor(t, await startServer(t))
  await a.goTo(GRID)
  await a.waitForText('Throw one over an edge')
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">
    <script>document.documentElement.innerHTML = ''; parent.pwned = true</script>
    <rect width="20" height="20" fill="#f00"/><rect x="20" width="20" height="20" fill="#00f"/></svg>`
  await dropOrPaste(a, 'drop', { name: 'drawn.svg', type: 'image/svg+xml', base64: btoa(svg) })
  await a.waitForText('drawn is a sprite now.')
  assert.deepEqual(await coloursOf(a, 'drawn'), FLAG)
  assert.equal(await a.tab.evaluate(() => 'pwned' in window), false)
  await dropOrPaste(a, 'paste', { name: 'image.png', type: 'image/png', base64: flag().toString('base64') })
  await a.waitForText('image is a sprite now.')
  assert.deepEqual(await coloursOf(a, 'image'), FLAG)
  a.assertNoPageErrors()
})

test('a large picture is scaled down before it is sent', async (t) => {
  const a = await newVisitor(t, await startServer(t))
  await a.goTo(GRID)
  await pick(a, { name: 'noise.png', mimeType: 'image/png', buffer: noise(600, 900) })
  await a.waitForText('noise is a sprite now.')
  const sizes = await sprite(a, 'noise')
    .locator('img')
    .evaluate((img) => [img.naturalWidth, img.naturalHeight])
  // A browser that cannot encode WebP, such as WebKitGTK, needs half the size for the same bytes.
  const hasWebp = await a.tab.evaluate(() => document.createElement('canvas').toDataURL('image/webp').startsWith('data:image/webp'))
  assert.deepEqual(sizes, hasWebp ? [171, 256] : [85, 128])
  a.assertNoPageErrors()
})

test('an invalid or oversized picture is rejected with a message, and nothing else changes', async (t) => {
  const a = await newVisitor(t, await startServer(t))
  await a.goTo(GRID)
  await a.waitForText('Throw one over an edge')
  const folder = newFolder(t)
  const huge = path.join(folder, 'huge.png')
  const file = await open(huge, 'w')
  await file.truncate(100 * 1024 * 1024)
  await file.close()
  await pick(a, huge)
  await a.waitForText('“huge.png” has 100 MiB: a picture here may have at most 32 MiB.')
  await pick(a, { name: 'notes.png', mimeType: 'image/png', buffer: Buffer.from('These are words.') })
  await a.waitForText('“notes.png” is not a picture that this browser can read.')
  await pick(a, { name: 'bomb.png', mimeType: 'image/png', buffer: png(30_000, 30_000, Buffer.alloc(0)) })
  await a.waitForText('“bomb.png” has 30,000 × 30,000 pixels, which is too many.')
  const alert = a.tab.getByRole('alert').filter({ hasText: 'bomb.png' })
  await alert.getByRole('button', { name: 'Close this message' }).click()
  await alert.waitFor({ state: 'detached' })
  assert.equal(await a.tab.locator('.sprite').count(), 3)
  a.assertNoPageErrors()
})

test('a picture that is missing or invalid is shown as a question mark with the reason', async (t) => {
  const server = await startServer(t)
  const [b, sharer] = await newVisitors(t, server, 2)
  const stranger = await joinByHttp(server)
  await b.goTo(GRID)
  await neighbour(b, 'left')

  const nowhere = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyka'
  await stranger.throw('lost', nowhere)
  await waitForReason(b, 'lost', 'Nobody here has its picture at the moment.')

  const words = cidOf(await sharer.sharePage({ text: 'A page, and no picture.' }))
  await stranger.throw('words', words)
  await waitForReason(b, 'words', 'it is not a PNG, JPEG or WebP')

  const shareBlank = async (side) => {
    const file = { name: 'blank.png', mimeType: 'image/png', buffer: png(side, side, Buffer.alloc(side * (1 + side * 3))) }
    const tab = await sharer.openAnotherTab()
    return cidOf(await tab.sharePage({ files: [file] }))
  }
  await stranger.throw('wide', await shareBlank(2_000))
  await waitForReason(b, 'wide', /more than 1,?024 pixels a side/)
  await stranger.throw('heavy', await shareBlank(5_000))
  await waitForReason(b, 'heavy', 'more than')
  b.assertNoPageErrors()
})

for (const { shape, viewport, colorScheme } of WINDOWS) {
  test(`a hundred sprites move smoothly in a ${shape} window in the ${colorScheme} theme`, { skip: skipWithout('devtools') }, async (t) => {
    const a = await newVisitor(t, await startServer(t), { viewport, colorScheme, hasTouch: shape === 'narrow' })
    await a.goTo(GRID)
    await a.waitForText('Throw one over an edge')
    const pictures = Array.from({ length: 8 }, (_, i) => ({ name: `noise ${i}.png`, mimeType: 'image/png', buffer: noise(300, 300) }))
    await pick(a, pictures)
    await a.waitForText('noise 7 is a sprite now.')
    await a.tab.evaluate(() => {
      /** @type {NodeListOf<HTMLElement>} */
      const shelf = document.querySelectorAll('.shelf button')
      for (let i = 0; i < 89; i++) shelf[i % shelf.length].click()
    })
    await waitUntil(async () => (await a.tab.locator('.sprite').count()) === 100, 'a hundred sprites', WAIT_MS)
    const { still, ms } = await workOfFrames(a)
    t.diagnostic(`${ms.toFixed(1)} ms of the processor for a frame; in ${still} of ${FRAMES} frames nothing moved`)
    assert(ms < FRAME_MS, `a frame takes ${ms} ms of the page's thread`)
    assert(still < FRAMES / 4, `nothing moved in ${still} of ${FRAMES} frames`)
    await mkdir(OUT, { recursive: true })
    await a.tab.screenshot({ path: path.join(OUT, `sprites-${shape}-${colorScheme}.png`) })
    const { scroll, client } = await a.tab.evaluate(() => {
      const { scrollWidth: scroll, clientWidth: client } = document.documentElement
      return { scroll, client }
    })
    assert(scroll <= client, `${scroll} wide in a window of ${client}`)
    a.assertNoPageErrors()
  })
}

/** Thirty frames per second. */
const FRAME_MS = 1000 / 30
const FRAMES = 40

/** The colours that `coloursOf` finds in the flag. */
const FLAG = { size: [64, 64], left: [255, 0, 0, 255], right: [0, 0, 255, 255] }

/** Twice as wide as high: red on the left, blue on the right. */
function flag() {
  const row = [0, ...Array(20).fill([255, 0, 0]), ...Array(20).fill([0, 0, 255])].flat()
  return png(40, 20, Buffer.from(Array(20).fill(row).flat()))
}

/** Noise that no encoding makes small. */
function noise(width, height) {
  const rows = randomBytes(height * (1 + width * 3))
  for (let row = 0; row < height; row++) rows[row * (1 + width * 3)] = 0
  return png(width, height, rows)
}

/** A PNG in 8-bit colours; each row of `rows` starts with its filter. */
function png(width, height, rows) {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2, 0, 0, 0], 8)
  const chunk = (name, data) => {
    const body = Buffer.concat([Buffer.from(name), data])
    const ends = Buffer.alloc(8)
    ends.writeUInt32BE(data.length, 0)
    ends.writeUInt32BE(crc32(body), 4)
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)])
  }
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([signature, chunk('IHDR', head), chunk('IDAT', deflateSync(rows)), chunk('IEND', Buffer.alloc(0))])
}

/** Chooses a file with the button. */
async function pick(person, file) {
  await person.tab.getByLabel('Put a picture of yours here').setInputFiles(file)
}

/** Drops a file in the middle of the stage, or pastes it. */
function dropOrPaste(person, how, file) {
  return person.tab.evaluate(
    ({ how, file: { name, type, base64 } }) => {
      const transfer = new DataTransfer()
      transfer.items.add(new File([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], name, { type }))
      const event =
        how === 'paste'
          ? new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true, cancelable: true })
          : new DragEvent('drop', { dataTransfer: transfer, clientX: 300, clientY: 300, bubbles: true, cancelable: true })
      // Firefox makes an empty clipboard of the given one.
      if (how === 'paste') Object.defineProperty(event, 'clipboardData', { value: transfer })
      document.querySelector('.stage').dispatchEvent(event)
      if (!event.defaultPrevented) throw new Error('the browser would have shown the file')
    },
    { how, file },
  )
}

/** Removes every sprite, so that none is in the way. */
async function clear({ tab }) {
  await tab.locator('.sprite').first().waitFor({ timeout: WAIT_MS })
  for (let left = await tab.locator('.sprite').count(); left > 0; left--) {
    await tab.locator('.sprite').first().focus()
    await tab.keyboard.press('Delete')
    await waitUntil(async () => (await tab.locator('.sprite').count()) === left - 1, 'one less', WAIT_MS)
  }
}

async function throwOver(person, name, key) {
  await sprite(person, name).focus()
  await person.tab.keyboard.press(key)
}

/** The displayed size of a sprite's picture and the colours of its halves, once it is drawn. */
async function coloursOf(person, name) {
  const img = sprite(person, name).locator('img')
  await img.waitFor({ timeout: WAIT_MS })
  return img.evaluate(async (img) => {
    await img.decode()
    const canvas = new OffscreenCanvas(img.naturalWidth, img.naturalHeight)
    const context = canvas.getContext('2d')
    context.drawImage(img, 0, 0)
    const at = (share) => [...context.getImageData(canvas.width * share, canvas.height / 2, 1, 1).data]
    return { size: [img.width, img.height], left: at(0.25), right: at(0.75) }
  })
}

/** Waits until a sprite is a question mark whose title and accessible name state the reason. */
async function waitForReason(person, name, why) {
  const button = sprite(person, name)
  await waitUntil(
    async () => {
      const [label, title] = [await button.getAttribute('aria-label'), await button.getAttribute('title')]
      return [label, title].every((text) => text?.match(why))
    },
    `${name} shows the reason ${why}`,
    WAIT_MS,
  )
  assert.equal(await button.locator('svg').count(), 1)
  assert.equal(await button.locator('img').count(), 0)
}

/** A client without a browser, to the left and right of the next person who joins. */
async function joinByHttp(server) {
  const post = async (what, body) => {
    const response = await fetch(server.http(`/sprites/meadow/${what}`), { method: 'POST', body: body && JSON.stringify(body) })
    assert.equal(response.status, 200)
    return response.json()
  }
  const { token } = await post('join')
  return {
    async throw(sprite, picture) {
      const flight = { edge: 'right', at: 0.5, velocity: { x: 500, y: 0 } }
      assert.deepEqual(await post('throw', { token, sprite, picture, ...flight }), {})
    },
  }
}

/**
 * Pushes all sprites, as the arrow keys do. Returns the milliseconds for which the page's thread runs on a processor for a frame, and
 * the frames in which no sprite moves. The time between two frames would depend on the other programs of the machine.
 */
async function workOfFrames({ tab }) {
  const devtools = await tab.context().newCDPSession(tab)
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const threadSeconds = async () => {
    const { metrics } = await devtools.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'TaskDuration').value
  }
  const before = await threadSeconds()
  const still = await tab.evaluate(async (frames) => {
    const places = new Set()
    /** @type {NodeListOf<HTMLElement>} */
    const found = document.querySelectorAll('.sprite')
    const sprites = [...found]
    const keys = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown']
    for (let i = 0; i < frames; i++) {
      // Again and again: a busy machine draws few frames before friction stops a sprite.
      if (i % 8 === 0) {
        for (const [n, sprite] of sprites.entries()) sprite.dispatchEvent(new KeyboardEvent('keydown', { key: keys[n % 4], bubbles: true }))
      }
      await new Promise(requestAnimationFrame)
      places.add(sprites.map(({ style }) => style.transform).join())
    }
    return frames - places.size
  }, FRAMES)
  const ms = ((await threadSeconds()) - before) * (1000 / FRAMES)
  await devtools.detach()
  return { still, ms }
}

function sprite(person, name) {
  return person.tab.getByRole('button', { name: new RegExp(`^${name}: arrow keys`) }).first()
}

function count(person, name) {
  return person.tab.getByRole('button', { name: new RegExp(`^${name}: arrow keys`) }).count()
}

/** The neighbour beyond an edge, once there is one. */
async function neighbour(person, edge) {
  const cell = person.tab.locator(`.map .${edge}:not(.nobody) dd`)
  await cell.waitFor({ timeout: WAIT_MS })
  return cell.getAttribute('title')
}

/** Drags a sprite to the right with the mouse and releases it. */
async function flick({ tab }, name) {
  const box = await sprite({ tab }, name).boundingBox()
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
  if ('devtools' in engineOfTests.lacks) return drag(tab, x, y)
  const input = await tab.context().newCDPSession(tab)
  // The events have times of their own, so a busy machine makes the throw late, but not slow.
  const began = Date.now() / 1000 - 0.2
  const send = (type, step, buttons) =>
    input.send('Input.dispatchMouseEvent', {
      type,
      x: x + step * 60,
      y,
      button: 'left',
      buttons,
      clickCount: 1,
      timestamp: began + step * 0.016,
    })
  await send('mouseMoved', 0, 0)
  await send('mousePressed', 0, 1)
  for (let step = 1; step <= 6; step++) await send('mouseMoved', step, 1)
  await send('mouseReleased', 6, 0)
  await input.detach()
}

async function drag(tab, x, y) {
  await tab.mouse.move(x, y)
  await tab.mouse.down()
  await tab.mouse.move(x + 360, y, { steps: 6 })
  await tab.mouse.up()
}
