// Clients that follow a topic with a history, and recover what they missed.

import assert from 'node:assert/strict'

import { reply } from './test-client.mjs'

/** Joins a topic as docs/how-to/recover-missed-messages.md shows it. */
export async function follow(client, topic) {
  let position = null
  const seen = { notes: [], positions: [], answers: [], errors: 0 }
  const channel = client.socket.channel(topic, () => ({ history: { after: position } }))
  const onJoined = (answer) => {
    seen.answers.push(answer)
    if (!answer.recovered) position = answer.position
  }
  channel.on('note', ({ n }, ref) => {
    seen.notes.push(n)
    seen.positions.push(ref)
    position = ref
  })
  channel.onError(() => seen.errors++)
  const { status, response } = await reply(channel.join().receive('ok', onJoined), `${topic} is joined`)
  assert.equal(status, 'ok', JSON.stringify(response))
  return seen
}

/** The numbers from 1 on that a client lacks, and those that it has twice or in another order. */
export const faults = (notes, last) => {
  const missing = Array.from({ length: last }, (_, index) => index + 1).filter((n) => !notes.includes(n))
  const disorder = notes.filter((n, index) => index > 0 && n <= notes[index - 1])
  return { missing, disorder }
}
