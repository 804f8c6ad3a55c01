// Private pages: what people see of them with the key, with another, and without; and what others see, who keep them.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'

import { Verb } from '../lib/terminal.mjs'
import { until } from '../lib/waiting.mjs'
import { makeFilm } from './film.mjs'
import { addressOf, arrive, cidOf, PATIENCE_MS, serve } from './people.mjs'
import { file, generated, picture } from './things.mjs'

const MIB = 1 << 20
const TRANSFER_MS = 90_000
const SECRET = 'the words that nobody else may read'
const SITE = 'iframe[title="The site"]'
const siteOf = (tab) => tab.frameLocator(SITE).frameLocator('iframe').frameLocator('iframe')

const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
after(() => rm(folder, { recursive: true }))

/** Lights it with the switch *Private*; answers the link, which has the key. */
async function lightsPrivately(person, draft) {
  await person.goTo('/')
  await person.compose(draft)
  await person.tab.getByRole('switch', { name: 'Private' }).check()
  await person.tab.getByRole('button', { name: 'Light it' }).click()
  const link = await person.linkLit()
  assert.match(link, /#key=[\w-]{43}(&|$)/)
  return link
}

const withFragment = (link, fragment) => `${link.split('#')[0]}${fragment}`
const keyOf = (link) => new URLSearchParams(new URL(link).hash.slice(1)).get('key')

test('who has the link reads a private page, and who keeps it without the key passes it on unread', async (t) => {
  const server = await serve(t)
  const [maker, keeper, reader] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const link = await lightsPrivately(maker, { text: `# Secret\n\n${SECRET}` })
  await maker.sees(SECRET)

  await keeper.goTo(withFragment(link, ''))
  await keeper.sees('This page is private, and this link has no key')
  await keeper.isTold('Held by 2 tabs')
  assert.equal(await keeper.tab.getByText(SECRET).count(), 0)
  assert(!(await keeper.tab.content()).includes('secret.md'), 'not even its name')
  await maker.leave()

  // Now only the one who cannot read it has it.
  await reader.goTo(link)
  await reader.sees(SECRET)
  assert.equal(reader.tab.url(), link)
  await reader.sees('only who has the whole link can read this')
  // The key may come later, as a link, and opens what is here.
  await keeper.tab.getByRole('textbox', { name: 'The whole link, or its key' }).fill(link)
  await keeper.tab.getByRole('button', { name: 'Open it' }).click()
  await keeper.sees(SECRET)
  for (const person of [maker, keeper, reader]) person.hasNoComplaints()
})

test('a fragment that is no key, or the wrong one, says so and does no harm', async (t) => {
  const server = await serve(t)
  const [maker, visitor] = [await arrive(t, server), await arrive(t, server)]
  const link = await lightsPrivately(maker, { text: SECRET })
  const other = await lightsPrivately(await maker.withAnotherTab(), { text: 'Another page' })
  const key = keyOf(link)
  const wrong = 'The key in this link does not open this page.'
  const closed = [
    `#key=${keyOf(other)}`, `#key=${key.slice(0, 42)}`, `#key=${key}A`, `#key=${key.slice(0, 42)}%00`, '#key=%F0%9F%94%A5', '#key=%%%',
    `#key=${'A'.repeat(100_000)}`, '#key=<script>globalThis.pwned=1</script>', `#key=x&key=${key}`,
  ]
  for (const fragment of closed) {
    await visitor.goTo('/')
    await visitor.goTo(withFragment(link, fragment))
    await visitor.sees(wrong)
    assert.equal(await visitor.tab.getByText(SECRET).count(), 0, fragment.slice(0, 60))
  }
  const keyless = ['#', '#key=', `#KEY=${key}`, `?key=${key}#filename=${'x'.repeat(9000)}`]
  for (const fragment of keyless) {
    await visitor.goTo('/')
    await visitor.goTo(withFragment(link, fragment))
    await visitor.sees('This page is private, and this link has no key')
  }
  const open = [
    `#key=${key}&key=x`, `#filename=..%2F..%2Fetc%2Fpasswd&key=${key}`, `#key=${key}&filename=%3Cimg%20src%3Dx%20onerror%3DglobalThis.pwned%3D1%3E`,
    `#key=${key}&file=..%2F..%2Fx&file=y`,
  ]
  for (const fragment of open) {
    await visitor.goTo('/')
    await visitor.goTo(withFragment(link, fragment))
    await visitor.sees(SECRET)
  }
  assert.equal(await visitor.tab.evaluate(() => 'pwned' in globalThis), false)

  // A public page behind a link with a key could be anybody's: it is not shown as if it were private.
  const open_ = await (await arrive(t, server)).light({ text: 'Everybody may read this.' })
  await visitor.goTo(withFragment(open_, `#key=${key}`))
  await visitor.sees('This page is not private, although its link has a key')
  assert.equal(await visitor.tab.getByText('Everybody may read this.').count(), 0)
  for (const person of [maker, visitor]) person.hasNoComplaints()
})

test('a private film plays while it comes, and jumps to what is not here', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const [maker, visitor] = [await arrive(t, server), await arrive(t, server)]
  const film = await makeFilm(maker, { seconds: 60, bytesPerSecond: 600_000 })
  const shared = path.join(folder, 'film.webm')
  await writeFile(shared, film)
  const link = await lightsPrivately(maker, { files: [shared] })
  await visitor.goTo(link)
  const video = visitor.tab.locator('video[src^="/stream/"]')
  await video.evaluate(plays)
  await video.evaluate(jumps, 50)
  await visitor.sees('It plays while the rest comes.')
  const here = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
  t.diagnostic(`it played at 0 and at 50 s with ${(100 * here).toFixed()} % here`)
  assert(here < 1, 'all of it was here')

  const { duration, seekable } = await video.evaluate(({ duration, seekable }) => ({ duration, seekable: seekable.end(0) }))
  assert(Math.abs(duration - 60) < 1 && seekable > 59, `${duration} ${seekable}`)
  await visitor.holdsIt(TRANSFER_MS)
  assert.deepEqual(await readFile(await visitor.saves('film.webm')), film)
  for (const person of [maker, visitor]) person.hasNoComplaints()
})

