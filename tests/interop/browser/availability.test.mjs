// A page is available while a peer has it open.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { withTimeout } from '../lib/deadlines.mjs'
import { newVisitor, cidOf, WAIT_MS, startServer, newVisitors } from './page-driver.mjs'
import { file, generated, picture } from './fixtures.mjs'

const vectors = JSON.parse(readFileSync(new URL('../../vectors/cids.json', import.meta.url), 'utf8'))
const UNAVAILABLE = 'Nobody has this page right now'

const STORY = {
  text: '# By the fire\n\nWe sat until the *last ember*.\n\n![cat](cat.png)\n',
  files: [file('cat.png', picture(64, 48), 'image/png')],
}

test('a page with a picture passes from one visitor to the next, is gone with its last holder, and can be shared again', async (t) => {
  const server = await startServer(t)
  const [a, b] = await newVisitors(t, server, 2)
  const assertShown = async (person) => {
    await person.waitForText('We sat until the last ember.')
    assert.deepEqual(await person.waitForPicture('cat'), [64, 48])
  }

  const link = await a.sharePage(STORY)
  await assertShown(a)
  await b.goTo(link)
  await assertShown(b)

  await a.leave()
  const c = await newVisitor(t, server)
  await c.goTo(link)
  await assertShown(c)

  await Promise.all([b.leave(), c.leave()])
  const d = await newVisitor(t, server)
  await d.goTo(link)
  await d.waitForText(UNAVAILABLE)
  await d.waitForText('the page appears as soon as')

  const again = await newVisitor(t, server)
  assert.equal(await again.sharePage(STORY), link, 'the same content has the same link')
  await assertShown(d)
  await d.waitForStatus('2 people have all of it, including you')
  for (const person of [a, b, c, d, again]) person.assertNoPageErrors()
})

test('links carry the CIDs that kubo computes for the same content', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  const known = vectors.texts.find(({ text, profile }) => text.startsWith('# A page') && profile === 'unixfs-v1-2025')
  const written = await person.sharePage({ text: known.text })
  assert.equal(cidOf(written), known.cid)

  const sizes = [1, 1_048_576, 1_048_577]
  for (const bytes of sizes) {
    const { cid } = vectors.files.find((vector) => vector.bytes === bytes && vector.profile === 'unixfs-v1-2025')
    const dropped = await person.sharePage({ files: [file('generated.bin', generated(bytes))] })
    assert.equal(cidOf(dropped), cid, `${bytes} bytes`)
  }

  const flat = vectors.directories.find(({ about }) => about === 'hidden files belong to it')
  const several = await person.sharePage({ files: flat.entries.map(({ path, text }) => file(path, text)) })
  assert.equal(cidOf(several), flat.cid)
})

test('the viewer and holder counts are the same for all viewers and stay correct', async (t) => {
  const [a, b, c] = await newVisitors(t, await startServer(t), 3)
  const link = await a.sharePage({ text: 'Count the watchers.' })
  await a.waitForStatus('Only you are looking at it')
  await a.waitForStatus('Only you have this page')

  await b.goTo(link)
  for (const person of [a, b]) {
    await person.waitForStatus('2 people are looking at it')
    await person.waitForStatus('2 people have all of it, including you')
  }
  await c.goTo(link)
  for (const person of [a, b, c]) await person.waitForStatus('3 people have all of it, including you')
  const twice = await c.openAnotherTab()
  await twice.goTo(link)
  for (const person of [a, b, c, twice]) await person.waitForStatus('4 people have all of it, including you')
  await twice.leave()
  for (const person of [a, b, c]) await person.waitForStatus('3 people have all of it, including you')

  await b.leave()
  for (const person of [a, c]) await person.waitForStatus('2 people have all of it, including you')
  await a.leave()
  await c.waitForStatus('Only you have this page')
})

