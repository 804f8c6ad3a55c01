// The tutorials of docs/tutorial work as they are written. Only the ports differ. cursors.test.mjs has a browser for one more.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { it } from 'node:test'

import { newVisitor } from '../browser/page-driver.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Kubo, whyNoKubo } from '../lib/kubo.mjs'
import { accepts } from '../lib/listen.mjs'
import { makeImage, push, Registry } from '../lib/registry.mjs'
import { binary, start } from '../lib/server.mjs'
import { printedBy, Reader } from './reader.mjs'

/** Opens a tutorial; all that it starts ends with the test. */
async function open(t, name, options = {}) {
  const reader = await Reader.open(`docs/tutorial/${name}.md`, options)
  t.after(() => reader.close())
  return reader
}

/** A browser that visits the server of the tutorial. */
const visit = (t, reader) => newVisitor(t, { port: reader.ports[4000] })

it('the tutorial of a load test writes a report', async (t) => {
  const reader = await open(t, 'load-test')
  await reader.follow()
  assert.match(readFileSync(path.join(reader.folder, 'lobby.html'), 'utf8'), /<svg/)
})

it('the tutorial of kubo exchanges a folder and a file', { skip: whyNoKubo }, async (t) => {
  const kubo = await Kubo.start()
  t.after(() => kubo.stop())
  const reader = await open(t, 'fetch-with-kubo', { programs: [path.dirname(kubo.ipfs)], env: { IPFS_PATH: kubo.folder } })
  const inFolder = (/** @type {string} */ name) => path.join(reader.folder, name)
  mkdirSync(inFolder('trip'))
  writeFileSync(inFolder('trip/notes.md'), 'Hello, world!\n')
  writeFileSync(inFolder('film.mp4'), randomBytes(3_000_000))
  await reader.follow()
  assert.equal(readFileSync(inFolder('trip-from-watchfire/notes.md'), 'utf8'), 'Hello, world!\n')
  assert.deepEqual(readFileSync(inFolder('film-from-kubo.mp4')), readFileSync(inFolder('film.mp4')))
})

it('the tutorial of images takes each layer from Docker Hub once', async (t) => {
  const registry = await Registry.start(path.join(newFolder(t), 'registry'))
  t.after(() => registry.stop())
  await push(registry, 'library/alpine', 'latest', makeImage([200_000, 300_000]))
  // A reader types more slowly than the mirrors connect.
  const connected = 'until watchfire mirror status --mirror http://127.0.0.1:5002 | grep "connected to 1"; do :; done'
  const edit = (text) =>
    text
      .replaceAll('--upstream docker.io', `--upstream docker.io=${registry.url}`)
      .replace('4. Load an image', `   \`\`\`sh\n   ${connected}\n   \`\`\`\n\n$&`)
  const reader = await open(t, 'images', { edit })
  await reader.follow()
  assert.equal(registry.requests('GET', /\/blobs\//), 3, 'two layers and the configuration left the registry once')
})

it('the tutorial of a shared page: it lives as long as a browser has it open', async (t) => {
  const reader = await open(t, 'share-a-page')
  await reader.follow()
  const [author, friend, late] = [await visit(t, reader), await visit(t, reader), await visit(t, reader)]
  await author.goTo('/')
  await author.compose({ text: 'Tea at five' })
  const button = /click \*(.+?)\*/.exec(reader.text)[1]
  await author.tab.getByRole('button', { name: button, exact: true }).click()
  const link = await author.sharedLink()
  await friend.goTo(link)
  await friend.waitForText('Tea at five')
  await friend.waitUntilComplete()
  await author.leave()
  await late.goTo(link)
  await late.waitForText('Tea at five')
  await late.leave()
  await friend.leave()
  const next = await visit(t, reader)
  await next.goTo(link)
  await next.waitForText('Nobody has this page right now')
  await next.waitForText('Tell me when it is back')
})

it('the tutorial of two servers: a page of one opens on the other, until its last viewer on either has left', async (t) => {
  const edit = (text) => text.replace('--listen 127.0.0.1:4000', '$& --set admin.listen=127.0.0.1:4010')
  const reader = await open(t, 'two-servers', { edit, handlers: { toml: () => {} } })
  await reader.follow()
  const other = { port: reader.ports[4100] }
  const [author, friend, late] = [await visit(t, reader), await newVisitor(t, other), await visit(t, reader)]
  const link = await author.sharePage({ text: 'Tea on both sides' })
  const beside = new URL(new URL(link).pathname, `http://localhost:${other.port}`).href
  await friend.goTo(beside)
  await friend.waitForText('Tea on both sides')
  await friend.waitUntilComplete()
  await author.leave()
  await late.goTo(link)
  await late.waitForText('Tea on both sides')
  await Promise.all([late.leave(), friend.leave()])
  for (const [next, place] of [
    [await visit(t, reader), link],
    [await newVisitor(t, other), beside],
  ]) {
    await next.goTo(place)
    await next.waitForText('Nobody has this page right now')
  }
})

it('the tutorial of channels sends a note to another client', async (t) => {
  // The server of the tutorial has the default port.
  if (await accepts(4000)) return t.skip('port 4000 is in use')
  const orders = await start(binary('orders'), [], /^ws:\/\/127\.0\.0\.1:(4000)\/socket$/)
  t.after(() => orders.stop())
  // The client that joins second writes to the first.
  const js = (code) => {
    const script = code.replace(String(reader.ports[4000]), '4000')
    return printedBy([reader.startScript(script), reader.startScript(script)], "another client wrote { text: 'two eggs' }")
  }
  // The program of the block is examples/orders, whose own test compares the two.
  const reader = await open(t, 'channels', { handlers: { rust: () => {}, js } })
  await reader.follow()
})
