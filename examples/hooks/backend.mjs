// A backend that decides about joins and messages: rooms for two, in which nobody shouts.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const { PORT = '8001', HOOKS_SECRET = 'example secret, replace it: 0123456789' } = process.env

/** The channels of each room. A client that joins has a channel with an id of its own. */
const rooms = new Map()

const hooks = {
  join({ topic, channel, user, payload }) {
    const members = rooms.get(topic) ?? new Set()
    if (members.size >= 2) return { allow: false, reason: 'the room is full' }
    rooms.set(topic, members.add(channel))
    return { allow: true, meta: { name: user ?? payload.name ?? 'guest' }, reply: { members: members.size } }
  },
  publish({ event, payload }) {
    if (event !== 'message') return { allow: false, reason: 'unknown event' }
    return { allow: true, payload: { text: String(payload?.text).toLowerCase() } }
  },
  leave({ topic, channel }) {
    rooms.get(topic)?.delete(channel)
    return {}
  },
}

/** Whether Watchfire sent this body, within the last five minutes. */
function isSigned(body, header) {
  const [, time, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(header)) ?? []
  if (!time || Math.abs(Date.now() / 1000 - Number(time)) > 300) return false
  const expected = createHmac('sha256', HOOKS_SECRET).update(`${time}.`).update(body).digest()
  return timingSafeEqual(expected, Buffer.from(signature, 'hex'))
}

createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  if (!isSigned(body, request.headers['watchfire-signature'])) return response.writeHead(401).end()
  const question = JSON.parse(body.toString())
  const answer = hooks[question.hook](question)
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
}).listen(Number(PORT), '127.0.0.1')
