// Links that name other servers of a page (`at=`), in the browser. The neighbours of this server are those that the test writes into
// `GET /limits`.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { newVisitor, startServer } from './page-driver.mjs'

/** A page that nobody has. */
const CID = 'bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u'
/** A server of this machine where nothing listens, and one that this server does not know. */
const [NEIGHBOUR, STRANGER] = ['http://127.0.0.1:9', 'http://127.0.0.1:19']

/** A visitor of a server with these neighbours. */
async function visitorOf(t, server, neighbours) {
  const person = await newVisitor(t, server)
  await person.tab.context().route('**/limits', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ json: { ...(await response.json()), neighbours } })
  })
  return person
}

test('the link to share names the neighbours that answer, and no server sees that part of it', async (t) => {
  const server = await startServer(t)
  const [answers, silent] = [
    { server: NEIGHBOUR, state: 'answers', pages: 1 },
    { server: STRANGER, state: 'silent', pages: 0 },
  ]
  const author = await visitorOf(t, server, [silent, answers])
  await author.goTo('/')
  await author.compose({ text: 'A few words.' })
  await author.tab.getByRole('button', { name: 'Light this page' }).click()
  await author.waitForText('can be found at 127.0.0.1:9')
  const link = await author.tab.getByRole('textbox', { name: 'Link to this page' }).inputValue()
  assert.equal(link, `${await author.tab.url()}&at=${NEIGHBOUR}`)

  const requested = []
  const reader = await visitorOf(t, server, [silent, answers])
  reader.tab.on('request', (request) => requested.push(request.url()))
  await reader.goTo(link)
  await reader.waitForText('A few words.')
  assert(requested.length > 0 && requested.every((url) => !url.includes(NEIGHBOUR)), requested.join('\n'))
  for (const person of [author, reader]) person.assertNoPageErrors()
})

test('a link that names an unknown server is followed there only after a question', async (t) => {
  const server = await startServer(t)
  const reader = await visitorOf(t, server, [{ server: NEIGHBOUR, state: 'silent', pages: 0 }])
  await reader.goTo(`/p/${CID}#at=${NEIGHBOUR}&at=${STRANGER}&at=javascript:alert(1)`)
  await reader.waitForText('Look for this page at 127.0.0.1:19?')
  const questions = reader.tab.getByText('Look for this page at')
  assert.equal(await questions.count(), 1)
  await reader.tab.getByRole('button', { name: 'Look at 127.0.0.1:19' }).click()
  await questions.waitFor({ state: 'hidden' })
  await reader.waitForText('Waiting for somebody who has')
})
