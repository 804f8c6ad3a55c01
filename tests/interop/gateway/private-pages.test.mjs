// Private pages: the bytes on the network, and the abilities of peers without the key.

import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

import { newVisitor, addressOf, cidOf, PageDriver, startServer } from '../browser/page-driver.mjs'
import { blocksOf } from '../browser/bitswap-messages.mjs'
import { honestHolder, joinPage } from '../browser/raw-peer.mjs'
import { generated, picture } from '../browser/fixtures.mjs'
import { BY_RELAY_ONLY, launch } from '../lib/chromium.mjs'
import { Command } from '../lib/command-line.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { skipInShortRun } from '../lib/whole.mjs'

const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']
const TRANSFER_MS = 60_000
const SECRET = 'the goose flies at midnight'
const WRONG_KEY = /#key=[\w-]{4}/

const octets = (name, buffer) => ({ name, mimeType: 'application/octet-stream', buffer })
const keyIn = (link) => new URLSearchParams(new URL(link).hash.slice(1)).get('key')
const withoutKey = (link) => link.replace(/#.*/, '')

/** Records every message between a visitor's browser and the server. */
function recordTraffic(person) {
  const traffic = { frames: [], requests: [] }
  person.tab.on('websocket', (socket) => {
    const note = ({ payload }) => traffic.frames.push(Buffer.from(payload))
    socket.on('framesent', note)
    socket.on('framereceived', note)
  })
  person.tab.on('request', (request) => {
    traffic.requests.push(`${request.url()}\n${JSON.stringify(request.headers())}\n${request.postData() ?? ''}`)
  })
  return traffic
}

/** Asserts that none of these texts was sent, not even across frames. */
function assertNotSent({ frames, requests }, words) {
  const all = Buffer.concat(frames)
  assert.ok(all.length > 1000, 'no traffic was recorded')
  for (const word of words) {
    assert.equal(all.indexOf(word), -1, `${word} was sent`)
    for (const request of requests) assert.ok(!request.includes(word), `${word} is in ${request}`)
  }
}

test('a private page crosses the network encrypted, and opens with its whole link alone', async (t) => {
  const server = await startServer(t)
  const maker = await newVisitor(t, server)
  const sharing = recordTraffic(maker)
  const film = generated(2_500_000)
  const link = await maker.sharePrivately({
    text: `# Private\n\n${SECRET}\n\n[the other](recipe.md)\n\n![dusk](dusk.png)`,
    files: [
      octets('film.bin', film),
      { name: 'recipe.md', mimeType: 'text/markdown', buffer: Buffer.from('# Recipe\n\nA goose.') },
      { name: 'dusk.png', mimeType: 'image/png', buffer: picture(120, 80) },
    ],
  })
  const key = keyIn(link)
  assert.match(key, /^[\w-]{43}$/)
  assert.equal(await maker.tab.title().then((title) => title.includes(key)), false)
  await maker.waitForText(SECRET)

  const visitor = await newVisitor(t, server)
  const visit = recordTraffic(visitor)
  await visitor.goTo(link)
  await visitor.waitUntilComplete(TRANSFER_MS)
  await visitor.waitForText(SECRET)
  await visitor.waitForText('Private: only people with the whole link')
  await visitor.waitForPicture('dusk')
  assert.ok(readFileSync(await visitor.saveFile('film.bin')).equals(film))
  for (const traffic of [sharing, visit])
    assertNotSent(traffic, [SECRET, 'recipe.md', 'film.bin', 'A goose', 'dusk', key, film.subarray(1_000_000, 1_000_032)])

  // The key stays in the address while the visitor navigates, and in the link offered for copying.
  await visitor.tab.getByRole('link', { name: 'the other' }).click()
  await visitor.waitForText('A goose.')
  assert.equal(keyIn(visitor.tab.url()), key)
  await visitor.openDetails()
  await visitor.sharedLink()
  await visitor.tab.reload()
  await visitor.waitForText('A goose.', TRANSFER_MS)
  await visitor.tab.goBack()
  await visitor.waitForText(SECRET, TRANSFER_MS)
  maker.assertNoPageErrors()
  visitor.assertNoPageErrors()
})

test('a holder without the key serves the page to a reader with it', async (t) => {
  const server = await startServer(t)
  const maker = await newVisitor(t, server)
  const link = await maker.sharePrivately({ text: `# Kept\n\n${SECRET}`, files: [octets('film.bin', generated(1_500_000))] })
  const keeper = await newVisitor(t, server)
  await keeper.goTo(withoutKey(link))
  await keeper.waitForText('This page is private, and this link has no key', TRANSFER_MS)
  await keeper.waitForText('You can still keep sharing it')
  assert.equal(await keeper.tab.getByText(SECRET).count(), 0)
  await keeper.waitForStatus('2 people have all of it, including you')
  assert(!(await keeper.tab.content()).includes('kept.md'), 'the name of its file is visible')

  await maker.leave()
  const visitor = await newVisitor(t, server)
  await visitor.goTo(link)
  await visitor.waitForText(SECRET, TRANSFER_MS)
  await visitor.waitForText('only people with the whole link can read this')
  assert.equal(visitor.tab.url(), link)

  // The key arrives later, separately; no block is loaded again.
  await visitor.leave()
  const field = keeper.tab.getByRole('textbox', { name: 'The whole link, or its key' })
  await field.fill('no key at all')
  await field.press('Enter')
  await keeper.waitForText('There is no key in this.')
  await field.fill(link)
  await field.press('Enter')
  await keeper.waitForText(SECRET)
  assert.equal(keyIn(keeper.tab.url()), keyIn(link))
  for (const person of [maker, visitor, keeper]) person.assertNoPageErrors()
})

test('a wrong key, a modified page and a public page have different errors', async (t) => {
  const server = await startServer(t)
  const folder = newFolder(t)
  const maker = await newVisitor(t, server)
  const link = await maker.sharePrivately({ files: [octets('film.bin', generated(2_500_000))] })
  const visitor = await newVisitor(t, server)
  await visitor.goTo(link.replace(WRONG_KEY, '#key=AAAA'))
  await visitor.waitForText('The key in this link does not open this page.', TRANSFER_MS)
  await visitor.goTo(link.replace(/key=[\w-]+/, 'key=short'))
  await visitor.waitForText('The key in this link does not open this page.', TRANSFER_MS)

  const get = new Command(t, folder, 'get', [withoutKey(link), '-o', 'sealed'])
  await get.event('got', TRANSFER_MS)
  assert.equal(await get.ended(), 0)
  assert.match(get.stderr, /is a private page, and the link has no key/)
  const sealed = readFileSync(path.join(folder, 'sealed'))
  sealed[1_500_000] ^= 1
  const changed = blocksOf(sealed)
  await joinPage(t, server, changed.root, 'all', honestHolder(changed.blocks))
  const changedLink = `${addressOf(server)}/p/${changed.root}#key=${keyIn(link)}&filename=film.bin`
  const misled = await newVisitor(t, server)
  await misled.goTo(changedLink)
  await misled.waitForText('part 1 is not authentic', TRANSFER_MS)
  const refused = new Command(t, folder, 'get', [changedLink, '-o', 'changed'])
  assert.equal(await refused.ended(), 1)
  assert.match(refused.stderr, /part 1 is not authentic/)
  assert.ok(!readdirSync(folder).includes('changed'), 'a part of it was written')

  const open = await newVisitor(t, server)
  const publicLink = await open.sharePage({ text: '# Anybody' })
  await visitor.goTo(`${withoutKey(publicLink)}#key=${keyIn(link)}`)
  await visitor.waitForText('This page is not private, although its link has a key', TRANSFER_MS)
})

test('the command line opens private pages of browsers, and browsers those of the command line', { skip: skipInShortRun }, async (t) => {
  const server = await startServer(t)
  const folder = newFolder(t)
  const film = generated(3_000_000)
  const maker = await newVisitor(t, server)
  const link = await maker.sharePrivately({ text: `# Notes\n\n${SECRET}`, files: [octets('film.bin', film)] })
  const get = new Command(t, folder, 'get', [link, '-o', 'page'])
  await get.event('got', TRANSFER_MS)
  assert.ok(readFileSync(path.join(folder, 'page/film.bin')).equals(film))
  assert.match(readFileSync(path.join(folder, 'page/index.md'), 'utf8'), new RegExp(SECRET))
  const one = new Command(t, folder, 'get', [`${link}&file=index.md`])
  await one.event('got', TRANSFER_MS)
  assert.match(readFileSync(path.join(folder, 'index.md'), 'utf8'), new RegExp(SECRET))
  const wrong = new Command(t, folder, 'get', [link.replace(WRONG_KEY, '#key=AAAA'), '-o', 'wrong'])
  assert.equal(await wrong.ended(), 1)
  assert.match(wrong.stderr, /the key in this link does not open this page/)
  assert.ok(!readdirSync(folder).includes('wrong'))

  mkdirSync(path.join(folder, 'there/trip/days'), { recursive: true })
  writeFileSync(path.join(folder, 'there/trip/days/one.md'), `# Day one\n\n${SECRET}`)
  writeFileSync(path.join(folder, 'there/trip/film.bin'), film)
  const share = new Command(t, path.join(folder, 'there'), 'share', ['trip', '--private', '--to', addressOf(server), ...LOOPBACK])
  const { page, cid, link: nodeLink } = await share.event('shared')
  assert.match(page, /#key=[\w-]{43}&filename=trip$/)
  assert.match(nodeLink, /#key=[\w-]{43}&filename=trip$/)
  const visitor = await newVisitor(t, server)
  const traffic = recordTraffic(visitor)
  await visitor.goTo(`${page}&file=days%2Fone.md`)
  await visitor.waitForText(SECRET, TRANSFER_MS)
  assert.ok(readFileSync(await visitor.saveFile('film.bin')).equals(film))
  assertNotSent(traffic, [SECRET, 'days/one', 'film.bin', keyIn(page)])

  // A holder needs no key, and has none.
  const store = path.join(folder, 'store')
  const hold = new Command(t, folder, 'hold', [page, '--store', store, ...LOOPBACK])
  const held = await hold.event('held', TRANSFER_MS)
  assert.equal(held.cid, cid)
  assert.ok(!JSON.stringify(held).includes(keyIn(page)))
  await share.interrupt()
  await visitor.leave()
  const later = await newVisitor(t, server)
  await later.goTo(`${page}&file=days%2Fone.md`)
  await later.waitForText(SECRET, TRANSFER_MS)
  for (const name of readdirSync(store, { recursive: true, withFileTypes: true })) {
    if (name.isFile()) assert.equal(readFileSync(path.join(name.parentPath, name.name)).indexOf(SECRET), -1)
  }
  await hold.interrupt()
})

test('a file that changes after it was shared privately is no longer shared', async (t) => {
  const server = await startServer(t)
  const folder = newFolder(t)
  writeFileSync(path.join(folder, 'notes.md'), `# Notes\n\n${SECRET}`)
  const share = new Command(t, folder, 'share', ['notes.md', '--private', '--to', addressOf(server), ...LOOPBACK])
  const { page } = await share.event('shared')
  writeFileSync(path.join(folder, 'notes.md'), `# Notes\n\n${SECRET.toUpperCase()}`)
  const visitor = await newVisitor(t, server)
  await visitor.goTo(page)
  assert.equal(await share.ended(TRANSFER_MS), 1)
  assert.match(share.stderr, /notes\.md is no longer shared/)
})

test('a private page opens over plain HTTP, where browsers have no WebCrypto', async (t) => {
  // No address of loopback: its origin must be listed.
  const server = await startServer(t, { settings: { 'socket.check_origin': 'same,//far.test' } })
  const maker = await newVisitor(t, server)
  const link = await maker.sharePrivately({ text: `# Far\n\n${SECRET}` })
  const browser = await launch([...BY_RELAY_ONLY, '--host-resolver-rules=MAP far.test 127.0.0.1'])
  t.after(() => browser.close())
  const visitor = await PageDriver.inContext(server, await browser.newContext())
  await visitor.goTo(link.replace('localhost', 'far.test'))
  await visitor.waitForText(SECRET, TRANSFER_MS)
  assert.equal(await visitor.tab.evaluate(() => isSecureContext || crypto.subtle !== undefined), false)
  assert.equal(cidOf(visitor.tab.url()), cidOf(link))
})

test('the process list does not reveal the key', async (t) => {
  const folder = newFolder(t)
  const key = 'AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09o'
  const link = `watchfire:bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u?peer=/ip4/127.0.0.1/tcp/1/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA#key=${key}`
  const get = new Command(t, folder, 'get', [link])
  await waitUntil(() => get.stderr !== '', 'the command prints a line', TRANSFER_MS)
  const title = readFileSync(`/proc/${get.pid}/cmdline`, 'latin1')
  assert.match(title, /get.*bafkrei/)
  assert.ok(!title.includes(key) && !get.stderr.includes(key))
})
