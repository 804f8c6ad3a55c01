// Content that is shown as its blocks arrive: each test has a holder that sends only some of them.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../../lib/deadlines.mjs'
import { blocksOf, folderBlocksOf } from '../bitswap-messages.mjs'
import { noise, picture } from '../fixtures.mjs'
import { newVisitor, startServer, WAIT_MS } from '../page-driver.mjs'
import { honestHolder, joinPage, LimitedHolder } from '../raw-peer.mjs'
import { sendUntil } from './sending.mjs'

const MIB = 1 << 20
/** Blocks that a holder may send in the time until a new order of the requests reaches it. */
const EARLIER = 3

/** Opens a page of which a holder sends only that number of blocks. */
async function openSlowly(t, { root, blocks }, { allowed, fragment }) {
  const server = await startServer(t)
  const holder = new LimitedHolder(blocks, allowed)
  await joinPage(t, server, root, 'all', holder.answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}${fragment}`)
  return { server, holder, visitor }
}

/** Opens a page of one file whose holder has sent the root and the first block. Before the file is read, the tab may request any block. */
async function openAtFirstBlock(t, page, fragment) {
  const opened = await openSlowly(t, page, { allowed: 1, fragment })
  const [first] = page.blocks.keys()
  await waitUntil(() => opened.holder.mostUrgent === first, 'the first block is the next that is read', WAIT_MS)
  opened.holder.allow(1)
  return opened
}

test('a text is shown from its first block on, and never what is not verified', async (t) => {
  const lines = Array.from({ length: 30_000 }, (_, i) => `Line ${i} of a long text, so that it has several blocks: ${'.'.repeat(60)}\n`)
  const content = Buffer.from(lines.join(''))
  assert(content.length > 3 * MIB && content.length < 4 * MIB)
  const page = blocksOf(content)
  // The third leaf is not the bytes of its CID. No other peer has it.
  const [, second, third] = page.blocks.keys()
  const honest = page.blocks.get(third)
  page.blocks.set(third, { ...honest, bytes: Buffer.alloc(honest.bytes.length, 'Forged. ') })
  const { holder, visitor } = await openAtFirstBlock(t, page, '#filename=long.txt')
  const shown = visitor.tab.locator('pre.words')
  await shown.getByText('Line 5 of a long text').waitFor()
  assert.equal((await shown.textContent()).includes('Line 29999 '), false)
  assert.equal(holder.sent, 2)

  // The forged block would end the connection if it were sent first.
  await waitUntil(() => holder.mostUrgent === second, 'the second block is the next that is read', WAIT_MS)
  holder.allow(2)
  await waitUntil(() => shown.textContent().then((text) => text.includes('Line 12000 ')), 'the second block is shown', WAIT_MS)
  const text = await shown.textContent()
  assert.equal(text.includes('Forged.'), false)
  // A line that ends a block of the layout has no newline.
  assert(content.toString().replaceAll('\n', '').startsWith(text.replaceAll('\n', '')), 'the text so far is the start of the file')
})

test('Markdown is shown at once, and its pictures as they arrive', async (t) => {
  const image = picture(900, 800, { noise: 7 })
  const words = '# The trip\n\n![A noisy field](field.png)\n\nThe end of the text.\n'
  const page = folderBlocksOf({ 'field.png': image, 'index.md': Buffer.from(words), 'rest.bin': Buffer.alloc(6 * MIB, 'rest of it ') })
  // The folder, and the nodes of the two large files.
  const { holder, visitor } = await openSlowly(t, page, { allowed: 3, fragment: '' })
  await visitor.waitForText('3 files')
  await sendUntil(holder, visitor, () => visitor.tab.locator('.prose').getByText('The end of the text.').isVisible())
  assert(holder.sent <= 3 + 1 + EARLIER, `the text needed ${holder.sent} blocks`)

  const before = holder.sent
  await sendUntil(holder, visitor, () => visitor.tab.getByRole('img', { name: 'A noisy field' }).evaluate((img) => img.naturalWidth > 0))
  assert(holder.sent <= before + Math.ceil(image.length / MIB) + EARLIER, `the picture needed ${holder.sent - before} blocks`)
  assert(holder.sent < page.blocks.size, 'the file that nobody looks at is still missing')
  visitor.assertNoPageErrors()
})

test('a picture is drawn from its first block on', async (t) => {
  const page = blocksOf(picture(1400, 1000, { noise: 3 }))
  const { holder, visitor } = await openAtFirstBlock(t, page, '#filename=field.png')
  const shown = visitor.tab.locator('img.shown')
  await waitUntil(() => shown.evaluate((img) => img.naturalHeight > 0), 'the size of the picture is known', WAIT_MS)
  assert.equal(await shown.evaluate((img) => img.complete), false)
  assert.equal(holder.sent, 2)
  holder.allow(Infinity)
  await waitUntil(() => shown.evaluate((img) => img.complete), 'all of the picture is drawn', WAIT_MS)
  visitor.assertNoPageErrors()
})

test('a picture that streams gets no forged byte, and is drawn on when the true block comes', async (t) => {
  const page = blocksOf(picture(1400, 1000, { noise: 3 }))
  const honest = new Map(page.blocks)
  const [, second] = page.blocks.keys()
  const { bytes, cid } = page.blocks.get(second)
  page.blocks.set(second, { cid, bytes: Buffer.alloc(bytes.length, 'Forged. ') })
  const { server, holder, visitor } = await openAtFirstBlock(t, page, '#filename=field.png')
  const shown = visitor.tab.locator('img.shown')
  await waitUntil(() => shown.evaluate((img) => img.naturalHeight > 0), 'the size of the picture is known', WAIT_MS)
  const stream = await shown.getAttribute('src')
  assert.match(stream, /^\/stream\//)
  await waitUntil(() => holder.mostUrgent === second, 'the forged block is the next that is read', WAIT_MS)
  holder.allow(1)
  await waitUntil(() => holder.sent === 3, 'the forged block is sent', WAIT_MS)
  await joinPage(t, server, page.root, 'all', honestHolder(honest))
  await waitUntil(() => shown.evaluate((img) => img.complete && img.naturalHeight > 0), 'all of the picture is drawn', WAIT_MS)
  assert.equal(await shown.getAttribute('src'), stream, 'the stream goes on')

  // A browser draws a damaged picture as far as it can, so only the pixels show that it is whole.
  const other = await newVisitor(t, server)
  await other.goTo(`/p/${page.root}#filename=field.png`)
  await other.waitUntilComplete()
  const whole = other.tab.locator('img.shown')
  await waitUntil(() => whole.evaluate((img) => img.complete && img.naturalHeight > 0), 'the other picture is drawn', WAIT_MS)
  assert.equal(await shown.evaluate(pixelsOf), await whole.evaluate(pixelsOf), 'the picture has other pixels')
  visitor.assertNoPageErrors()
})

