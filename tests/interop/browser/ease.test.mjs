// What makes it easy: languages, phones, sharing, a tab that keeps pages burning, and a first load that weighs little.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { startWatchfire } from '../lib/server.mjs'
import { until } from '../lib/waiting.mjs'
import { arrive, cidOf, PATIENCE_MS, serve } from './people.mjs'
import { file, generated, picture } from './things.mjs'

const NOBODY_HAS = '/p/bafkreig4iwbmcqslduqg6cyc3vgq3xtqc4dsl7yfvwthwvbszeieeey76m'
const PHONE = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true }
const FIRST_LOAD_BYTES_MAX = 25_000
const SOON_MS = 10_000

test('a phone keeps its screen on while it serves a page, as long as that is wished', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server, { ...PHONE, permissions: ['screen-wake-lock'] })
  // The browser's own locks, watched.
  await person.tab.addInitScript(() => {
    window.locks = []
    const { wakeLock } = navigator
    const request = wakeLock.request.bind(wakeLock)
    wakeLock.request = async (kind) => {
      const lock = await request(kind)
      window.locks.push(lock)
      return lock
    }
  })
  const held = () => person.tab.evaluate(() => window.locks.filter(({ released }) => !released).length)
  await person.light({ text: 'From a phone.' })
  await until(async () => (await held()) === 1, 'the screen is held on')
  await person.sees('Your phone stops sharing when its screen goes off')
  await person.tab.getByRole('switch', { name: 'Keep the screen on' }).uncheck()
  await until(async () => (await held()) === 0, 'the screen is let go')
  await person.tab.getByRole('switch', { name: 'Keep the screen on' }).check()
  await until(async () => (await held()) === 1, 'the screen is held on again')
  // Hidden, browsers let go; shown again, it is taken again.
  await person.tab.evaluate(() => Promise.all(window.locks.map((lock) => lock.release())))
  assert.equal(await held(), 0)
  await person.tab.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  await until(async () => (await held()) === 1, 'it is held on when the page is shown again')
  await person.tab.getByRole('link', { name: 'Watchfire' }).click()
  await person.tab.getByRole('button', { name: /^Let go of/ }).click()
  await until(async () => (await held()) === 0, 'nothing is served any more')
  person.hasNoComplaints()

  const desk = await arrive(t, server)
  await desk.light({ text: 'From a desk.' })
  assert.equal(await desk.tab.getByRole('switch', { name: 'Keep the screen on' }).count(), 0)
  assert.equal(await desk.tab.getByText('Your phone').count(), 0)
})

test('the link goes to the system’s sheet where there is one, and the person may think better of it', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server, PHONE)
  // Headless Chromium has no sheet. What the page hands to one is real, the sheet is not.
  await person.tab.addInitScript(() => {
    window.handed = []
    navigator.share = async (what) => {
      window.handed.push(what)
      if (window.handed.length > 1) throw new DOMException('closed', 'AbortError')
    }
  })
  const link = await person.light({ text: '# Tea at five' })
  const button = person.tab.getByRole('button', { name: 'Share…' })
  await button.click()
  await button.click()
  const handed = await person.tab.evaluate(() => window.handed)
  assert.deepEqual(handed, Array(2).fill({ title: 'tea-at-five.md', url: link }))
  person.hasNoComplaints()

  const without = await arrive(t, server)
  await without.light({ text: 'No sheet here.' })
  assert.equal(await without.tab.evaluate(() => typeof navigator.share), 'undefined')
  assert.equal(await without.tab.getByRole('button', { name: 'Share…' }).count(), 0)
})

test('a tab keeps several pages burning, tells of each, and lets go of each', async (t) => {
  const server = await serve(t)
  const [a, b, keeper] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const links = [await a.light({ text: '# One' }), await b.light({ files: [file('two.bin', generated(3_000_000))] })]
  const { tab } = keeper
  await keeper.goTo('/#burning')
  await keeper.sees('No page burns in this tab')
  const field = tab.getByRole('textbox', { name: 'Link of a page' })
  const hold = async (link) => {
    await field.fill(link)
    await field.press('Enter')
  }
  await hold('https://example.org/p/bafkrei')
  await keeper.sees('That is no link to a page of this server.')
  await hold(links[0])
  // The CID alone will do.
  await hold(cidOf(links[1]))
  const rows = tab.locator('.hearth li')
  await rows.nth(1).filter({ hasText: '2.9 MiB' }).waitFor()
  assert.equal(await rows.count(), 2)
  await until(() => tab.title().then((title) => title.startsWith('(2)')), 'the tab tells how many')

  // Now it is the last who has them.
  await Promise.all([a.leave(), b.leave()])
  await rows.filter({ hasText: 'only here' }).nth(1).waitFor()
  const later = await arrive(t, server)
  await later.goTo(links[1])
  await later.holdsIt(PATIENCE_MS)
  // On a busy machine a block may be asked for again, and is then given twice.
  await rows.nth(1).filter({ hasText: /gave (2\.9|[3-5]\.\d) MiB/ }).waitFor()
  await later.leave()
  await rows.filter({ hasText: 'only here' }).nth(1).waitFor()

  // It goes on, wherever in the application its keeper looks.
  await tab.getByRole('link', { name: 'Watchfire' }).click()
  await tab.getByRole('link', { name: 'Chat with who is here' }).click()
  await keeper.sees('Connected')
  await tab.getByRole('link', { name: '2 pages burn here' }).click()
  assert.equal(await rows.count(), 2)

  // Who closes the tab is asked first; who let go of all is not.
  const asked = new Promise((resolve) => tab.once('dialog', (dialog) => dialog.dismiss().then(() => resolve(dialog.type()))))
  await tab.close({ runBeforeUnload: true })
  assert.equal(await asked, 'beforeunload')
  for (const left of [1, 0]) {
    await tab.getByRole('button', { name: /^Let go of/ }).first().click()
    await until(async () => (await rows.count()) === left, 'it is let go')
  }
  await keeper.sees('No page burns in this tab')
  const waiting = await arrive(t, server)
  await waiting.goTo(links[0])
  await waiting.sees('Nobody has this page right now')
  keeper.hasNoComplaints()
})

