// A page burns as long as someone watches it.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { within } from '../lib/waiting.mjs'
import { arrive, cidOf, PATIENCE_MS, serve } from './people.mjs'
import { file, generated, picture } from './things.mjs'

const vectors = JSON.parse(readFileSync(new URL('../../vectors/cids.json', import.meta.url)))
const NOBODY = 'Nobody has this page right now'
/** What must be told at once may take this long, with two cores and several browsers. */
const AT_ONCE_MS = 2_500

const STORY = {
  text: '# By the fire\n\nWe sat until the *last ember*.\n\n![cat](cat.png)\n',
  files: [file('cat.png', picture(64, 48), 'image/png')],
}

test('a page with a picture passes from hand to hand, dies with its last holder, and is lit again', async (t) => {
  const server = await serve(t)
  const [a, b] = [await arrive(t, server), await arrive(t, server)]
  const readsIt = async (person) => {
    await person.sees('We sat until the last ember.')
    assert.deepEqual(await person.seesPicture('cat'), [64, 48])
  }

  const link = await a.light(STORY)
  await readsIt(a)
  await b.goTo(link)
  await readsIt(b)

  await a.leave()
  const c = await arrive(t, server)
  await c.goTo(link)
  await readsIt(c)

  await Promise.all([b.leave(), c.leave()])
  const d = await arrive(t, server)
  await d.goTo(link)
  await d.sees(NOBODY)
  await d.sees('it lights up by itself')

  const again = await arrive(t, server)
  assert.equal(await again.light(STORY), link, 'the same content has the same link')
  await readsIt(d)
  await d.isTold('Held by 2 tabs, yours among them')
  for (const person of [a, b, c, d, again]) person.hasNoComplaints()
})

test('links carry the CIDs that kubo gives the same content', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  const known = vectors.texts.find(({ text, profile }) => text.startsWith('# A page') && profile === 'unixfs-v1-2025')
  const written = await person.light({ text: known.text })
  assert.equal(cidOf(written), known.cid)

  const sizes = [1, 1_048_576, 1_048_577]
  for (const bytes of sizes) {
    const { cid } = vectors.files.find((vector) => vector.bytes === bytes && vector.profile === 'unixfs-v1-2025')
    const dropped = await person.light({ files: [file('generated.bin', generated(bytes))] })
    assert.equal(cidOf(dropped), cid, `${bytes} bytes`)
  }

  const flat = vectors.directories.find(({ about }) => about === 'hidden files belong to it')
  const several = await person.light({ files: flat.entries.map(({ path, text }) => file(path, text)) })
  assert.equal(cidOf(several), flat.cid)
})

test('those who wait are told at once when the last holder leaves midway, and again when one returns', async (t) => {
  const settings = { 'limits.relay_bytes_per_second_peer': 524_288 }
  const server = await serve(t, { settings })
  const [holder, seeker] = [await arrive(t, server), await arrive(t, server)]
  const film = { files: [file('film.bin', picture(1600, 1200, { noise: 3 }))] }
  const link = await holder.light(film)
  await seeker.goTo(link)
  await seeker.sees(/Fetching film\.bin/)
  await seeker.sees(/[1-9]\d*% · /)

  await holder.leave()
  await seeker.sees('The last one who had it has left', AT_ONCE_MS)

  const returned = await arrive(t, server)
  assert.equal(await returned.light(film), link)
  await seeker.sees(/Fetching film\.bin/, AT_ONCE_MS)
})

test('someone who waits for a page that nobody has is shown it as soon as somebody lights it', async (t) => {
  const server = await serve(t)
  const [first, waiting] = [await arrive(t, server), await arrive(t, server)]
  const link = await first.light({ text: 'A short one.' })
  await first.leave()
  await waiting.goTo(link)
  await waiting.sees(NOBODY)

  const second = await arrive(t, server)
  await second.light({ text: 'A short one.' })
  await waiting.tab.locator('.file').getByText('A short one.').waitFor({ timeout: AT_ONCE_MS })
})

test('everybody sees how many watch and who holds the page, and it stays true', async (t) => {
  const server = await serve(t)
  const [a, b, c] = [await arrive(t, server), await arrive(t, server), await arrive(t, server)]
  const link = await a.light({ text: 'Count the watchers.' })
  await a.isTold('Only you are here')
  await a.isTold('You are the only one holding this page')

  await b.goTo(link)
  for (const person of [a, b]) {
    await person.isTold('2 people are watching')
    await person.isTold('Held by 2 tabs, yours among them.')
  }
  await c.goTo(link)
  for (const person of [a, b, c]) await person.isTold('Held by 3 tabs, yours among them.')
  const twice = await c.withAnotherTab()
  await twice.goTo(link)
  for (const person of [a, b, c, twice]) await person.isTold('Held by 4 tabs, yours among them.')
  await twice.leave()
  for (const person of [a, b, c]) await person.isTold('Held by 3 tabs, yours among them.')

  await b.leave()
  for (const person of [a, c]) await person.isTold('Held by 2 tabs, yours among them.')
  await a.leave()
  await c.isTold('You are the only one holding this page')
})

test('a holder whose browser is killed is missed as soon as its sockets close', async (t) => {
  const server = await serve(t)
  const [a, b] = [await arrive(t, server), await arrive(t, server)]
  const link = await a.light({ text: 'Suddenly alone.' })
  await b.goTo(link)
  await b.isTold('Held by 2 tabs')
  await a.vanish()
  await b.isTold('You are the only one holding this page')
})

test('the home page tells how many people are on the whole site', async (t) => {
  const server = await serve(t)
  const [a, b] = [await arrive(t, server), await arrive(t, server)]
  await a.goTo('/')
  await a.sees('Only you are here now')
  await b.goTo('/chat')
  await a.sees('2 people here now')
  await b.leave()
  await a.sees('Only you are here now')
})

test('a page goes on burning while its keeper looks at another place of the site', async (t) => {
  const server = await serve(t)
  const [keeper, visitor] = [await arrive(t, server), await arrive(t, server)]
  const link = await keeper.light({ text: 'Kept burning.' })
  await keeper.tab.getByRole('link', { name: 'Watchfire' }).click()
  await keeper.sees('Burning in this tab')
  await visitor.goTo(link)
  await visitor.sees('Kept burning.')

  await keeper.tab.getByRole('button', { name: /^Let go of/ }).click()
  await visitor.isTold('You are the only one holding this page')
})

test('a link that names no content says so', async (t) => {
  const server = await serve(t)
  const person = await arrive(t, server)
  const v0 = 'QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH'
  const cut = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyk'
  for (const wrong of ['hello', cut, 'bafk%00%ff', '..%2f..%2fetc', 'b'.repeat(3000), 'zdj7', '%F0%9F%94%A5']) {
    await person.goTo(`/p/${wrong}`)
    await person.sees('This page cannot be shown')
    const reason = await person.tab.getByRole('alert').getByRole('paragraph').first().textContent()
    assert.match(reason, /This link is not one of ours/, wrong)
  }
  await person.goTo(`/p/${v0}`)
  await within(Promise.race([person.sees('This page cannot be shown'), person.sees(NOBODY)]), 'an answer', PATIENCE_MS)
  await person.goTo('/no/such/place')
  await person.sees('Nothing burns here')
})
