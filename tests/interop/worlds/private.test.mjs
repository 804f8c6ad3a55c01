// Pages that only who has the whole link can read: what crosses the wire, and who can do what without the key.

import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

import { arrive, addressOf, cidOf, Person, serve } from '../browser/people.mjs'
import { blocksOf } from '../browser/bitswap.mjs'
import { honest, joinPage } from '../browser/raw_peer.mjs'
import { generated, picture } from '../browser/things.mjs'
import { BY_RELAY_ONLY, launch } from '../lib/chromium.mjs'
import { Verb } from '../lib/terminal.mjs'
import { until } from '../lib/waiting.mjs'

const LOOPBACK = ['--listen', '/ip4/127.0.0.1/tcp/0']
const TRANSFER_MS = 60_000
const SECRET = 'the goose flies at midnight'
const WRONG_KEY = /#key=[\w-]{4}/

const octets = (name, buffer) => ({ name, mimeType: 'application/octet-stream', buffer })
const keyIn = (link) => new URLSearchParams(new URL(link).hash.slice(1)).get('key')
const withoutKey = (link) => link.replace(/#.*/, '')

function scratch(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'private-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** All that a person's browser says to the server, and hears from it. */
function listenTo(person) {
  const heard = { frames: [], requests: [] }
  person.tab.on('websocket', (socket) => {
    const note = ({ payload }) => heard.frames.push(Buffer.from(payload))
    socket.on('framesent', note)
    socket.on('framereceived', note)
  })
  person.tab.on('request', (request) => {
    heard.requests.push(`${request.url()}\n${JSON.stringify(request.headers())}\n${request.postData() ?? ''}`)
  })
  return heard
}

/** None of these words crossed it, in one piece or over the frames of a message. */
function saysNothingOf({ frames, requests }, words) {
  const all = Buffer.concat(frames)
  assert.ok(all.length > 1000, 'something was said')
  for (const word of words) {
    assert.equal(all.indexOf(word), -1, `${word} crossed the wire`)
    for (const request of requests) assert.ok(!request.includes(word), `${word} is in ${request}`)
  }
}

async function lightPrivately(person, draft) {
  await person.goTo('/')
  await person.compose(draft)
  await person.tab.getByRole('switch', { name: 'Private' }).check()
  await person.sees('Only who has the whole link can read it')
  await person.tab.getByRole('button', { name: 'Light it' }).click()
  return person.linkLit()
}

test('what is shared privately crosses the wire as noise, and opens by its link alone', async (t) => {
  const server = await serve(t)
  const maker = await arrive(t, server)
  const said = listenTo(maker)
  const film = generated(2_500_000)
  const link = await lightPrivately(maker, {
    text: `# Private\n\n${SECRET}\n\n[the other](recipe.md)\n\n![dusk](dusk.png)`,
    files: [octets('film.bin', film), { name: 'recipe.md', mimeType: 'text/markdown', buffer: Buffer.from('# Recipe\n\nA goose.') },
      { name: 'dusk.png', mimeType: 'image/png', buffer: picture(120, 80) }],
  })
  const key = keyIn(link)
  assert.match(key, /^[\w-]{43}$/)
  assert.equal(await maker.tab.title().then((title) => title.includes(key)), false)
  await maker.sees(SECRET)

  const visitor = await arrive(t, server)
  const visited = listenTo(visitor)
  await visitor.goTo(link)
  await visitor.holdsIt(TRANSFER_MS)
  await visitor.sees(SECRET)
  await visitor.sees('Private: only who has the whole link')
  await visitor.seesPicture('dusk')
  assert.ok(readFileSync(await visitor.saves('film.bin')).equals(film))
  for (const heard of [said, visited]) saysNothingOf(heard, [SECRET, 'recipe.md', 'film.bin', 'A goose', 'dusk', key, film.subarray(1_000_000, 1_000_032)])

  // The key stays in the address on the way through the page, and in what is offered for copying.
  await visitor.tab.getByRole('link', { name: 'the other' }).click()
  await visitor.sees('A goose.')
  assert.equal(keyIn(visitor.tab.url()), key)
  await visitor.linkLit()
  await visitor.tab.reload()
  await visitor.sees('A goose.', TRANSFER_MS)
  await visitor.tab.goBack()
  await visitor.sees(SECRET, TRANSFER_MS)
  maker.hasNoComplaints()
  visitor.hasNoComplaints()
})

test('who has no key holds the page for who has one', async (t) => {
  const server = await serve(t)
  const maker = await arrive(t, server)
  const link = await lightPrivately(maker, { text: `# Kept\n\n${SECRET}`, files: [octets('film.bin', generated(1_500_000))] })
  const keeper = await arrive(t, server)
  await keeper.goTo(withoutKey(link))
  await keeper.sees('This page is private, and this link has no key', TRANSFER_MS)
  await keeper.sees('You can keep this burning all the same')
  assert.equal(await keeper.tab.getByText(SECRET).count(), 0)
  await keeper.isTold('yours among them')

  await maker.leave()
  const visitor = await arrive(t, server)
  await visitor.goTo(link)
  await visitor.sees(SECRET, TRANSFER_MS)

  // The key comes later, by another way: nothing is fetched anew.
  await visitor.leave()
  const field = keeper.tab.getByRole('textbox', { name: 'The whole link, or its key' })
  await field.fill('no key at all')
  await field.press('Enter')
  await keeper.sees('There is no key in that.')
  await field.fill(link)
  await field.press('Enter')
  await keeper.sees(SECRET)
  assert.equal(keyIn(keeper.tab.url()), keyIn(link))
  keeper.hasNoComplaints()
})

test('a wrong key, a changed page and a public one are told apart', async (t) => {
  const server = await serve(t)
  const folder = scratch(t)
  const maker = await arrive(t, server)
  const link = await lightPrivately(maker, { files: [octets('film.bin', generated(2_500_000))] })
  const visitor = await arrive(t, server)
  await visitor.goTo(link.replace(WRONG_KEY, '#key=AAAA'))
  await visitor.sees('The key in this link does not open this page.', TRANSFER_MS)
  await visitor.goTo(link.replace(/key=[\w-]+/, 'key=short'))
  await visitor.sees('The key in this link does not open this page.', TRANSFER_MS)

  const get = new Verb(t, folder, 'get', [withoutKey(link), '-o', 'sealed'])
  await get.event('got', TRANSFER_MS)
  assert.equal(await get.ended(), 0)
  assert.match(get.stderr, /is a private page, and the link has no key/)
  const sealed = readFileSync(path.join(folder, 'sealed'))
  sealed[1_500_000] ^= 1
  const changed = blocksOf(sealed)
  await joinPage(t, server, changed.root, 'all', honest(changed.blocks))
  const changedLink = `${addressOf(server)}/p/${changed.root}#key=${keyIn(link)}&filename=film.bin`
  const misled = await arrive(t, server)
  await misled.goTo(changedLink)
  await misled.sees('part 1 is not what was sealed', TRANSFER_MS)
  const refused = new Verb(t, folder, 'get', [changedLink, '-o', 'changed'])
  assert.equal(await refused.ended(), 1)
  assert.match(refused.stderr, /part 1 is not what was sealed/)
  assert.ok(!readdirSync(folder).includes('changed'), 'nothing of it was written')

  const open = await arrive(t, server)
  const publicLink = await open.light({ text: '# Anybody' })
  await visitor.goTo(`${withoutKey(publicLink)}#key=${keyIn(link)}`)
  await visitor.sees('This page is not private, although its link has a key', TRANSFER_MS)
})

test('a terminal gets what a browser shares privately, and the other way round', async (t) => {
  const server = await serve(t)
  const folder = scratch(t)
  const film = generated(3_000_000)
  const maker = await arrive(t, server)
  const link = await lightPrivately(maker, { text: `# Notes\n\n${SECRET}`, files: [octets('film.bin', film)] })
  const get = new Verb(t, folder, 'get', [link, '-o', 'page'])
  await get.event('got', TRANSFER_MS)
  assert.ok(readFileSync(path.join(folder, 'page/film.bin')).equals(film))
  assert.match(readFileSync(path.join(folder, 'page/index.md'), 'utf8'), new RegExp(SECRET))
  const one = new Verb(t, folder, 'get', [`${link}&file=index.md`])
  await one.event('got', TRANSFER_MS)
  assert.match(readFileSync(path.join(folder, 'index.md'), 'utf8'), new RegExp(SECRET))
  const wrong = new Verb(t, folder, 'get', [link.replace(WRONG_KEY, '#key=AAAA'), '-o', 'wrong'])
  assert.equal(await wrong.ended(), 1)
  assert.match(wrong.stderr, /the key in this link does not open this page/)
  assert.ok(!readdirSync(folder).includes('wrong'))

  mkdirSync(path.join(folder, 'there/trip/days'), { recursive: true })
  writeFileSync(path.join(folder, 'there/trip/days/one.md'), `# Day one\n\n${SECRET}`)
  writeFileSync(path.join(folder, 'there/trip/film.bin'), film)
  const share = new Verb(t, path.join(folder, 'there'), 'share', ['trip', '--private', '--to', addressOf(server), ...LOOPBACK])
  const { page, cid, link: torch } = await share.event('shared')
  assert.match(page, /#key=[\w-]{43}&filename=trip$/)
  assert.match(torch, /#key=[\w-]{43}&filename=trip$/)
  const visitor = await arrive(t, server)
  const heard = listenTo(visitor)
  await visitor.goTo(`${page}&file=days%2Fone.md`)
  await visitor.sees(SECRET, TRANSFER_MS)
  assert.ok(readFileSync(await visitor.saves('film.bin')).equals(film))
  saysNothingOf(heard, [SECRET, 'days/one', 'film.bin', keyIn(page)])

  // A keeper needs no key, and has none.
  const store = path.join(folder, 'store')
  const hold = new Verb(t, folder, 'hold', [page, '--store', store, ...LOOPBACK])
  const held = await hold.event('held', TRANSFER_MS)
  assert.equal(held.cid, cid)
  assert.ok(!JSON.stringify(held).includes(keyIn(page)))
  await share.interrupt()
  await visitor.leave()
  const later = await arrive(t, server)
  await later.goTo(`${page}&file=days%2Fone.md`)
  await later.sees(SECRET, TRANSFER_MS)
  for (const name of readdirSync(store, { recursive: true, withFileTypes: true })) {
    if (name.isFile()) assert.equal(readFileSync(path.join(name.parentPath, name.name)).indexOf(SECRET), -1)
  }
  await hold.interrupt()
})

test('a file that is changed after it was shared privately is shared no longer', async (t) => {
  const server = await serve(t)
  const folder = scratch(t)
  writeFileSync(path.join(folder, 'notes.md'), `# Notes\n\n${SECRET}`)
  const share = new Verb(t, folder, 'share', ['notes.md', '--private', '--to', addressOf(server), ...LOOPBACK])
  const { page } = await share.event('shared')
  writeFileSync(path.join(folder, 'notes.md'), `# Notes\n\n${SECRET.toUpperCase()}`)
  const visitor = await arrive(t, server)
  await visitor.goTo(page)
  assert.equal(await share.ended(TRANSFER_MS), 1)
  assert.match(share.stderr, /notes\.md is shared no longer/)
})

test('over plain http, where browsers keep their cryptography to themselves, a page opens all the same', async (t) => {
  const server = await serve(t)
  const maker = await arrive(t, server)
  const link = await lightPrivately(maker, { text: `# Far\n\n${SECRET}` })
  const browser = await launch([...BY_RELAY_ONLY, '--host-resolver-rules=MAP far.test 127.0.0.1'])
  t.after(() => browser.close())
  const visitor = await Person.inContext(server, await browser.newContext())
  await visitor.goTo(link.replace('localhost', 'far.test'))
  await visitor.sees(SECRET, TRANSFER_MS)
  assert.equal(await visitor.tab.evaluate(() => isSecureContext || crypto.subtle !== undefined), false)
  assert.equal(cidOf(visitor.tab.url()), cidOf(link))
})

test('the list of processes does not tell the key', async (t) => {
  const folder = scratch(t)
  const key = 'AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09o'
  const link = `watchfire:bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u?peer=/ip4/127.0.0.1/tcp/1/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA#key=${key}`
  const get = new Verb(t, folder, 'get', [link])
  await until(() => get.stderr !== '', 'it says that nobody is there', TRANSFER_MS)
  const title = readFileSync(`/proc/${get.pid}/cmdline`, 'latin1')
  assert.match(title, /get.*bafkrei/)
  assert.ok(!title.includes(key) && !get.stderr.includes(key))
})
