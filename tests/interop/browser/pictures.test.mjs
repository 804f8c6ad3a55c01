// A folder of pictures: the gallery, and one picture above all else.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { folderBlocksOf } from './bitswap-messages.mjs'
import { file, picture } from './fixtures.mjs'
import { newVisitor, startServer, WAIT_MS } from './page-driver.mjs'
import { honestHolder, joinPage, LimitedHolder } from './raw-peer.mjs'

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }
const nameOf = (i) => `${String(i).padStart(2, '0')}.png`
/** Pictures of different bytes, each one block. */
const album = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [nameOf(i), picture(20, 15, { noise: i + 1 })]))

/** Shares pictures from another browser, and opens their page in a new one. */
async function openAlbum(t, { count, options = {}, file: opened = null }) {
  const server = await startServer(t)
  const [holder, visitor] = [await newVisitor(t, server), await newVisitor(t, server, options)]
  const files = Object.entries(album(count)).map(([name, content]) => file(name, content, 'image/png'))
  const link = await holder.sharePage({ files })
  await visitor.goTo(opened === null ? link : `${link}#file=${opened}`)
  return { visitor, link, box: visitor.tab.getByRole('dialog') }
}

/** Waits until this picture, and no other, is shown above all else. */
async function waitForBoxed(visitor, name) {
  const shown = visitor.tab.locator('.light-box img')
  await waitUntil(async () => (await shown.getAttribute('alt').catch(() => null)) === name, `${name} is shown`, WAIT_MS)
  await visitor.waitForPicture(name)
}

const focusedLink = (tab) => tab.evaluate(() => document.activeElement?.getAttribute('href') ?? null)

test('twelve pictures are a gallery, and each opens above it with arrows, keys and Escape', async (t) => {
  const { visitor, link, box } = await openAlbum(t, { count: 12 })
  const { tab } = visitor
  await tab.getByRole('heading', { name: '12 pictures', level: 1 }).waitFor()
  await tab.locator('.gallery img').nth(11).waitFor()
  assert.equal(await tab.locator('.file-rows').count(), 0)

  await tab.getByRole('link', { name: nameOf(10) }).click()
  await waitForBoxed(visitor, nameOf(10))
  await box.getByText('11 of 12').waitFor()
  await box.getByRole('button', { name: 'Next picture' }).click()
  await waitForBoxed(visitor, nameOf(11))
  assert.equal(await tab.locator('h1').count(), 1)
  // After the last comes the first.
  await tab.keyboard.press('ArrowRight')
  await waitForBoxed(visitor, nameOf(0))
  await tab.keyboard.press('ArrowLeft')
  await box.getByRole('button', { name: 'Previous picture' }).click()
  await waitForBoxed(visitor, nameOf(10))
  assert.equal(tab.url(), `${link}#file=${nameOf(10)}`)

  for (let n = 0; n < 6; n++) {
    await tab.keyboard.press('Tab')
    const isOutside = await tab.evaluate(() => document.activeElement !== document.body && !document.activeElement?.closest('.light-box'))
    assert.equal(isOutside, false, `the focus leaves the picture after ${n + 1} presses of Tab`)
  }
  await tab.keyboard.press('ArrowRight')
  await waitForBoxed(visitor, nameOf(11))
  await tab.keyboard.press('Escape')
  await box.waitFor({ state: 'detached' })
  await waitUntil(async () => (await focusedLink(tab)) === `#file=${nameOf(11)}`, 'its picture in the gallery has the focus', WAIT_MS)
  assert.equal(tab.url(), link)

  // However many pictures were shown, Back returns to the gallery.
  await tab.keyboard.press('Enter')
  await waitForBoxed(visitor, nameOf(11))
  await tab.keyboard.press('ArrowLeft')
  await waitForBoxed(visitor, nameOf(10))
  await tab.goBack()
  await box.waitFor({ state: 'detached' })
  await waitUntil(async () => (await focusedLink(tab)) === `#file=${nameOf(10)}`, 'its picture in the gallery has the focus', WAIT_MS)
  visitor.assertNoPageErrors()
})

