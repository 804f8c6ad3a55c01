// PDFs, drawn by pdf.js from the parts that are looked at.

import assert from 'node:assert/strict'
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { waitUntil } from '../../lib/deadlines.mjs'
import { blocksOf, blocksOfLeaves } from '../bitswap-messages.mjs'
import { noise, pdf } from '../fixtures.mjs'
import { newVisitor, startServer, WAIT_MS, WINDOWS } from '../page-driver.mjs'
import { honestHolder, joinPage, LimitedHolder } from '../raw-peer.mjs'
import { sendUntil } from './sending.mjs'

const OUT = fileURLToPath(new URL('../../out', import.meta.url))
const MIB = 1 << 20
/** Blocks of a huge PDF that are enough to show some of its pages: its ends, and what the tab requested before it knew them. */
const PARTS_MAX = 40

test('a PDF shows its first page from its first and last blocks, and another page when it is looked at', async (t) => {
  const { start, end } = pdf(30, 8 * MIB)
  const padding = noise(8 * MIB)
  const { root, blocks } = blocksOf(Buffer.concat([start, padding, end]))
  const server = await startServer(t)
  // The node, and then one block after another.
  const holder = new LimitedHolder(blocks, 1)
  await joinPage(t, server, root, 'all', holder.answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=words.pdf`)
  const first = visitor.tab.getByText('The words of page 1', { exact: true })
  const giving = setInterval(() => holder.allow(1), 1000)
  t.after(() => clearInterval(giving))
  await first.waitFor()
  clearInterval(giving)
  holder.allow(0)
  t.diagnostic(`the first page is shown with ${holder.sent} of ${blocks.size} blocks sent`)
  assert(holder.sent < blocks.size)
  await assertIsDrawn(visitor.tab.getByRole('article', { name: 'Page 1 of 30' }))

  await visitor.tab.getByRole('article', { name: 'Page 30 of 30' }).scrollIntoViewIfNeeded()
  await visitor.tab.getByText('The words of page 30', { exact: true }).waitFor()
  assert.equal((await visitor.tab.locator('canvas').count()) < 10, true, 'only the pages near the window have pixels')
  visitor.assertNoPageErrors()
})

test('a PDF of 2 GB is read only in the parts that are shown', async (t) => {
  const count = 2002
  // The lengths of both ends do not depend on the padding, as long as it has ten digits.
  const ends = pdf(3, count * MIB)
  const padding = count * MIB - ends.start.length - ends.end.length
  const { start, end } = pdf(3, padding)
  assert.equal(start.length + padding + end.length, count * MIB)
  const leafAt = (i) => {
    const leaf = Buffer.alloc(MIB)
    if (i === 0) start.copy(leaf)
    else leaf.writeUInt32BE(i)
    if (i === count - 1) end.copy(leaf, MIB - end.length)
    return leaf
  }
  const { root, blocks } = blocksOfLeaves(count, leafAt)
  const server = await startServer(t)
  const holder = new LimitedHolder(blocks, 2)
  await joinPage(t, server, root, 'all', holder.answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=huge.pdf`)
  const words = (page) => visitor.tab.getByText(`The words of page ${page}`, { exact: true })
  await sendUntil(holder, visitor, () => words(1).isVisible())
  await assertIsDrawn(visitor.tab.getByRole('article', { name: 'Page 1 of 3' }))
  await visitor.tab.getByRole('article', { name: 'Page 3 of 3' }).scrollIntoViewIfNeeded()
  await words(3).waitFor()
  t.diagnostic(`two pages are shown with ${holder.sent} of ${blocks.size} blocks sent`)
  assert(holder.sent <= PARTS_MAX, `${holder.sent} blocks were sent`)
  visitor.assertNoPageErrors()
})