/** The hash of the pixels of a picture. Runs in the page. */
async function pixelsOf(img) {
  const canvas = new OffscreenCanvas(img.naturalWidth, img.naturalHeight)
  const context = canvas.getContext('2d')
  context.drawImage(img, 0, 0)
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height)
  return [...new Uint8Array(await crypto.subtle.digest('SHA-256', data))].join()
}

test('a folder lists at once, and a chosen file opens alone', async (t) => {
  const files = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`part ${String(i).padStart(2, '0')}.txt`, Buffer.from(`The words of part ${i}. `.repeat(2000))]),
  )
  const page = folderBlocksOf({ book: files, 'film.bin': Buffer.alloc(3 * MIB, 'film '), 'notes.txt': Buffer.from('Notes.') })
  const { holder, visitor } = await openSlowly(t, page, { allowed: 1, fragment: '#filename=library' })
  // The first block names the film, and states about its size.
  const film = visitor.tab.locator('.file-rows li', { has: visitor.tab.getByRole('link', { name: 'film.bin' }) })
  await film.getByText('3 MiB').waitFor()
  assert.equal(holder.sent, 1)
  holder.allow(2)
  await visitor.waitForText('42 files')
  assert.equal(holder.sent, 3)

  await visitor.goTo(`/p/${page.root}#filename=library&file=${encodeURIComponent('book/part 33.txt')}`)
  await sendUntil(holder, visitor, () => visitor.tab.locator('pre.words').getByText('The words of part 33.').first().isVisible())
  assert(holder.sent <= 3 + 1 + EARLIER, `the file needed ${holder.sent} blocks`)
  visitor.assertNoPageErrors()
})

test('the rate and the remaining time are shown, and hold', async (t) => {
  const page = blocksOf(noise(40 * MIB))
  const { holder, visitor } = await openSlowly(t, page, { allowed: 2, fragment: '#filename=large.bin' })
  const giving = setInterval(() => holder.allow(1), 250)
  t.after(() => clearInterval(giving))
  const { tab } = visitor
  await tab
    .locator('.coming .rate')
    .getByText(/MiB\/s, about \d+ (s|min) left/)
    .waitFor()
  const look = () =>
    tab.evaluate(() => {
      const progress = /** @type {HTMLProgressElement} */ (document.querySelector('.coming progress'))
      const [, speed, seconds] =
        /([\d.]+) MiB\/s, about (\d+) s left/.exec(document.querySelector('.coming .rate')?.textContent ?? '') ?? []
      if (speed === undefined) return null
      return { speed: Number(speed), seconds: Number(seconds), missing: progress.max - progress.value }
    })
  // Four blocks a second at most, once the first ones are out of the measured time.
  const isSteady = async () => {
    const shown = await look()
    return shown !== null && shown.speed <= 4.5 && shown.seconds < 30 ? shown : null
  }
  const { speed, seconds, missing } = await waitUntil(isSteady, 'the rate is that of the holder', WAIT_MS)
  const expected = missing / MIB / speed
  // It is rounded up to 5 s, and a second old.
  assert(Math.abs(seconds - expected) < 8, `${seconds} s are shown, and ${expected.toFixed(1)} s are left`)
})