test('of a private folder one file comes without the rest, and the others say what they are', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const [maker, visitor] = [await arrive(t, server), await arrive(t, server)]
  const large = path.join(folder, 'large.bin')
  await writeFile(large, generated(40 * MIB))
  const film = await makeFilm(maker, { seconds: 6, bytesPerSecond: 300_000 })
  const link = await lightsPrivately(maker, { files: [large, await onDisk('z-film.webm', film)] })
  // The film lies behind 40 MiB that come at 1 MiB a second.
  await visitor.goTo(`${link.replace(/&.*$/, '')}&file=z-film.webm`)
  const began = performance.now()
  await visitor.tab.locator('video').evaluate(plays)
  t.diagnostic(`it plays after ${Math.round(performance.now() - began)} ms`)
  const here = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
  assert(here < 0.9, `${here} of the page was here`)
  for (const person of [maker, visitor]) person.hasNoComplaints()
})

test('the file that a link names is shown when it is here, and the rest of the page comes behind it', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const [maker, visitor] = [await arrive(t, server), await arrive(t, server)]
  const files = [await onDisk('a-large.bin', generated(24 * MIB)), await onDisk('z-words.txt', `Only these. ${'word '.repeat(400_000)}`)]
  const places = [await lightsPrivately(maker, { files }), await (await maker.withAnotherTab()).light({ files })]
  for (const link of places) {
    // The words lie behind 24 MiB that come at 1 MiB a second.
    const address = new URL(link)
    const key = keyOf(link)
    address.hash = key === null ? 'file=z-words.txt' : `key=${key}&file=z-words.txt`
    await visitor.goTo(address.href)
    await visitor.sees('Only these.')
    const here = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
    t.diagnostic(`${key === null ? 'public' : 'private'}: it is shown with ${(100 * here).toFixed()} % here`)
    assert(here < 0.6, `${here} of the page was here`)
    // Who watches keeps all of it burning.
    await visitor.isTold('Held by 2 tabs', TRANSFER_MS)
    await visitor.goTo('/')
  }
  for (const person of [maker, visitor]) person.hasNoComplaints()
})

test('a key of another page is told of when the first block is here, and the rest comes to be kept all the same', async (t) => {
  const server = await serve(t, { settings: { 'limits.relay_bytes_per_second_peer': MIB } })
  const [maker, visitor, reader] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const other = await lightsPrivately(maker, { text: 'Another page' })
  const large = path.join(folder, 'sealed.bin')
  const content = generated(24 * MIB)
  await writeFile(large, content)
  const link = await lightsPrivately(maker, { files: [large] })
  await visitor.goTo(withFragment(link, `#key=${keyOf(other)}`))
  const began = performance.now()
  await visitor.sees('The key in this link does not open this page.')
  const ms = Math.round(performance.now() - began)
  const here = await visitor.tab.locator('progress').evaluate(({ value, max }) => value / max)
  t.diagnostic(`it is told after ${ms} ms, with ${(100 * here).toFixed()} % here`)
  // A few blocks may have been on their way before the one that tells.
  assert(here < 0.5, `${here} of the page was here`)
  await visitor.isTold('Held by 2 tabs', TRANSFER_MS)
  await visitor.sees('The key in this link does not open this page.')
  await maker.vanish()

  // Whoever cannot read it keeps it for those who can.
  await reader.goTo(link)
  await reader.holdsIt(TRANSFER_MS)
  assert.deepEqual(await readFile(await reader.saves('sealed.bin')), content)
  for (const person of [visitor, reader]) person.hasNoComplaints()
})

