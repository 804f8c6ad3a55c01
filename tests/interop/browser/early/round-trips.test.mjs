// Counts the round trips through the network until a small page is on screen.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { startSteppedNetwork } from '../../lib/stepped-network.mjs'
import { blocksOf } from '../bitswap-messages.mjs'
import { newVisitor, startServer } from '../page-driver.mjs'
import { honestHolder, joinPage } from '../raw-peer.mjs'

/**
 * Round trips to the server after the app has loaded, its style sheet included. The join takes two, because the server passes its request
 * for the first block on to the holder. One more is the rest of the socket's opening, which begins while the app loads.
 */
const ROUND_TRIPS_MAX = 3
/** And after the document: one for the script that opens the socket, two for the socket, and two for the join. */
const ROUND_TRIPS_OF_ALL_MAX = 5

test('a page of 20 KB is on screen two round trips after the socket is open', async (t) => {
  const page = blocksOf(Buffer.from(`# A trip\n\n${'We walk along the river. '.repeat(800)}\n\nThe end.\n`))
  const server = await startServer(t)
  const network = await startSteppedNetwork(t, server)
  const endpoint = `${network.address.replace('http', 'ws')}/socket`
  const holder = await joinPage(t, { ...server, endpoint }, page.root, 'all', honestHolder(page.blocks))
  const visitor = await newVisitor(t, { port: new URL(network.address).port })
  const events = []
  const note = (what) => events.push({ step: network.steps, what })
  const { tab } = visitor
  tab.on('requestfinished', (request) => note(`loaded ${new URL(request.url()).pathname}`))
  tab.on('websocket', (socket) => {
    socket.on('framesent', ({ payload }) => note(`sent ${nameOf(payload)}`))
    socket.on('framereceived', ({ payload }) => note(`received ${nameOf(payload)}`))
  })
  await tab.exposeFunction('noteShown', () => note('shown'))
  await tab.addInitScript(() => {
    const look = () => {
      if (document.querySelector('.prose')?.textContent.includes('The end.')) globalThis.noteShown()
      else requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
  })
  await visitor.goTo(`/p/${page.root}#filename=trip.md`)
  await tab.getByText('The end.').waitFor()
  visitor.assertNoPageErrors()

  const stepOf = (pattern) => events.findLast(({ what }) => pattern.test(what))?.step
  const loaded = stepOf(/^loaded \/assets\/first-/)
  const roundTrips = (stepOf(/^shown/) - loaded) / 2
  const ofAll = (stepOf(/^shown/) - stepOf(/^loaded \/p\//)) / 2
  const sinceJoin = (stepOf(/^shown/) - stepOf(/^sent phx_join of page/)) / 2
  for (const { step, what } of events) t.diagnostic(`${(step - loaded) / 2}: ${what}`)
  assert.equal(holder.wantsReceived.length, 1, 'the first block is requested once')
  assert(sinceJoin <= 2, `from the join, it took ${sinceJoin} round trips`)
  assert(roundTrips <= ROUND_TRIPS_MAX, `from the app, it took ${roundTrips} round trips`)
  assert(ofAll <= ROUND_TRIPS_OF_ALL_MAX, `from the document, it took ${ofAll} round trips`)
})

/** The event of a message of Phoenix, with its topic. */
function nameOf(payload) {
  const text = Buffer.isBuffer(payload) ? payload.toString('latin1') : payload
  const [, , topic, event] = text.startsWith('[') ? JSON.parse(text) : ['', '', 'page:', /relay/.test(text) ? 'relay' : 'bytes']
  return `${event} of ${topic.replace(/:.*/, '')}`
}