test('a reader who comes late sees how old the page is and how many had it open, although its author has left', async (t) => {
  const [author, leaver, stayer, late] = await newVisitors(t, await startServer(t), 4)
  const link = await author.sharePage({ text: 'It has burned for a while.' })
  for (const reader of [leaver, stayer]) await reader.goTo(link)
  for (const person of [author, leaver, stayer]) {
    await person.waitForStatus('3 people are looking at it')
    await person.waitForText(/^Lit .* · at most 3 people at the same time$/)
  }
  await leaver.leave()
  await stayer.waitForText(/^Lit (?:[6-9] seconds|\d\d+ seconds|\d+ minutes?) ago/)
  await author.leave()
  await stayer.waitForStatus('Only you are looking at it')

  const before = await secondsSinceLit(stayer)
  await late.goTo(link)
  await late.openDetails()
  await late.waitForText(/^Lit .* · at most 3 people at the same time$/)
  await late.waitForText('Tabs tell this to each other, and nobody verifies it.')
  const since = await secondsSinceLit(late)
  assert(since >= before && before >= 5, `the page was lit ${before} s ago, and the late reader sees ${since} s`)
  const chart = late.tab.getByRole('img', { name: /^People who had this page open since then: 2 now, at most 3$/ })
  await chart.waitFor({ timeout: WAIT_MS })
  await late.leave()
  await stayer.tab.reload()
  await stayer.openDetails()
  await stayer.waitForText(/^Lit .* · at most 3 people at the same time$/)
  for (const person of [author, leaver, stayer, late]) person.assertNoPageErrors()
})

test('a holder whose browser is killed is removed as soon as its sockets close', async (t) => {
  const [a, b] = await newVisitors(t, await startServer(t), 2)
  const link = await a.sharePage({ text: 'Suddenly alone.' })
  await b.goTo(link)
  await b.waitForStatus('2 people have this page')
  await a.killBrowser()
  await b.waitForStatus('Only you have this page')
})

test('the home page shows how many people are on the site', async (t) => {
  const [a, b] = await newVisitors(t, await startServer(t), 2)
  await a.goTo('/')
  await a.waitForText('Only you are here now')
  await b.goTo('/chat')
  await a.waitForText('2 people here now')
  await b.leave()
  await a.waitForText('Only you are here now')
})

test('a page stays shared while its holder opens another view of the site', async (t) => {
  const [keeper, visitor] = await newVisitors(t, await startServer(t), 2)
  const link = await keeper.sharePage({ text: 'Kept burning.' })
  await keeper.tab.getByRole('link', { name: 'Watchfire' }).click()
  await keeper.waitForText('Burning in this tab')
  await visitor.goTo(link)
  await visitor.waitForText('Kept burning.')

  await keeper.tab.getByRole('button', { name: /^Stop sharing/ }).click()
  await visitor.waitForStatus('Only you have this page')
})

test('a link without a valid CID shows an error', async (t) => {
  const person = await newVisitor(t, await startServer(t))
  const v0 = 'QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH'
  const cut = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyk'
  for (const wrong of ['hello', cut, 'bafk%00%ff', '..%2f..%2fetc', 'b'.repeat(3000), 'zdj7', '%F0%9F%94%A5']) {
    await person.goTo(`/p/${wrong}`)
    await person.waitForText('This page cannot be shown')
    const reason = await person.tab.getByRole('alert').getByRole('paragraph').first().textContent()
    assert.match(reason, /This link is not valid/, wrong)
  }
  await person.goTo(`/p/${v0}`)
  await withTimeout(Promise.race([person.waitForText('This page cannot be shown'), person.waitForText(UNAVAILABLE)]), 'an answer', WAIT_MS)
  await person.goTo('/no/such/place')
  await person.waitForText('Nothing here')
})

/** The age of a page that a person sees, in seconds. */
async function secondsSinceLit(person) {
  const text = await person.tab.getByText(/^Lit /).textContent()
  const [, count, unit] = /^Lit (\d+) (second|minute)/.exec(text) ?? assert.fail(text)
  return Number(count) * (unit === 'minute' ? 60 : 1)
}
