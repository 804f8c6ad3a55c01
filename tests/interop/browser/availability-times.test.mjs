// The time until a visitor sees that a page has become available or unavailable.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { newVisitor, startServer, newVisitors } from './page-driver.mjs'
import { file, picture } from './fixtures.mjs'
import { slowdownOf } from './pace.mjs'

const UNAVAILABLE = 'Nobody has this page right now'
/** Time allowed for updates that are sent at once, on an idle machine with several browsers. */
const AT_ONCE_MS = 2_500

test('waiting visitors are notified at once when the last holder leaves midway, and again when one returns', async (t) => {
  const settings = { 'limits.relay_bytes_per_second_per_peer': 524_288 }
  const server = await startServer(t, { settings })
  const [holder, seeker] = await newVisitors(t, server, 2)
  const soonMs = AT_ONCE_MS * (await slowdownOf(t, server, seeker))
  const film = { files: [file('film.bin', picture(1600, 1200, { noise: 3 }))] }
  const link = await holder.sharePage(film)
  await seeker.goTo(link)
  await seeker.waitForText(/Loading (film\.bin|the page)/)
  await seeker.waitForText(/[1-9]\d*% · /)

  await holder.leave()
  await seeker.waitForText('The last person who had it has left', soonMs)

  const returned = await newVisitor(t, server)
  assert.equal(await returned.sharePage(film), link)
  await seeker.waitForText('Loading the page', soonMs)
})

test('a visitor who waits for an unavailable page sees it as soon as a peer shares it', async (t) => {
  const server = await startServer(t)
  const [first, waiting] = await newVisitors(t, server, 2)
  const soonMs = AT_ONCE_MS * (await slowdownOf(t, server, waiting))
  const link = await first.sharePage({ text: 'A short one.' })
  await first.leave()
  await waiting.goTo(link)
  await waiting.waitForText(UNAVAILABLE)

  const second = await newVisitor(t, server)
  await second.sharePage({ text: 'A short one.' })
  await waiting.tab.locator('.file').getByText('A short one.').waitFor({ timeout: soonMs })
})