test('a page is kept or not when its reader looks away, as the switch says', async (t) => {
  const server = await serve(t)
  const [maker, reader] = [await arrive(t, server), await arrive(t, server)]
  const link = await maker.light({ text: 'To keep or not.' })
  await reader.goTo(link)
  await reader.isTold('Held by 2 tabs')
  const keeps = reader.tab.getByRole('switch', { name: 'Keep this burning' })
  assert.equal(await keeps.isChecked(), true)
  await keeps.uncheck()
  await reader.tab.getByRole('link', { name: 'Watchfire' }).click()
  await maker.isTold('You are the only one holding this page')
  assert.equal(await reader.tab.getByText('Burning in this tab').count(), 0)

  // What nobody has yet is waited for, when that is wished.
  await reader.goTo(NOBODY_HAS)
  await reader.sees('Nobody has this page right now')
  assert.equal(await keeps.isChecked(), false)
  await keeps.check()
  await reader.tab.getByRole('link', { name: 'Watchfire' }).click()
  await reader.sees('waiting for it')
})

test('a lost connection tells when the server is called again', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  await person.goTo('/')
  await person.sees('Only you are here now')
  const { port } = server
  server.terminate()
  await server.exited()
  await person.sees('The connection to the server is lost')
  await person.sees(/Trying again in \d+ s\./)
  const alert = person.tab.getByRole('alert').filter({ hasText: 'is lost' })
  assert.equal(await alert.locator('[aria-hidden=true]').count(), 1, 'the seconds are not read aloud')
  const again = await startWatchfire({ port })
  t.after(() => again.stop())
  await person.seesNoMore('The connection to the server is lost')
})

test('the front door is painted after no more than it may weigh, and can be installed', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  await person.goTo('/')
  await person.sees('Up to')
  const { painted, fetched } = await person.tab.evaluate(() => {
    const [page] = performance.getEntriesByType('navigation')
    const [paint] = performance.getEntriesByName('first-contentful-paint')
    const before = performance.getEntriesByType('resource').filter(({ startTime }) => startTime < paint.startTime)
    return { painted: paint.startTime, fetched: [page, ...before].map(({ name, encodedBodySize }) => [name, encodedBodySize]) }
  })
  const bytes = fetched.reduce((sum, [, size]) => sum + size, 0)
  t.diagnostic(`${bytes} bytes before the first paint at ${painted.toFixed()} ms: ${fetched.map(([name]) => new URL(name).pathname).join(' ')}`)
  assert(bytes > 5_000 && bytes <= FIRST_LOAD_BYTES_MAX, `${bytes} bytes`)
  assert(!fetched.some(([name]) => /channel|swarm|PageView/.test(name)), 'what comes later comes later')

  const session = await person.tab.context().newCDPSession(person.tab)
  const { errors, data } = await session.send('Page.getAppManifest')
  assert.deepEqual(errors, [])
  const manifest = JSON.parse(data)
  for (const { src, sizes, type } of manifest.icons) {
    const response = await fetch(server.http(src))
    assert.equal(response.headers.get('content-type'), type, src)
    if (type !== 'image/png') continue
    const bytes = Buffer.from(await response.arrayBuffer())
    assert.equal(`${bytes.readUInt32BE(16)}x${bytes.readUInt32BE(20)}`, sizes, src)
  }
  for (const { url } of manifest.shortcuts) assert.equal((await fetch(server.http(url))).status, 200, url)
  const { installabilityErrors } = await session.send('Page.getInstallabilityErrors')
  assert.deepEqual(installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== 'in-incognito'), [])
  person.hasNoComplaints()
})

test('the way past the header leaves the link as it is', async (t) => {
  const server = await serve(t)
  const [maker, person] = [await arrive(t, server), await arrive(t, server)]
  const link = await maker.light({ text: 'Skip to it.' })
  // The way past the header keeps the fragment, which may hold a name or a key.
  await person.goTo(link)
  await person.holdsIt()
  await person.tab.keyboard.press('Tab')
  await person.tab.keyboard.press('Enter')
  await until(() => person.tab.evaluate(() => document.activeElement.id === 'main'), 'the page has the focus', SOON_MS)
  assert.equal(person.tab.url(), link)
})
