// The pace of a machine that other programs keep busy. A limit in seconds is for an idle one; a test multiplies it by the slowdown.

import { blocksOf } from './bitswap-messages.mjs'
import { honestHolder, joinPage } from './raw-peer.mjs'

/** Time for a tab with the app to open a page of one block, on an idle machine. */
const A_BLOCK_MS = 500

/** How many times slower this machine is now than an idle one, at least 1: an honest holder gives the visitor a page of one block. */
export async function slowdownOf(t, server, visitor) {
  const { root, blocks } = blocksOf(Buffer.from('One honest block.\n'))
  const holder = await joinPage(t, server, root, 'all', honestHolder(blocks))
  const took = await openingTime(visitor, `/p/${root}#filename=control.txt`, 'One honest block.')
  await holder.leave()
  t.diagnostic(`a page of one honest block took ${Math.round(took)} ms`)
  return Math.max(1, took / A_BLOCK_MS)
}

/** Milliseconds until a visitor on the home page sees the words of a page. */
export async function openingTime(visitor, page, words) {
  await visitor.goTo('/')
  await visitor.waitForText(/people here now/)
  const began = performance.now()
  await visitor.goTo(page)
  await visitor.waitForText(words)
  return performance.now() - began
}