test('a private folder shows as a site on an origin of its own, and its key stays out of it', async (t) => {
  const server = await serve(t)
  const { link, key } = await sharePrivately(t, server, {
    'index.html': `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/style.css"><h1>Home</h1>
      <img src="pictures/cat.png" alt="cat"><a href="docs/">Docs</a><p id="said">nothing</p>
      <script type="module">
        const part = await fetch('data.bin', { headers: { range: 'bytes=1048570-1048585' } })
        const bytes = [...new Uint8Array(await part.arrayBuffer())].join()
        const told = [location.href, document.referrer, document.baseURI, ...performance.getEntries().map(({ name }) => name)].join(' ')
        said.textContent = JSON.stringify({ status: part.status, range: part.headers.get('content-range'), bytes, told })
      </script>`,
    'style.css': 'h1 { color: rgb(1, 2, 3) }',
    'docs/index.html': '<!doctype html><h1>Docs</h1><a href="..">Home</a>',
    'pictures/cat.png': picture(32, 20),
    'data.bin': generated(3 * MIB),
  })
  const visitor = await arrive(t, server)
  await visitor.goTo(link)
  const site = siteOf(visitor.tab)
  const title = site.getByRole('heading', { name: 'Home' })
  await title.waitFor()
  await until(() => title.evaluate((it) => getComputedStyle(it).color === 'rgb(1, 2, 3)'), 'its styles', PATIENCE_MS)
  await until(() => site.getByAltText('cat').evaluate((img) => img.naturalWidth === 32), 'its picture', PATIENCE_MS)
  await site.getByRole('link', { name: 'Docs' }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await until(() => new URL(visitor.tab.url()).hash.includes('file=docs'), 'the address says where it is', PATIENCE_MS)
  assert.equal(keyOf(visitor.tab.url()), key, 'and keeps the key')
  await site.getByRole('link', { name: 'Home' }).click()
  await title.waitFor()
  await visitor.tab.getByRole('button', { name: 'Run its scripts' }).click()
  const said = site.locator('#said')
  await said.getByText('bytes 1048570').waitFor()
  const told = JSON.parse(await said.textContent())
  assert.equal(told.status, 206)
  assert.equal(told.range, `bytes 1048570-1048585/${3 * MIB}`)
  assert.equal(told.bytes, [...generated(3 * MIB).subarray(1048570, 1048586)].join())
  for (const frame of visitor.tab.frames().slice(1)) assert(!frame.url().includes(key), 'no frame is told the key')
  assert(!told.told.includes(key), told.told)
  // Reloaded at a page of it, it opens there again, by the key in the address.
  await site.getByRole('link', { name: 'Docs' }).click()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  await until(() => new URL(visitor.tab.url()).hash.includes('file=docs'), 'the address says where it is', PATIENCE_MS)
  await visitor.tab.reload()
  await site.getByRole('heading', { name: 'Docs' }).waitFor()
  visitor.hasNoComplaints()
})

test('neither the server nor its log is told the key', async (t) => {
  const server = await serve(t)
  const maker = await arrive(t, server)
  const asked = []
  maker.tab.context().on('request', (request) => asked.push(request.url(), JSON.stringify(request.headers()), request.postData() ?? ''))
  maker.tab.on('websocket', (socket) => {
    asked.push(socket.url())
    socket.on('framesent', ({ payload }) => asked.push(typeof payload === 'string' ? payload : payload.toString('latin1')))
  })
  const link = await lightsPrivately(maker, { text: SECRET, files: [file('quiet-name.bin', generated(MIB))] })
  const reader = await arrive(t, server)
  await reader.goTo(link)
  await reader.sees('quiet-name.bin')
  for (const secret of [keyOf(link), SECRET, 'quiet-name']) {
    assert(!asked.some((text) => text.includes(secret)), `${secret} was sent`)
    assert(!`${server.lines.join()} ${server.stderr}`.includes(secret), `${secret} is in the log`)
  }
  assert(asked.length > 5 && cidOf(link).length > 50)
})

/** The files as a private page of a terminal. */
async function sharePrivately(t, server, files) {
  const at = await mkdtemp(path.join(folder, 'site-'))
  for (const [name, content] of Object.entries(files)) {
    const to = path.join(at, 'site', name)
    await mkdir(path.dirname(to), { recursive: true })
    await writeFile(to, content)
  }
  const share = new Verb(t, at, 'share', ['site', '--private', '--to', addressOf(server), '--listen', '/ip4/127.0.0.1/tcp/0'])
  const { page } = await share.event('shared')
  return { link: page, key: keyOf(page) }
}

async function onDisk(name, content) {
  const to = path.join(folder, name)
  await writeFile(to, content)
  return to
}

/** Plays, and answers when it does: when time passes in it. */
async function plays(player) {
  player.muted = true
  await player.play()
  await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`it does not play: ${player.readyState}, ${player.error?.message}`)), 60_000)
    const look = () => {
      if (player.currentTime > 0) {
        clearTimeout(late)
        resolve()
      } else setTimeout(look, 20)
    }
    look()
  })
}

/** Jumps there, and answers when it plays there. */
async function jumps(player, second) {
  player.currentTime = second
  await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`it stands at ${player.currentTime}, ${player.readyState}`)), 60_000)
    const look = () => {
      if (player.currentTime > second && !player.seeking) {
        clearTimeout(late)
        resolve()
      } else setTimeout(look, 20)
    }
    look()
  })
}
