import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'

const { PORT = '8000', WATCHFIRE_URL = 'http://localhost:4000', TOKEN_SECRET, API_KEY } = process.env
const BOARD = 'cursors:board'

function sign(claims) {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const message = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`
  return `${message}.${createHmac('sha256', TOKEN_SECRET).update(message).digest('base64url')}`
}

function tokenOf(name) {
  const exp = Math.floor(Date.now() / 1000) + 3600
  return sign({ sub: name, exp, channels: { join: [BOARD], publish: [BOARD] }, meta: { name } })
}

async function publish(topic, event, payload) {
  const response = await fetch(`${WATCHFIRE_URL}/api/publish`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ topic, event, payload }),
  })
  if (!response.ok) throw new Error(await response.text())
}

createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost')
  const answer = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  try {
    if (pathname === '/token') return answer(200, { token: tokenOf(searchParams.get('name') ?? 'guest') })
    if (pathname === '/clear' && request.method === 'POST') {
      await publish(BOARD, 'clear', {})
      return answer(200, {})
    }
    answer(404, {})
  } catch (error) {
    answer(502, { error: error.message })
  }
}).listen(Number(PORT), '127.0.0.1')
