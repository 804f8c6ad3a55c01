// A holder that sends a block only when the one before has arrived.

import { waitUntil } from '../../lib/deadlines.mjs'
import { WAIT_MS } from '../page-driver.mjs'

/** Lets a holder send one block after another has arrived, until `isShown`. */
export async function sendUntil(holder, { tab }, isShown) {
  const progress = () => tab.evaluate(() => document.querySelector('.coming progress')?.getAttribute('value') ?? null)
  let arrived = null
  const look = async () => {
    if (await isShown()) return true
    const now = await progress()
    if (now !== arrived) {
      arrived = now
      holder.allow(1)
    }
    return null
  }
  await waitUntil(look, 'it is shown', WAIT_MS)
  holder.allow(0)
}