test('the pictures of a PDF are drawn, in JPEG 2000 and in JBIG2', async (t) => {
  const { root, blocks } = blocksOf(await readFile(new URL('pictures.pdf', import.meta.url)))
  const server = await startServer(t)
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=pictures.pdf`)
  const canvas = visitor.tab.getByRole('article', { name: 'Page 1 of 1' }).locator('canvas')
  // A red disc on blue, and a black square with a white hole.
  const places = [
    [0.25, 0.5, 'red'],
    [0.03, 0.06, 'blue'],
    [0.62, 0.3, 'black'],
    [0.75, 0.5, 'white'],
  ]
  const colours = () => canvas.evaluate(coloursAt, places)
  await waitUntil(async () => `${await colours()}` === `${places.map(([, , name]) => name)}`, 'both pictures are drawn', WAIT_MS)
  visitor.assertNoPageErrors()
})

/** The names of the colours at places of a canvas, given as fractions of its width and height. */
function coloursAt(canvas, places) {
  return places.map(([x, y]) => {
    const [red, green, blue] = canvas.getContext('2d').getImageData(x * canvas.width, y * canvas.height, 1, 1).data
    const isOver = [red, green, blue].map((value) => (value > 128 ? 1 : 0)).join('')
    return { '000': 'black', 100: 'red', '001': 'blue', 111: 'white' }[isOver] ?? isOver
  })
}

test('a PDF of a kilobyte with a million pages leaves the tab usable', async (t) => {
  // Each of six nodes has the next one ten times.
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    ...Array.from({ length: 6 }, (_, i) => `<< /Type /Pages /Count ${10 ** (6 - i)} /Kids [${`${i + 3} 0 R `.repeat(10)}] >>`),
    '<< /Type /Page /Parent 7 0 R /MediaBox [0 0 595 842] >>',
  ]
  let content = '%PDF-1.7\n'
  const places = objects.map((object, i) => {
    const at = String(content.length).padStart(10, '0')
    content += `${i + 1} 0 obj\n${object}\nendobj\n`
    return `${at} 00000 n \n`
  })
  const table = `xref\n0 9\n0000000000 65535 f \n${places.join('')}trailer\n<< /Size 9 /Root 1 0 R >>\nstartxref\n${content.length}\n%%EOF\n`
  const { root, blocks } = blocksOf(Buffer.from(content + table))
  const server = await startServer(t)
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=many.pdf`)
  await visitor.waitForText('1,000,000 pages')
  await visitor.tab.getByRole('article', { name: 'Page 1 of 1,000,000' }).locator('canvas').waitFor()
  assert((await visitor.tab.getByRole('article').count()) < 20)
  await visitor.tab.keyboard.press('End')
  await visitor.waitForText('Only the first 10,000 pages are shown.')
  visitor.assertNoPageErrors()
})

test('the links of a PDF lead to its pages, and outside without a trace', async (t) => {
  const { start, end } = pdf(3)
  // The first page gets two links. The table of objects is then wrong, and pdf.js builds its own.
  const links =
    '/Annots [<< /Subtype /Link /Rect [72 700 200 730] /A << /S /URI /URI (https://example.org/a) >> >>' +
    ' << /Subtype /Link /Rect [72 600 200 630] /Dest [8 0 R /Fit] >> << /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI (javascript:1) >> >>]'
  const content = Buffer.concat([start, end]).toString().replace('/Type /Page ', `/Type /Page ${links} `)
  const { root, blocks } = blocksOf(Buffer.from(content))
  const server = await startServer(t)
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=links.pdf`)
  const link = visitor.tab.getByRole('link', { name: 'https://example.org/a' })
  await link.waitFor()
  assert.deepEqual(await link.evaluate(({ rel, target }) => [rel, target]), ['noopener noreferrer nofollow', '_blank'])
  assert.equal(await visitor.tab.locator('.pdf-links > *').count(), 2)
  await visitor.tab.getByRole('button', { name: 'Go to another place' }).click()
  const third = visitor.tab.getByRole('article', { name: 'Page 3 of 3' })
  await waitUntil(() => third.evaluate((page) => page.getBoundingClientRect().top < innerHeight), 'the third page is in view')
  visitor.assertNoPageErrors()
})

test('a broken PDF says so, and can still be saved', async (t) => {
  const { root, blocks } = blocksOf(Buffer.from(`%PDF-1.7\n${'no object '.repeat(500)}`))
  const server = await startServer(t)
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#filename=broken.pdf`)
  await visitor.waitForText('This PDF cannot be shown here:')
  await visitor.tab.getByRole('button', { name: 'Save broken.pdf' }).waitFor()
})

test('a PDF is looked at in a wide and a narrow window, in both themes', async (t) => {
  await mkdir(OUT, { recursive: true })
  const { start, end } = pdf(3)
  const { root, blocks } = blocksOf(Buffer.concat([start, end]))
  const server = await startServer(t)
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  for (const { shape, viewport, colorScheme } of WINDOWS) {
    const visitor = await newVisitor(t, server, { viewport, colorScheme })
    await visitor.goTo(`/p/${root}#filename=words.pdf`)
    await visitor.tab.getByText('The words of page 1', { exact: true }).waitFor()
    await visitor.tab.screenshot({ path: path.join(OUT, `pdf-${shape}-${colorScheme}.png`), animations: 'disabled' })
    visitor.assertNoPageErrors()
    await visitor.leave()
  }
})

/** Waits until a page has letters on its canvas. */
async function assertIsDrawn(page) {
  const isDark = () =>
    page.locator('canvas').evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0 && data[i] < 100) return true
      return false
    })
  await waitUntil(isDark, 'letters are drawn', WAIT_MS)
}