test('a link to one of the pictures opens it above the gallery, to which it closes', async (t) => {
  const { visitor, link, box } = await openAlbum(t, { count: 4, file: nameOf(2) })
  await waitForBoxed(visitor, nameOf(2))
  await box.getByRole('button', { name: 'Close' }).click()
  await box.waitFor({ state: 'detached' })
  await visitor.tab.getByRole('heading', { name: '4 pictures', level: 1 }).waitFor()
  assert.equal(visitor.tab.url(), link)
  visitor.assertNoPageErrors()
})

test('on a phone, a swipe turns to the next picture, which fits into the window', async (t) => {
  const { visitor } = await openAlbum(t, { count: 3, options: PHONE, file: nameOf(0) })
  const { tab } = visitor
  await waitForBoxed(visitor, nameOf(0))
  const session = await tab.context().newCDPSession(tab)
  const swipe = async (from, to) => {
    const at = (x) => [{ x, y: 400 }]
    await session.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: at(from) })
    await session.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: at((from + to) / 2) })
    await session.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: at(to) })
    await session.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
  }
  await swipe(300, 100)
  await waitForBoxed(visitor, nameOf(1))
  await swipe(100, 300)
  await waitForBoxed(visitor, nameOf(0))
  visitor.assertNoPageErrors()
})

test('a picture that is larger than the window is fitted into it', async (t) => {
  const server = await startServer(t)
  const [holder, visitor] = [await newVisitor(t, server), await newVisitor(t, server, PHONE)]
  const files = [file('high.png', picture(300, 2000), 'image/png'), file('wide.png', picture(2000, 300), 'image/png')]
  const link = await holder.sharePage({ files })
  for (const name of ['high.png', 'wide.png']) {
    await visitor.goTo(`${link}#file=${name}`)
    await waitForBoxed(visitor, name)
    const { x, y, width, height } = await visitor.tab.locator('.light-box img').boundingBox()
    assert(x >= 0 && y >= 0 && x + width <= PHONE.viewport.width && y + height <= PHONE.viewport.height, `${name} is ${width} × ${height}`)
  }
  visitor.assertNoPageErrors()
})

test('the gallery loads what is on the screen', async (t) => {
  const { root, blocks } = folderBlocksOf(album(60))
  const server = await startServer(t)
  await joinPage(t, server, root, 'all', honestHolder(blocks))
  const visitor = await newVisitor(t, server, PHONE)
  await visitor.goTo(`/p/${root}`)
  const { tab } = visitor
  await visitor.waitForText('60 pictures')
  await visitor.waitUntilComplete()
  await tab.locator('.gallery li').first().locator('img').waitFor()
  await tab.locator('.gallery li').last().scrollIntoViewIfNeeded()
  await tab.locator('.gallery li').last().locator('img').waitFor()
  assert.equal(await tab.locator('.gallery li').nth(30).locator('img').count(), 0, 'a picture that was never on the screen is loaded')
  visitor.assertNoPageErrors()
})

test('the picture after the one that is shown is requested ahead of all others', async (t) => {
  const { root, blocks } = folderBlocksOf(album(40))
  // The last block is that of the last picture by name.
  const keys = [...blocks.keys()].slice(-40)
  const server = await startServer(t)
  const holder = new LimitedHolder(blocks, 1)
  await joinPage(t, server, root, 'all', holder.answer)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(`/p/${root}#file=${nameOf(20)}`)
  await waitUntil(() => holder.mostUrgent === keys[20], 'the picture is the next that is sent', WAIT_MS)
  holder.allow(1)
  await waitForBoxed(visitor, nameOf(20))
  await waitUntil(() => holder.mostUrgent === keys[21], 'the next picture is the next that is sent', WAIT_MS)
  assert.equal(holder.sent, 2)
  visitor.assertNoPageErrors()
})
